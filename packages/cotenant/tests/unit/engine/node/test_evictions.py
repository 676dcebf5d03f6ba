"""What may be requested, and what the limits count."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.node.fake_node import pod

from cotenant.engine.node.evictions import MINUTE_US, NOT_NAMED, Evictions
from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.settings import SECOND_US, EvictionLimits
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_decision import EvictPod, Reason
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.verdict import PolicyVerdict

REASON = Reason("test", "too much")
GUESTS = tuple(pod(f"g{i}", f"kubepods/besteffort/podg{i}", QoSClass.BE) for i in range(6))
# What the tree alone knows of them.
NAMELESS = tuple(replace(guest, namespace="", name=guest.uid, is_named=False) for guest in GUESTS)


class World:
    def __init__(self, **limits: int) -> None:
        self.evictions = Evictions(EvictionLimits(**limits), AgentCounts())
        self.now_us = 0

    def ask(
        self, wanted: tuple[NodePod, ...], here: tuple[NodePod, ...] | None = None, after_s: float = 1
    ) -> list[str]:
        """The UIDs that are requested at the next tick; `here`: what is discovered by then."""
        self.now_us += round(after_s * SECOND_US)
        verdict = PolicyVerdict(
            (REASON,), evictions=tuple(EvictPod(node_pod.uid, node_pod.key, REASON) for node_pod in wanted)
        )
        pods = {node_pod.uid: node_pod for node_pod in (wanted if here is None else here)}
        chosen = self.evictions.choose([("test", verdict)], pods, self.now_us)
        self.evictions.validate(self.now_us)
        return [eviction.uid for _, eviction in chosen]

    def answer(self, uids: list[str], accepted: bool, rehearsed: bool = False) -> None:
        for uid in uids:
            self.evictions.answered(uid, accepted, "", self.now_us, rehearsed=rehearsed)
        self.evictions.validate(self.now_us)


@pytest.mark.parametrize(
    ("wanted", "here", "asked"),
    [
        (NAMELESS, NAMELESS, []),
        (GUESTS[:1], NAMELESS[:1], []),  # no longer named by any source
        (NAMELESS, GUESTS, []),  # judged before the pod was named: by a class that was not known
        (GUESTS, GUESTS, ["uid-g0", "uid-g1"]),
        ((*NAMELESS[:4], *GUESTS[4:]), (*NAMELESS[:4], *GUESTS[4:]), ["uid-g4", "uid-g5"]),
        (GUESTS[:1], (replace(GUESTS[0], phase=NodePodPhase.TERMINATING),), []),
        (GUESTS[:1], (), []),
    ],
)
def test_only_pods_with_a_name_are_requested(
    wanted: tuple[NodePod, ...], here: tuple[NodePod, ...], asked: list[str]
) -> None:
    world = World()
    assert world.ask(wanted, here) == asked
    waiting = [uid for uid, why in world.evictions.paced().items() if why == NOT_NAMED]
    assert set(waiting).isdisjoint(asked)
    # Nothing of the budget was used by those that were not requested.
    assert len(world.ask(GUESTS, after_s=0)) == 2 - len(asked)


@pytest.mark.parametrize(("accepted", "rehearsed", "left"), [(True, False, 0), (False, False, 2), (False, True, 0)])
def test_limits_count_what_was_accepted(accepted: bool, rehearsed: bool, left: int) -> None:
    for limits in ({"per_minute": 2}, {"per_hour": 2}, {"per_tenant_per_hour": 2}):
        world = World(outstanding=6, **{"per_minute": 6, "per_hour": 6, "per_tenant_per_hour": 6} | limits)
        first = world.ask(GUESTS)
        assert len(first) == 2
        world.answer(first, accepted, rehearsed)
        assert len(world.ask(GUESTS)) == left


def test_a_request_without_an_answer_counts() -> None:
    world = World(per_minute=2, outstanding=6)
    assert len(world.ask(GUESTS)) == 2
    assert world.ask(GUESTS) == []


def test_refusals_rest_the_pod_and_after_many_everything() -> None:
    world = World(per_minute=2, outstanding=6, refused_per_minute=3)
    asked = []
    for _ in range(60):
        asked.append(world.ask(GUESTS))
        world.answer(asked[-1], accepted=False)
    assert [uids for uids in asked if uids] == [["uid-g0", "uid-g1"], ["uid-g2", "uid-g3"]]
    assert set(world.evictions.paced().values()) == {"3 refused within a minute"}
    # A minute after the first refusal, those that were never asked come first.
    assert world.ask(GUESTS, after_s=MINUTE_US / SECOND_US) == ["uid-g4", "uid-g5"]


def test_an_answer_long_after_its_request_is_counted_once() -> None:
    world = World(answer_us=3 * 3600 * SECOND_US)
    first = world.ask(GUESTS)
    world.ask(GUESTS, after_s=2 * 3600)
    world.answer(first, accepted=False)
    assert len(world.ask(GUESTS)) == 2


def test_limits_are_not_negative() -> None:
    with pytest.raises(InvalidInput):
        EvictionLimits(refused_per_minute=-1)


def test_evictions_of_one_namespace_leave_the_limit_of_anothers_tenant() -> None:
    """A tenant is an annotation that any pod may carry."""
    limits = {"outstanding": 6, "per_minute": 6, "per_hour": 6, "per_tenant_per_hour": 2}
    forged = tuple(replace(guest, namespace="evil", tenant="shop") for guest in GUESTS[:2])
    own = tuple(replace(guest, namespace="shop", tenant="shop") for guest in GUESTS[2:4])
    world = World(**limits)
    assert world.ask(forged) == ["uid-g0", "uid-g1"]
    assert world.ask(own, (*forged, *own)) == ["uid-g2", "uid-g3"]
    again = replace(GUESTS[4], namespace="evil", tenant="shop")
    assert world.ask((again,), (*forged, *own, again)) == []
    assert world.evictions.paced() == {"uid-g4": "2 of tenant shop in evil within an hour"}
