"""Shares that want the same of a GPU, with a whole cluster's engine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.engine.rules.test_devices import cluster, decided, gpus, minors, part, pod

from cotenant.engine.cluster import Cluster
from cotenant.engine.rules.devices.requests import DeviceSettings
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.devices.card_need import ROLE, CardNeed, ServingPhase
from cotenant.model.resources import GPU

ON = DeviceSettings(neighbours=6.0)
TRAIN, SCAN = CardNeed(80, 20), CardNeed(20, 80)


def share(name: str, need: CardNeed, **more: object) -> ObservedPod:
    return pod(name, {GPU: 30}, demands=Demands(card_need=need), **more)  # type: ignore[arg-type]


def two_nodes(settings: DeviceSettings = ON) -> Cluster:
    made = cluster("a", "b", settings=settings)
    made.plugins.devices.seen(gpus("a", 1))
    made.plugins.devices.seen(gpus("b", 1))
    made.pod_seen(share("train", TRAIN, on="a", holds=Holdings(devices=(part(0, 30),))), 0.0)
    made.pod_seen(share("scan", SCAN, on="b", holds=Holdings(devices=(part(0, 20),))), 0.0)
    return made


def where(made: Cluster, name: str) -> str:
    return decided(made, 0.0)[name].node


def test_a_node_whose_card_is_bound_otherwise_is_preferred() -> None:
    made = two_nodes()
    made.pod_seen(share("x", TRAIN), 0.0)
    assert where(made, "x") == "b"


@pytest.mark.parametrize(
    ("there", "elsewhere"),
    [
        (CardNeed(10, 10, ServingPhase.DECODE), CardNeed(100, 100)),  # a prefill beside a decode is worst
        (CardNeed(10, 10, ServingPhase.DECODE), CardNeed(10, 10, growth=60)),
        (CardNeed(10, 10, growth=60), CardNeed(100, 10)),  # then the room of caches
    ],
)
def test_between_nodes_what_speaks_against_a_card_counts_by_its_kind(there: CardNeed, elsewhere: CardNeed) -> None:
    made = cluster("a", "b", settings=ON)
    made.plugins.devices.seen(gpus("a", 1))
    made.plugins.devices.seen(gpus("b", 1))
    made.pod_seen(share("there", there, on="a", holds=Holdings(devices=(part(0, 30),))), 0.0)
    made.pod_seen(share("elsewhere", elsewhere, on="b", holds=Holdings(devices=(part(0, 20),))), 0.0)
    made.pod_seen(share("x", CardNeed(100, 60, ServingPhase.PREFILL)), 0.0)
    assert where(made, "x") == "b", "though a is fuller"


def test_by_default_needs_are_not_looked_at() -> None:
    made = two_nodes(DeviceSettings())
    made.pod_seen(share("x", TRAIN), 0.0)
    assert where(made, "x") == "a", "it packs"


def test_a_need_that_is_learnt_later_counts_for_who_is_there_and_who_comes() -> None:
    made = two_nodes()
    changed = share("train", SCAN, on="a", holds=Holdings(devices=(part(0, 30),)))
    made.pod_seen(changed, 1.0)
    made.pod_seen(share("x", TRAIN), 1.0)
    assert where(made, "x") == "a"
    made.validate()


def test_who_leaves_is_no_neighbour_any_more() -> None:
    made = two_nodes()
    made.pod_gone("uid-train", 1.0)
    made.pod_seen(share("x", TRAIN), 1.0)
    made.pod_seen(share("y", TRAIN), 1.0)
    got = decided(made, 1.0)
    assert sorted(bind.node for bind in got.values()) == ["a", "b"]


def test_the_role_of_a_model_server_says_its_phase() -> None:
    made = cluster("a", settings=ON)
    made.plugins.devices.seen(gpus("a", 2))
    for name, role in (("p", "prefill"), ("d", "decode"), ("d2", "decode"), ("p2", "prefill")):
        seen = pod(name, {GPU: 30})
        made.pod_seen(replace(seen, pod=replace(seen.pod, labels=Labels.of({ROLE: role}))), 0.0)
    got = {name: minors(bind) for name, bind in decided(made, 0.0).items()}
    assert got["p"] == got["p2"] != got["d"] == got["d2"]


def test_explain_says_what_speaks_against_the_neighbours() -> None:
    made = cluster("a", settings=ON)
    made.plugins.devices.seen(gpus("a", 1))
    made.pod_seen(share("train", TRAIN), 0.0)
    made.pod_seen(share("x", TRAIN), 0.0)
    decided(made, 0.0)
    answer = made.why.pod("default/x", 0.0)
    assert answer is not None
    (concern,) = [one for one in answer.concerns if one.kind == "GPU neighbours"]
    assert concern.words == "gpu 0: 160 % of its multiprocessors are wanted"


def test_explain_names_the_part_of_the_score() -> None:
    made = two_nodes()
    made.pod_seen(share("x", TRAIN), 0.0)
    decided(made, 0.0)
    made.pod_seen(share("y", TRAIN), 0.0)
    answer = made.why.pod("default/y", 0.0)
    assert answer is not None
    assert any(term.name == "GPU neighbours" for one in answer.candidates for term in one.parts)
