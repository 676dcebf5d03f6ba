from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotenant.engine.cycle.rejections import Explanation, Rejector
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state.narrowing import Narrowing
from cotenant.model.arrays import Int, Sum
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import HostPort, Pod, PodEstimate
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cluster.taints import Match, Taint, Toleration
from cotenant.model.decisions.reasons import Rejection, no_node_line
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

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


def rejections(encoder: Encoder, k: int, rows: Int | None = None) -> tuple[Rejection, ...]:
    return Rejector(encoder, None, profile("first-fit")).explain_shape(k, rows).rejections


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


def explained(encoder: Encoder, pod: Pod, fit: str = "first-fit") -> Explanation:
    number, k = encoder.add_pod(pod)
    narrowing = Narrowing(encoder)
    narrowing.add_pod(number, pod, k)
    return Rejector(encoder, narrowing, profile(fit)).explain(number)


def test_the_nearest_miss_names_the_least_that_is_missing() -> None:
    encoder = Encoder(half_node_cores=4.0)
    for name, cpu in (("a", 800), ("b", 800), ("c", 500)):
        encoder.add_node(Node(name, Amounts.of({"cpu": cpu, "memory": 1000})))
    encoder.add_node(Node("d", LARGE, taints=(Taint("t"),)))
    encoder.add_node(Node("e", SMALL, taints=(Taint("t"),)))
    told = explained(encoder, Pod("p", requests=Amounts.of({"cpu": 1000})))
    assert str(told.nearest) == "2 nodes fit but for 200m cpu"
    assert told.headline() == ("0/5 nodes are available: 2 node(s) had untolerated taint {t: }, 3 Insufficient cpu.")
    encoder = cluster()
    told = explained(
        encoder, Pod("q", node_selector=Labels.of({"disk": "tape"}), tolerations=(Toleration("", Match.EXISTS),))
    )
    assert str(told.nearest) == "8 nodes fit but for node(s) didn't match Pod's node affinity/selector"


def test_rules_about_other_pods_come_after_resources_and_ports_before() -> None:
    encoder = Encoder(half_node_cores=4.0)
    for i in range(4):
        size = SMALL if i == 0 else LARGE
        encoder.add_node(Node(f"n{i}", size, Labels.of({HOSTNAME: f"n{i}"})))
    narrowing = Narrowing(encoder)
    web = PodTerm(HOSTNAME, LabelSelector.of({"app": "web"}))
    for i, resident in enumerate(
        (
            Pod("r0", labels=Labels.of({"app": "web"})),
            Pod("r1", host_ports=(HostPort(80),)),
            Pod("r2", labels=Labels.of({"app": "web"})),
        )
    ):
        number, k = encoder.add_pod(resident)
        narrowing.add_pod(number, resident, k)
        narrowing.assign(number, i)
    pod = Pod(
        "p",
        requests=Amounts.of({"cpu": 1000}),
        host_ports=(HostPort(80),),
        anti_affinity=(web,),
        affinity=(PodTerm(HOSTNAME, LabelSelector.of({"app": "db"})),),
    )
    number, k = encoder.add_pod(pod)
    narrowing.add_pod(number, pod, k)
    rejector = Rejector(encoder, narrowing, profile("first-fit"))
    told = rejector.explain(number, state=1)
    assert told.headline() == (
        "0/4 nodes are available: 1 Insufficient cpu, 1 node(s) didn't have free ports for the requested pod ports, "
        "2 node(s) didn't match pod affinity rules."
    )
    assert rejector.explain(number, state=1) is told
    encoder.update_node(Node("n0", LARGE, Labels.of({HOSTNAME: "n0"})))
    assert rejector.explain(number, state=2).rejections != told.rejections


def test_fit_by_predicted_use_is_told_as_it_is_judged() -> None:
    encoder = Encoder(half_node_cores=4.0)
    encoder.add_node(Node("n", Amounts.of({"cpu": 1000, "memory": 1 << 30})))
    pod = Pod(
        "p", qos=QoSClass.BE, requests=Amounts.of({"cpu": 900, "memory": 1 << 20}), estimate=PodEstimate(2.0, 1 << 20)
    )
    told = explained(encoder, pod, "cotenant")
    assert [r.filter for r in told.rejections] == ["LoadThreshold"]
    assert explained(encoder, replace(pod, name="q"), "first-fit").rejections == ()
