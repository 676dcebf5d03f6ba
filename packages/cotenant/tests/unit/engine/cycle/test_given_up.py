"""A judgement that is given up at one of its looks at the clock, early, late or between: what was nominated or held
before stands, nothing new does, and the next try succeeds.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from bench.fuzz.giants import LISTS, giant, small_pod
from tests.unit.engine.cycle.test_large_pods import _cluster, _see

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Instruction, Preempt, Unschedulable

_BY_NAME = {list_.name: list_ for list_ in LISTS}
GANG = {"gang.scheduling.koordinator.sh/name": "g", "gang.scheduling.koordinator.sh/min-available": "3"}
pytestmark = pytest.mark.slow
NODES = 3
LATER_S = 40.0  # the lane of large pods has rested for what the expensive look cost, and the back-off is over


class Looks:
    """A clock that stands still, until one look at it costs too much."""

    def __init__(self) -> None:
        self.now_s, self.looks, self.fatal = 0.0, 0, 0

    def __call__(self) -> float:
        self.looks += 1
        if self.looks == self.fatal:
            self.now_s += 1.0
        return self.now_s

    def give_up_at(self, look: int) -> None:
        """The so-manieth look from now; 0 = none."""
        self.looks, self.fatal = 0, look


def filled(clock: Looks) -> Cluster:
    """A pod of low priority fills each node."""
    cluster = _cluster(clock, NODES)
    for i in range(NODES):
        document = sized(small_pod(f"low{i}"), "60", 0)
        document["spec"]["nodeName"], document["status"]["phase"] = f"n{i}", "Running"
        _see(cluster, document)
    return cluster


def sized(document: dict[str, Any], cpu: str, priority: int) -> dict[str, Any]:
    document["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    document["spec"]["priority"] = priority
    return document


def large(name: str, cpu: str, priority: int) -> dict[str, Any]:
    return sized(giant(name, (_BY_NAME["anti-affinity"],), most=300), cpu, priority)


def preempts(given: tuple[Instruction, ...]) -> list[Preempt]:
    return [instruction for instruction in given if isinstance(instruction, Preempt)]


def is_set_aside(given: tuple[Instruction, ...]) -> bool:
    return any(
        isinstance(instruction, Unschedulable) and instruction.message.startswith("set aside") for instruction in given
    )


def some(looks: int) -> list[int]:
    """A few of so many looks, the first and the last among them."""
    return sorted({1, 2, looks // 3, looks // 2, 2 * looks // 3, looks - 1, looks} - {0})


@cache
def looks_of_a_preemption() -> int:
    clock = Looks()
    cluster = filled(clock)
    _see(cluster, large("big", "60", 1000))
    clock.give_up_at(0)
    assert preempts(cluster.decide(0.0))
    return clock.looks


def test_a_preemption_given_up_at_any_look_evicts_nobody_and_is_made_at_the_next_try() -> None:
    given_up = 0
    for look in some(looks_of_a_preemption()):
        clock = Looks()
        cluster = filled(clock)
        _see(cluster, large("big", "60", 1000))
        clock.give_up_at(look)
        given = cluster.decide(0.0)
        cluster.validate()
        assert is_set_aside(given) != bool(preempts(given))
        given_up += is_set_aside(given)
        if is_set_aside(given):
            clock.give_up_at(0)
            (made,) = preempts(cluster.decide(LATER_S))
            assert len(made.victims) == 1
    assert given_up > 1


def test_a_nominated_pod_whose_judgement_is_given_up_keeps_its_node() -> None:
    """The room that it waits for is kept from others."""
    for look in some(looks_of_a_preemption()):
        clock = Looks()
        cluster = filled(clock)
        _see(cluster, large("big", "60", 1000))
        (made,) = preempts(cluster.decide(0.0))
        clock.give_up_at(look)
        cluster.pod_gone(made.victims[0].uid, 20.0)
        _see(cluster, sized(small_pod("other"), "60", 500), 20.0)
        cluster.decide(20.0)
        given = cluster.decide(20.0)
        cluster.validate()
        assert [
            instruction.key
            for instruction in given
            if isinstance(instruction, Bind) and instruction.key.endswith("other")
        ] == []
        clock.give_up_at(0)
        bound: dict[str, str] = {}
        for now_s in (60.0, 400.0, 800.0):
            bound |= {
                instruction.key: instruction.node
                for instruction in cluster.decide(now_s)
                if isinstance(instruction, Bind)
            }
        assert bound["default/big"] == made.node
        cluster.validate()


@pytest.mark.parametrize("which", [0, 2])
def test_a_gang_given_up_at_any_look_holds_nothing_and_is_placed_whole_later(which: int) -> None:
    """The large member is the first, and the last: members before it had a node already."""

    def gang(clock: Looks) -> Cluster:
        cluster = _cluster(clock, NODES)
        for i in range(3):
            document = large(f"m{i}", "40", 0) if i == which else sized(small_pod(f"m{i}"), "40", 0)
            document["metadata"]["annotations"] = GANG
            _see(cluster, document)
        return cluster

    clock = Looks()
    cluster = gang(clock)
    clock.give_up_at(0)
    assert len([instruction for instruction in cluster.decide(0.0) if isinstance(instruction, Bind)]) == 3
    given_up = 0
    for look in some(clock.looks):
        clock = Looks()
        cluster = gang(clock)
        clock.give_up_at(look)
        given = cluster.decide(0.0)
        cluster.validate()
        bound = [instruction for instruction in given if isinstance(instruction, Bind)]
        assert len(bound) in (0, 3)
        given_up += not bound
        if not bound:
            assert is_set_aside(given)
            clock.give_up_at(0)
            _see(cluster, sized(small_pod("whole"), "64", 0), 1.0)  # nothing is kept for the members
            assert [instruction.key for instruction in cluster.decide(1.0) if isinstance(instruction, Bind)] == [
                "default/whole"
            ]
            cluster.pod_gone("uid-default-whole", 2.0)
            later = [
                instruction
                for now_s in (LATER_S, 2 * LATER_S)
                for instruction in cluster.decide(now_s)
                if isinstance(instruction, Bind)
            ]
            assert len(later) == 3
    assert given_up
