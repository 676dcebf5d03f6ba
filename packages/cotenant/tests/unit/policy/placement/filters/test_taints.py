from __future__ import annotations

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Match, Taint, TaintEffect, Toleration
from cotenant.model.resources import Amounts
from cotenant.policy.placement.filters import taints

SIZE = Amounts.of({"cpu": 1000, "memory": 100})
GPU = Taint("gpu", "a100")
DRAIN = Taint("drain", "", TaintEffect.NO_EXECUTE)
OLD = Taint("old", "", TaintEffect.PREFER_NO_SCHEDULE)
SLOW = Taint("slow", "", TaintEffect.PREFER_NO_SCHEDULE)
ROWS = np.arange(4)


def cluster() -> Encoder:
    encoder = Encoder(half_node_cores=1.0)
    for name, marks in (("clean", ()), ("gpu", (GPU,)), ("both", (GPU, DRAIN, OLD)), ("soft", (OLD, SLOW))):
        encoder.add_node(Node(name, SIZE, taints=marks))
    return encoder


def answers(*tolerations: Toleration) -> tuple[list[bool], list[float]]:
    encoder = cluster()
    _, k = encoder.add_pod(Pod("p", tolerations=tolerations))
    nodes, shapes = encoder.nodes(), encoder.shapes()
    return taints.mask(nodes, shapes, k, ROWS).tolist(), taints.score(nodes, encoder.untolerated(k), ROWS).tolist()


def test_without_tolerations() -> None:
    assert answers() == ([True, False, False, True], [100.0, 100.0, 50.0, 0.0])


def test_tolerating_one_of_two_is_not_enough() -> None:
    assert answers(Toleration("gpu", Match.EXISTS))[0] == [True, True, False, True]
    both = answers(Toleration("gpu", Match.EXISTS), Toleration("drain", Match.EXISTS))
    assert both[0] == [True, True, True, True]


def test_tolerated_soft_taints_cost_nothing() -> None:
    assert answers(Toleration("old", Match.EXISTS))[1] == [100.0, 100.0, 100.0, 0.0]
    assert answers(Toleration(operator=Match.EXISTS))[1] == [100.0] * 4
    assert answers(Toleration("old", Match.EXISTS, effect=TaintEffect.NO_SCHEDULE))[1] == [100.0, 100.0, 50.0, 0.0]


def test_the_score_is_relative_to_the_rows_asked_for() -> None:
    encoder = cluster()
    _, k = encoder.add_pod(Pod("p"))
    assert taints.score(encoder.nodes(), encoder.untolerated(k), np.array([2, 0])).tolist() == [0.0, 100.0]
    assert taints.score(encoder.nodes(), encoder.untolerated(k), np.array([], dtype=np.int64)).tolist() == []


def test_the_reason_names_the_taint() -> None:
    assert taints.reason(GPU) == "node(s) had untolerated taint {gpu: a100}"
