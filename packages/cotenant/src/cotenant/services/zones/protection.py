"""Leases of memory.low and io.weight for the rows that have them, and steps of memory.reclaim, under every back end of
a host's zone.

A kernel scheduler knows of CPUs only, so protection beyond them is held beside it. The kernel protects a group's memory
only as far as the groups above it are protected, so those have the sum of what is below, where the keeper may write
them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from cotenant.engine.node.interfaces import Keeper
from cotenant.model.machine.counters import GroupCounters
from cotenant.model.machine.knob import GiveBack, Knob, KnobTarget, LeaseAnswer, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.model.zones.table import ZoneRow
from cotenant.model.zones.zone_reading import GroupResources

TTL_US = 30_000_000
_RECLAIM_TTL_US = 1_000_000  # a one-time action
_REASON = Reason("zone-protect", "a service of a Control Zone waits for memory or disk")
_RECLAIM_REASON = Reason("zone-reclaim", "a protected service of a Control Zone waits for memory")
_NOT_TAKEN = (LeaseState.REFUSED, LeaseState.YIELDED)
NOT_PROTECTED = (
    "services that wait for memory or disk are neither noticed nor protected here: that needs cgroup v2 for the memory "
    "controller; v1 has no pressure of a group, no memory.low and no memory.reclaim"
)
NO_PRESSURE = (
    "services that wait for memory or disk are not noticed, so not protected: the zone's groups have no pressure "
    "(CONFIG_PSI, and psi=1 where it is off by default), or no memory controller"
)


class Protection:
    """`protect`: exactly what the rows say. `refused`: what the keeper did not take, with its reason, each said once to
    `log`.
    """

    def __init__(self, keeper: Keeper, log: Callable[[str], None] = lambda text: None) -> None:
        self._keeper = keeper
        self._log = log
        self._held: set[KnobTarget] = set()
        self.refused: dict[KnobTarget, str] = {}

    async def protect(self, rows: Mapping[str, ZoneRow]) -> None:
        """Renew, take and give back. What the keeper refuses stays undone, and is in `refused`."""
        wanted = self.wanted(rows)
        if not wanted and not self._held:
            return
        answers = await self._keeper.hold(wanted) if wanted else ()
        self._held |= {answer.target for answer in answers if answer.state is LeaseState.HELD}
        self._note(answers)
        stale = self._held - {wish.target for wish in wanted}
        if stale:
            self._held -= stale
            await self._keeper.give_back([GiveBack(target, _REASON) for target in sorted(stale)])

    async def reclaim(self, steps: Iterable[tuple[str, int]]) -> None:
        """Reclaim so many bytes of each group. The kernel takes what it finds, and may still be at it afterwards."""
        wanted = [
            SetKnob(KnobTarget(group, Knob.MEMORY_RECLAIM), str(amount), _RECLAIM_REASON, _RECLAIM_TTL_US)
            for group, amount in steps
        ]
        self._note(await self._keeper.hold(wanted))

    def _note(self, answers: Sequence[LeaseAnswer]) -> None:
        for answer in answers:
            if answer.state not in _NOT_TAKEN:
                self.refused.pop(answer.target, None)
                continue
            why = answer.detail or str(answer.state)
            if self.refused.get(answer.target) != why:
                self.refused[answer.target] = why
                self._log(f"{answer.target} is not set: {why}")

    def wanted(self, rows: Mapping[str, ZoneRow]) -> list[SetKnob]:
        """The knobs of these rows, groups above before those below."""
        low: dict[str, int] = {}
        for group, row in rows.items():
            if row.memory_low_bytes:
                for place in (group, *_above(group)):
                    low[place] = low.get(place, 0) + row.memory_low_bytes
        memory = [
            SetKnob(KnobTarget(group, Knob.MEMORY_LOW), str(amount), _REASON, TTL_US)
            for group, amount in sorted(low.items())
        ]
        io = [
            SetKnob(KnobTarget(group, Knob.IO_WEIGHT), f"default {row.io_weight}", _REASON, TTL_US)
            for group, row in sorted(rows.items())
            if row.io_weight
        ]
        return memory + io


def guard(
    memory_version: int | None, keeper: Keeper, log: Callable[[str], None], warn: Callable[[str], None]
) -> tuple[ResourceWaits, Protection] | None:
    """What notices and protects services that wait for memory or disk; None, with a line to `warn`, where the memory
    controller is not of cgroup v2.
    """
    if memory_version != 2:
        warn(NOT_PROTECTED)
        return None
    return ResourceWaits(warn=warn), Protection(keeper, log)


def _above(group: str) -> list[str]:
    parts = group.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


class ResourceWaits:
    """What groups had of memory and disk between two readings of their counters. `clock`: monotonic; `warn`: called
    once where groups are there and none has pressure.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, warn: Callable[[str], None] = lambda text: None
    ) -> None:
        self.latest: dict[str, GroupResources] = {}
        self._clock = clock
        self._warn: Callable[[str], None] | None = warn
        self._before: dict[str, tuple[float, int, int]] = {}

    def seen(self, counters: Sequence[GroupCounters]) -> None:
        """A reading; groups without all counters are left out of `latest`, as all are at the first one."""
        now_s = self._clock()
        self.latest = {}
        before, self._before = self._before, {}
        for group in counters:
            memory, io = group.pressure.memory, group.pressure.io
            if memory is None or io is None or group.memory_bytes is None:
                continue
            self._before[group.group] = now_s, memory.some_us, io.some_us
            if group.group not in before or now_s <= before[group.group][0]:
                continue
            then_s, memory_us, io_us = before[group.group]
            length_us = (now_s - then_s) * 1e6
            self.latest[group.group] = GroupResources(
                min(1.0, max(0, memory.some_us - memory_us) / length_us),
                min(1.0, max(0, io.some_us - io_us) / length_us),
                group.memory_bytes,
            )
        if self._warn is not None and counters:
            if not self._before:
                self._warn(NO_PRESSURE)
            self._warn = None
