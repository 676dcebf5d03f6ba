"""Rejections by node rules are counted, can be near misses, and can change in a what-if."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.fakes.cluster.questions import cluster, node, pod

from cotenant.engine.cluster import Cluster
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.instructions import Bind, Unschedulable
from cotenant.engine.framework.node_rules import NodeRules, RuleResult
from cotenant.engine.registry import PluginRegistry
from cotenant.model.arrays import Int
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.pod import Pod
from cotenant.model.decisions.answers import WhatIf
from cotenant.policy.placement.preference import PreferencePart

SIZE = "ephemeral-storage"


class Slots:
    """Each node has one free slot of each size up to its number; a request is rounded up to a slot, so no sum
    describes it.
    """

    name = "Slots"

    def __init__(self, largest: dict[str, int]) -> None:
        self.largest = largest
        self.needs: dict[int, int] = {}
        self.at: dict[int, int] = {}
        self.log: list[str] = []

    def capture(self) -> Callable[[], Slots]:
        largest = self.largest
        return lambda: Slots(largest)

    def attach(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.needs, self.at = {}, {}

    def add_pod(self, number: int, pod: Pod, demands: Demands, holds: Holdings) -> bool:
        if size := pod.requests.get(SIZE):
            self.needs[number] = size
        return bool(pod.requests.get(SIZE))

    def set_holdings(self, number: int, holds: Holdings) -> None: ...

    def rules(self, number: int) -> Iterator[RuleResult]:
        left = np.zeros(len(self.encoder.nodes().ready), dtype=np.bool_)
        for name, row in self.encoder.node_rows.items():
            taken = any(at == row for at in self.at.values())
            left[row] = self.needs[number] <= self.largest[name] and not taken
        yield RuleResult("Slots", f"node(s) had no slot of {self.needs[number]}", left, True)

    def preferences(self, number: int, rows: Int) -> tuple[PreferencePart, ...]:
        return (
            PreferencePart("slots", np.array([-float(self.largest[self.encoder.node(int(row)).name]) for row in rows])),
        )

    def allocate(self, number: int, row: int) -> None:
        self.at[number] = row

    assign = allocate

    def unassign(self, number: int) -> None:
        del self.at[number]

    def remove_pod(self, number: int) -> None:
        del self.needs[number]

    def holdings(self, number: int, holds: Holdings) -> Holdings:
        return holds

    def validate(self) -> None:
        assert self.at.keys() <= self.needs.keys()


@dataclass(frozen=True, slots=True)
class WithSlots(PluginRegistry):
    slots: Any = None

    def node_rules(self) -> tuple[NodeRules, ...]:
        return (self.slots,)


def with_slots(**largest: int) -> tuple[Cluster, Slots]:
    slots = Slots(largest)
    nodes = [node(name) for name in largest]
    c = cluster(*nodes, plugins=WithSlots(slots=slots))
    return c, slots


def slotted(name: str, size: int) -> Any:
    seen = pod(name, 100)
    amounts = type(seen.pod.requests).of({**dict(seen.pod.requests), SIZE: size})
    return type(seen)(type(seen.pod)(name, requests=amounts), seen.uid, seen.scheduler, 0.0)


def roomy(c: Cluster, *names: str) -> None:
    for name in names:
        big = node(name)
        c.node_seen(type(big)(name, big.allocatable + type(big.allocatable).of({SIZE: 100}), big.labels))


def test_pods_of_one_kind_and_shape_with_different_demands_get_their_own_verdicts() -> None:
    c, _ = with_slots(a=3, b=5)
    roomy(c, "a", "b")
    c.pod_seen(slotted("x", 7), 0.0)
    c.pod_seen(slotted("y", 9), 0.0)
    told = {
        instruction.key: instruction.message for instruction in c.decide(0.0) if isinstance(instruction, Unschedulable)
    }
    assert told["default/x"] == "0/2 nodes are available: 2 node(s) had no slot of 7."
    assert told["default/y"] == "0/2 nodes are available: 2 node(s) had no slot of 9."


def test_a_node_rules_rejection_is_a_near_miss_and_changes_in_a_what_if() -> None:
    c, slots = with_slots(a=3, b=5)
    roomy(c, "a", "b")
    c.pod_seen(slotted("x", 7), 0.0)
    c.decide(0.0)
    answer = c.why.pod("default/x", 1.0)
    assert answer is not None
    assert answer.waiting is not None
    assert answer.waiting.nearest == ("2 nodes fit but for node(s) had no slot of 7",)
    assert answer.waiting.helps == ()  # a fact about nodes is no change that helps
    before = dict(slots.needs), dict(slots.at)
    answer = c.why.pod("default/x", 1.0, WhatIf.parse((f"{SIZE}=4",)))
    assert answer is not None
    assert answer.headline == f"with {SIZE} 4, 1 of 2 nodes would take it, b first"
    assert (slots.needs, slots.at) == before


def test_an_assigned_pods_holdings_count_as_free_in_its_own_what_if() -> None:
    c, slots = with_slots(a=3, b=5)
    roomy(c, "a", "b")
    c.pod_seen(slotted("x", 4), 0.0)
    (bind,) = c.decide(0.0)
    assert isinstance(bind, Bind)
    before = dict(slots.at)
    answer = c.why.pod("default/x", 1.0)
    assert answer is not None
    assert [candidate.node for candidate in answer.candidates] == ["b"]
    assert [part.name for part in answer.candidates[0].parts] == ["profile score", "slots"]
    assert slots.at == before
    c.validate()
