"""Leases of memory.low and io.weight for the rows that have them, under every back end of a host's zone.

A kernel scheduler knows of CPUs only, so protection beyond them is held beside it. The kernel protects a group's memory
only as far as the groups above it are protected, so those have the sum of what is below, where the keeper may write
them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from cotenant.engine.node.interfaces import Keeper
from cotenant.model.machine.counters import GroupCounters
from cotenant.model.machine.knob import GiveBack, Knob, KnobTarget, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.model.zones.table import ZoneRow
from cotenant.model.zones.zone_reading import GroupResources

TTL_US = 30_000_000
_REASON = Reason("zone-protect", "a service of a Control Zone waits for memory or disk")


class Protection:
    """`protect`: exactly what the rows say. `refused`: what the keeper did not take, with its reason."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._held: set[KnobTarget] = set()
        self.refused: dict[KnobTarget, str] = {}

    async def protect(self, rows: Mapping[str, ZoneRow]) -> None:
        """Renew, take and give back. What the keeper refuses stays undone, and is in `refused`."""
        wanted = self.wanted(rows)
        if not wanted and not self._held:
            return
        answers = await self._keeper.hold(wanted) if wanted else []
        self._held |= {answer.target for answer in answers if answer.state is LeaseState.HELD}
        self.refused = {
            answer.target: answer.detail or str(answer.state)
            for answer in answers
            if answer.state in (LeaseState.REFUSED, LeaseState.YIELDED)
        }
        stale = self._held - {wish.target for wish in wanted}
        if stale:
            self._held -= stale
            await self._keeper.give_back([GiveBack(target, _REASON) for target in sorted(stale)])

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


def _above(group: str) -> list[str]:
    parts = group.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


class ResourceWaits:
    """What groups had of memory and disk between two readings of their counters. `clock`: monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.latest: dict[str, GroupResources] = {}
        self._clock = clock
        self._before: dict[str, tuple[float, int, int]] = {}

    def seen(self, counters: Iterable[GroupCounters]) -> None:
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
