from __future__ import annotations

import numpy as np

from cotenant.engine.encoding import Encoder
from cotenant.engine.rejections import rejections
from cotenant.model.arrays import Sum
from cotenant.model.labels import Labels
from cotenant.model.node import Node
from cotenant.model.pod import Pod
from cotenant.model.reasons import no_node_line
from cotenant.model.resources import Amounts
from cotenant.model.taints import Match, Taint, Toleration

SMALL = Amounts.of({"cpu": 100, "memory": 100})
LARGE = Amounts.of({"cpu": 8000, "memory": 1000, "nvidia.com/gpu": 1})
SSD = Labels.of({"disk": "ssd"})


def cluster() -> Encoder:
    encoder = Encoder(half_node_cores=4.0)
    encoder.add_node(Node("down", LARGE, SSD, ready=False))
    encoder.add_node(Node("cordoned", LARGE, SSD, unschedulable=True))
    encoder.add_node(Node("gpu", LARGE, SSD, (Taint("gpu", "a100"),)))
    encoder.add_node(Node("disk", LARGE))
    encoder.add_node(Node("small1", SMALL, SSD))
    encoder.add_node(Node("small2", SMALL, SSD))
    encoder.add_node(Node("full", LARGE, SSD))
    encoder.add_node(Node("hot", LARGE, SSD))
    encoder.add_node(Node("good", LARGE, SSD))
    return encoder


def test_each_node_is_counted_under_the_filter_that_refused_it() -> None:
    encoder = cluster()
    requests = Amounts.of({"cpu": 1000, "memory": 10, "nvidia.com/gpu": 1})
    _, k = encoder.add_pod(Pod("p", requests=requests, node_selector=SSD, group="web", group_limit=2, load_limit=0.5))
    nodes = encoder.nodes()
    nodes.group_count[encoder.node_rows["full"], 0] = 2
    nodes.sums[encoder.node_rows["hot"], Sum.USE_CPU] = 4000
    told = {(r.filter, r.reason): r.nodes for r in rejections(encoder, k)}
    assert told == {
        ("NodeReady", "node(s) were not ready or unschedulable"): 1,
        ("NodeUnschedulable", "node(s) were unschedulable"): 1,
        ("TaintToleration", "node(s) had untolerated taint {gpu: a100}"): 1,
        ("NodeAffinity", "node(s) didn't match Pod's node affinity/selector"): 1,
        ("NodeResourcesFit", "Insufficient cpu"): 2,
        ("NodeResourcesFit", "Insufficient nvidia.com/gpu"): 2,
        ("GroupLimit", "node(s) already held as many pods of the group as allowed"): 1,
        ("LoadThreshold", "node(s) predicted to be above the load threshold"): 1,
    }


def test_only_the_rows_that_narrowing_left_are_asked() -> None:
    encoder = cluster()
    _, k = encoder.add_pod(Pod("p", requests=Amounts.of({"cpu": 9000}), tolerations=(Toleration("gpu", Match.EXISTS),)))
    rows = np.array([encoder.node_rows[name] for name in ("gpu", "small1")])
    line = no_node_line(2, rejections(encoder, k, rows))
    assert line == "0/2 nodes are available: 2 Insufficient cpu."


def test_a_node_that_is_gone_is_not_counted() -> None:
    encoder = cluster()
    _, k = encoder.add_pod(Pod("p", requests=Amounts.of({"cpu": 9000})))
    before = sum(r.nodes for r in rejections(encoder, k))
    encoder.remove_node("small1")
    assert sum(r.nodes for r in rejections(encoder, k)) == before - 1


def test_taints_without_a_bit_are_told_too() -> None:
    encoder = Encoder(half_node_cores=4.0)
    for i in range(70):
        encoder.add_node(Node(f"n{i}", LARGE, taints=(Taint("t", str(i)),)))
    _, k = encoder.add_pod(Pod("p"))
    told = rejections(encoder, k)
    assert len(told) == 70
    assert told[69].reason == "node(s) had untolerated taint {t: 69}"
