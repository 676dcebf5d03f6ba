"""Whose CPU list a group has: what others set is remembered while ours is held."""

from __future__ import annotations

from typing import cast

from cotenant.engine.node.knobs.external_cpusets import ExternalCpusets
from cotenant.engine.node.knobs.knob_entry import KnobStatus
from cotenant.engine.node.knobs.knob_tracker import KnobTracker
from cotenant.model.machine.knob import Knob, KnobLease, KnobTarget, LeaseState
from cotenant.model.machine.node_decision import Reason

CPUS, OTHER, QUOTA = (
    KnobTarget("pods/a", Knob.CPUSET_CPUS),
    KnobTarget("pods/b", Knob.CPUSET_CPUS),
    KnobTarget("pods/a", Knob.CPU_MAX),
)


class Held:
    """What is held, by target: value and status."""

    def __init__(self, **fields: object) -> None:
        self.value, self.status = fields.get("value", ""), fields.get("status", KnobStatus.HELD)


class Tracker:
    """Stands for the tracker of knobs."""

    def __init__(self, held: dict[KnobTarget, Held] | None = None) -> None:
        self._held = held or {}

    def get(self, target: KnobTarget) -> Held | None:
        return self._held.get(target)


def seen(
    lists: ExternalCpusets, values: dict[KnobTarget, str], held: dict[KnobTarget, Held] | None = None
) -> dict[KnobTarget, str]:
    return dict(lists.seen(values, cast(KnobTracker, Tracker(held))))


def lease(target: KnobTarget, before: str, value: str) -> KnobLease:
    return KnobLease(target, before, value, Reason("r", "t"), LeaseState.HELD, 0.0, 0, before=before)


def test_what_is_read_of_a_group_that_nobody_of_ours_holds_is_external() -> None:
    lists = ExternalCpusets()
    assert seen(lists, {CPUS: "0-3", QUOTA: "max"}) == {CPUS: "0-3"}
    assert seen(lists, {CPUS: "0-1", OTHER: "5"}) == {CPUS: "0-1", OTHER: "5"}


def test_our_own_value_is_not_an_external_one_even_after_we_gave_it_back() -> None:
    lists = ExternalCpusets()
    seen(lists, {CPUS: "0-3"})
    ours = {CPUS: Held(value="2")}
    assert seen(lists, {CPUS: "2"}, ours) == {CPUS: "0-3"}
    assert seen(lists, {CPUS: "2"}) == {CPUS: "0-3"}  # read once more before it was written back
    assert seen(lists, {CPUS: "0-1"}) == {CPUS: "0-1"}


def test_after_we_yielded_what_is_read_is_another_partys() -> None:
    for status in (KnobStatus.YIELDED, KnobStatus.GONE):
        lists = ExternalCpusets()
        seen(lists, {CPUS: "0-3"})
        seen(lists, {CPUS: "2"}, {CPUS: Held(value="2")})
        assert seen(lists, {CPUS: "1"}, {CPUS: Held(value="2", status=status)}) == {CPUS: "1"}


def test_groups_that_are_gone_are_forgotten_unless_something_is_held_there() -> None:
    lists = ExternalCpusets()
    seen(lists, {CPUS: "0-3", OTHER: "4"})
    assert seen(lists, {CPUS: "0-3"}, {OTHER: Held(value="5")}) == {CPUS: "0-3", OTHER: "4"}
    assert seen(lists, {CPUS: "0-3"}) == {CPUS: "0-3"}
    assert seen(lists, {}) == {}


def test_after_a_restart_the_keepers_leases_say_what_stood_before() -> None:
    lists = ExternalCpusets()
    lists.leases_found([lease(CPUS, "0-3", "2"), lease(QUOTA, "max", "100000 100000")])
    held = {CPUS: Held(value="2")}
    assert seen(lists, {CPUS: "2", QUOTA: "100000 100000"}, held) == {CPUS: "0-3"}
    assert seen(lists, {CPUS: "2"}) == {CPUS: "0-3"}
    assert seen(lists, {CPUS: "1"}) == {CPUS: "1"}
    unheld = ExternalCpusets()
    unheld.leases_found([lease(CPUS, "0-3", "2")])
    assert seen(unheld, {CPUS: "2"}) == {CPUS: "0-3"}
