"""The loop of one zone: readings to the engine, its instructions to the back ends.

An instruction may fail, and the failure is an event for the engine, not an end of the process. Instructions are carried
out one after another, and what follows from each is carried out before the next reading; every way out of the loop
detaches. A reading is taken once a period, and at once when late dispatches that the kernel reports press a service;
such a reading has the period before it too, so that a few late dispatches in a row are no high rate.
Limits: one reading between periods at most.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType

from cotenant.engine.zones.zone import Zone
from cotenant.model.errors import CotenantError
from cotenant.model.json_object import JsonObject
from cotenant.model.zones.setting import Backend, ZoneSetting
from cotenant.model.zones.state import (
    Attach,
    Detach,
    PutRows,
    ReclaimGroups,
    Verify,
    ZoneChange,
    ZoneInstruction,
    ZoneState,
)
from cotenant.model.zones.table import SchedulerExit, ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import GroupReading, GroupResources, MachineSigns, ZoneReading
from cotenant.services.zones.backends import BackendLost, ZoneBackend

_log = logging.getLogger(__name__)
_UNKNOWN_EXIT = SchedulerExit(0, 1024, "no reason given", "")


@dataclass(slots=True)
class ZoneRunner:
    """A zone with its back ends. `burns`: burn rates of objectives by group, and `members`: the zone's groups where
    they come and go, both asked once a period; `log`: called with a line for each event; `execute`: runs a command
    in a group, where the zone's tasks are not this host's; `details`: more of the zone's state; `cpu_us`: CPU time
    used by each group; `signs`: of the machine since the last reading; `resources`: what each group had of
    memory and disk since then; `protect`: holds what rows protect beyond the CPU, once a period and at the end;
    `reclaim`: reclaims so many bytes of each group;
    `changed`: called with every change once it is settled; `clock`: monotonic.
    """

    zone: Zone
    backends: Mapping[Backend, ZoneBackend]
    cpu_us: Callable[[], Mapping[str, int]]
    changed: Callable[[ZoneChange], None] = lambda change: None
    clock: Callable[[], float] = time.monotonic
    signs: Callable[[], MachineSigns | None] = lambda: None
    resources: Callable[[], Mapping[str, GroupResources]] = dict
    protect: Callable[[Mapping[str, ZoneRow]], Awaitable[None]] | None = None
    reclaim: Callable[[tuple[tuple[str, int], ...]], Awaitable[None]] | None = None
    burns: Callable[[], Awaitable[Mapping[str, float]]] | None = None
    execute: Callable[[str, list[str]], Awaitable[JsonObject]] | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    members: Callable[[], Awaitable[Mapping[str, ZoneRow] | None]] | None = None
    log: Callable[[str], None] = _log.info
    last: ZoneReading | None = None
    _read_s: float = 0.0
    _used: Mapping[str, int] = field(default_factory=dict)
    _reported: set[tuple[float, str]] = field(default_factory=set)
    _begun: set[tuple[float, str]] = field(default_factory=set)
    _busy: asyncio.Lock = field(default_factory=asyncio.Lock)
    _early: dict[str, tuple[int, int]] = field(
        default_factory=dict
    )  # late dispatches that were read before their reading
    _acted_us: int = 0  # from the last late dispatch to the rows that `react` changed, until it is logged
    _done_us: int = 0  # when rows were written or a setting attached last

    async def start(self) -> None:
        """Attach the first setting."""
        await self._follow_members()
        self._used, self._read_s = self.cpu_us(), self.clock()
        await self._carry_out(self.zone.start(self.clock()))

    async def step(self) -> None:
        """One period: renew, look for an ejection, read, decide. A failed zone starts again when a ban ends."""
        async with self._busy:
            await self._step()

    async def _step(self) -> None:
        await self._follow_members()
        if self.zone.may_start(self.clock()):
            await self._carry_out(self.zone.start(self.clock()))
        backend = self._current()
        setting = self.zone.setting
        if backend is not None and self.zone.state in (ZoneState.CANARY, ZoneState.ACTIVE):
            try:
                await backend.refresh()
                gone = None if backend.runs(setting) else backend.last_exit() or _UNKNOWN_EXIT
            except BackendLost:
                raise
            except CotenantError as error:
                gone = SchedulerExit(0, 1024, "the back end failed", str(error))
            if gone is not None:
                instructions = self.zone.ejected(self.clock(), gone)
                if not instructions and setting.mode is None:
                    _log.warning("%s: %s: %s; tried again", setting, gone.reason, gone.message)
                    self.log(f"{setting}: {gone.reason}: {gone.message}; tried again")
                await self._carry_out(instructions)
                self._read(None)
                return
        self.last = self._read(backend, await self.burns() if self.burns is not None else {})
        await self._carry_out(self.zone.measured(self.clock(), self.last))
        await self._protect(self.zone.rows)

    async def _protect(self, rows: Mapping[str, ZoneRow]) -> None:
        if self.protect is None:
            return
        try:
            await self.protect(rows)
        except CotenantError as error:
            _log.warning("protection: %s", error)

    async def _reclaim(self, steps: tuple[tuple[str, int], ...]) -> None:
        if self.reclaim is None:
            return
        try:
            await self.reclaim(steps)
        except CotenantError as error:
            _log.warning("reclaim: %s", error)

    def react(self) -> None:
        """Decide on the last reading and the late dispatches since then: rows may change, a switch waits for the
        period. They stay part of the period's reading.
        """
        backend = self._current()
        events = backend.events() if backend is not None else None
        late = tuple(
            GroupReading(group, row.zone_class, *self._early.get(group, (0, 0)))
            for group, row in self.zone.rows.items()
        )
        now = ZoneReading(max(self.clock() - self._read_s, 1e-6), late)
        reading = now if self.last is None else self.last.plus(now)
        changes = self.zone.measured(self.clock(), reading, early=True)
        for change in changes:
            assert isinstance(change, PutRows), change
            self._put_rows()
        if changes and events is not None and events.newest_us:
            self._acted_us = self._done_us - events.newest_us

    async def request(self, setting: ZoneSetting) -> None:
        """A user's switch. Raises as `Zone.request`."""
        async with self._busy:
            await self._carry_out(self.zone.request(self.clock(), setting))

    async def stop(self) -> None:
        """Detach everything."""
        async with self._busy:
            await self._protect({})
            await self._carry_out(self.zone.destroy())

    async def run(self, stop: asyncio.Event, period_s: float, seconds: float | None, read: Callable[[], None]) -> None:
        """Until `stop` is set or `seconds` are over; `read` is called after every reading."""
        try:
            await self.start()
            read()
            end_s = None if seconds is None else self.clock() + seconds
            early = False
            while end_s is None or self.clock() < end_s:
                early = await self._wait(stop, period_s, watch=not early)
                if stop.is_set():
                    break
                if early:
                    await self._report()
                else:
                    await self.step()
                read()
        finally:
            await self.stop()
            read()

    async def _wait(self, stop: asyncio.Event, period_s: float, *, watch: bool) -> bool:
        """Until `stop` is set or a period is over; with `watch`, also until late dispatches are to be acted on:
        True then.
        """
        loop, late = asyncio.get_running_loop(), asyncio.Event()
        backend = self._current()
        events = backend.events() if backend is not None else None
        # a descriptor of our own: another scheduler may be loaded meanwhile, and the number of its map's be given to
        # something else
        watched = -1
        if watch and backend is not None and events is not None and self.zone.acts_on(self.clock(), inf):
            watched = os.dup(events.fileno())
            loop.add_reader(watched, self._came, backend, watched, late)
        waiting = [asyncio.create_task(stop.wait()), asyncio.create_task(late.wait())]
        try:
            await asyncio.wait(waiting, timeout=period_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            if watched >= 0:
                loop.remove_reader(watched)
                os.close(watched)
        return late.is_set()

    def _came(self, backend: ZoneBackend, watched: int, late: asyncio.Event) -> None:
        """Late dispatches came: add them up, and where they press a service, change rows at once and wake the loop."""
        loop, found = asyncio.get_running_loop(), backend.late()
        if not found:  # of a scheduler that was unloaded meanwhile, which would be readable for ever
            loop.remove_reader(watched)
            return
        self._early = _sum(self._early, found)
        if self._busy.locked():
            return
        rows, before = self.zone.rows, self.last
        number = sum(
            count
            for group, (count, _) in self._early.items()
            if group in rows and rows[group].zone_class is ZoneClass.SERVICE
        )
        length_s = self.clock() - self._read_s
        if before is not None:
            number, length_s = number + round(before.late_per_s * before.length_s), length_s + before.length_s
        if self.zone.acts_on(self.clock(), number / max(length_s, 1e-6)):
            loop.remove_reader(watched)
            try:
                self.react()
            except CotenantError as error:  # the next reading writes the rows again
                _log.warning("rows: %s", error)
            late.set()

    async def _follow_members(self) -> None:
        rows = await self.members() if self.members is not None else None
        if rows is None:
            return
        before = self.zone.rows.keys()
        instructions = self.zone.members(rows)
        for group in sorted(rows.keys() - before):
            self.log(f"group {group}: {rows[group].zone_class.name.lower()}, found by its labels")
        for group in sorted(before - rows.keys()):
            self.log(f"group {group} is gone")
        await self._carry_out(instructions)

    def _current(self) -> ZoneBackend | None:
        return self.backends.get(self.zone.setting.backend)

    def _read(self, backend: ZoneBackend | None, burns: Mapping[str, float] = MappingProxyType({})) -> ZoneReading:
        used, now_s = self.cpu_us(), self.clock()
        late = _sum(self._early, (backend.late() if backend is not None else None) or {})
        self._early = {}
        resources = self.resources()
        groups = tuple(
            GroupReading(
                group,
                row.zone_class,
                *late.get(group, (0, 0)),
                cpu_us=max(0, used.get(group, 0) - self._used.get(group, used.get(group, 0))),
                burn=burns.get(group),
                resources=resources.get(group),
            )
            for group, row in self.zone.rows.items()
        )
        reading = ZoneReading(max(now_s - self._read_s, 1e-6), groups, self.signs())
        self._used, self._read_s = used, now_s
        return reading

    async def _carry_out(self, instructions: tuple[ZoneInstruction, ...]) -> None:
        waiting = list(instructions)
        while waiting:
            waiting += await self._one(waiting.pop(0))
        self._log_changes()

    async def _report(self) -> None:
        """Log what `react` changed."""
        async with self._busy:
            self._log_changes()
            acted_us, self._acted_us = self._acted_us, 0
            if acted_us:
                self.log(f"acted {acted_us / 1000:.1f} ms after a late dispatch")

    def _log_changes(self) -> None:
        for change in self.zone.history:
            key = (change.at_s, change.what)
            if key not in self._begun:
                self._begun.add(key)
                self.log(f"{change.what}: {change.reason.text}")
            if change.kept is not None and key not in self._reported:
                self._reported.add(key)
                self.log(
                    f"{change.what}: {'kept' if change.kept else 'undone'}: {change.outcome.removeprefix('kept: ')}"
                )
                self.changed(change)
        shown = {(change.at_s, change.what) for change in self.zone.history}
        self._begun &= shown
        self._reported &= shown

    async def _one(self, instruction: ZoneInstruction) -> tuple[ZoneInstruction, ...]:
        match instruction:
            case PutRows():
                self._put_rows()
            case Attach(setting):
                return await self._attach(setting)
            case Verify(setting):
                current = self._current()
                runs = current is not None and current.runs(setting)
                return self.zone.verified(self.clock(), runs, "as the kernel reports")
            case ReclaimGroups(steps):
                await self._reclaim(steps)
            case Detach():
                for backend in self.backends.values():
                    await self._detach(backend)
        return ()

    def _put_rows(self) -> None:
        """The rows in force, to what runs first."""
        current, rows = self._current(), self.zone.rows
        if current is not None:
            current.put(rows)
            self._done_us = time.monotonic_ns() // 1000
        for backend in self.backends.values():
            if backend is not current:
                backend.put(rows)

    async def _attach(self, setting: ZoneSetting) -> tuple[ZoneInstruction, ...]:
        for backend, zone_backend in self.backends.items():
            if backend is not setting.backend:
                await self._detach(zone_backend)
        chosen = self.backends.get(setting.backend)
        if chosen is None:
            return self.zone.refused(self.clock(), f"this host has no back end {setting.backend}")
        try:
            await chosen.attach(setting)
        except CotenantError as error:
            return self.zone.refused(self.clock(), str(error))
        self._done_us = time.monotonic_ns() // 1000
        return self.zone.attached(self.clock())

    async def _detach(self, backend: ZoneBackend) -> None:
        try:
            await backend.detach()
        except CotenantError as error:
            _log.warning("detaching: %s", error)


def _sum(one: Mapping[str, tuple[int, int]], other: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Number and longest of the late dispatches of both, by group."""
    found = dict(one)
    for group, (number, worst) in other.items():
        before = found.get(group, (0, 0))
        found[group] = before[0] + number, max(before[1], worst)
    return found
