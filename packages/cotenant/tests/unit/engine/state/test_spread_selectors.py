"""Topology spread with an absent or an empty selector counts no pod, as in kube-scheduler."""

from __future__ import annotations

import pytest

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state.narrowing import Narrowing
from cotenant.model.cluster.affinity import SpreadConstraint, WhenUnsatisfiable
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts

SIZE = Amounts.of({"cpu": 1000, "memory": 1000})
APP = Labels.of({"app": "web"})
BY_APP = LabelSelector.of({"app": "web"})


def narrowed(selector: LabelSelector | None, when: WhenUnsatisfiable) -> tuple[Narrowing, int]:
    """Two zones; three pods of the app in zone a; one more pod, with the constraint. Returns its number."""
    encoder = Encoder(half_node_cores=1.0)
    for name, zone in (("n0", "a"), ("n1", "b")):
        encoder.add_node(Node(name, SIZE, Labels.of({HOSTNAME: name, ZONE: zone})))
    narrowing = Narrowing(encoder)
    constraint = SpreadConstraint(ZONE, selector, when_unsatisfiable=when)
    for i in range(4):
        pod = Pod(f"p{i}", labels=APP, spread=(constraint,))
        number, shape = encoder.add_pod(pod)
        narrowing.add_pod(number, pod, shape)
        if i < 3:
            narrowing.assign(number, 0)
    return narrowing, number


@pytest.mark.parametrize(
    ("selector", "allowed"), [(BY_APP, [False, True]), (LabelSelector(), [True, True]), (None, [True, True])]
)
def test_required_spread(selector: LabelSelector | None, allowed: list[bool]) -> None:
    narrowing, number = narrowed(selector, WhenUnsatisfiable.DO_NOT_SCHEDULE)
    assert narrowing.allowed(number).tolist() == allowed


@pytest.mark.parametrize(("selector", "prefers"), [(BY_APP, True), (LabelSelector(), False), (None, False)])
def test_preferred_spread(selector: LabelSelector | None, prefers: bool) -> None:
    narrowing, number = narrowed(selector, WhenUnsatisfiable.SCHEDULE_ANYWAY)
    rows = narrowing.encoder.nodes().ready.nonzero()[0]
    scores = narrowing.preference_score(number, rows)
    assert bool(scores[1] > scores[0]) is prefers
    assert bool(scores[1] == scores[0]) is not prefers
