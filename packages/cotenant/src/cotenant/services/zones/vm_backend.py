"""A zone's back ends inside a virtual machine: the guest's weights, and the guest's root scheduler.

A zone's loop asks its back end at once, and a guest answers by messages. One message a period (`refresh`) brings CPU
time, late dispatches, what runs and why a scheduler ended; the loop reads what it brought. Rows are sent with the next
message.
Limits: a change of rows is up to a period late; weights in a guest count no late dispatches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from cotenant.model.errors import Permanent
from cotenant.model.json_object import JsonObject
from cotenant.model.machine.counters import GroupCounters, Pressure, Stall
from cotenant.model.zones.setting import Backend, ExclusiveCpus, ZoneMode, ZoneSetting
from cotenant.model.zones.table import SchedulerExit, ZoneRow
from cotenant.services.zones.protection import ResourceWaits
from cotenant.services.zones.vm_link import ANSWER_S, GuestLink

ATTACH_S = 110.0  # the first one loads the schedulers, which an emulated CPU beside pods takes a while for
_LINES, _LONGEST_LINE = 20, 500  # of what a pod's program wrote
_MOST_REFUSED = 64
NOT_STARTED: JsonObject = {"running": False, "ready": False, "restarts": 0, "exit": None, "log": []}


class GuestState:
    """What the guest said last, shared by its back ends. `used_us`: CPU time by group; `pods`: of each its state
    beside what is known `about` it, and of no other, since a guest may say anything; `log`: called with what changed
    of a pod; `counted`: with the counters of the guest's kernel. `waits`: of each group for memory and disk; `refused`:
    what the guest's kernel did not take of their protection.
    """

    def __init__(
        self,
        link: GuestLink,
        about: Mapping[str, JsonObject] = MappingProxyType({}),
        log: Callable[[str], None] = lambda text: None,
        counted: Callable[[Mapping[str, object]], None] = lambda counters: None,
    ) -> None:
        self.link = link
        self._counted = counted
        self._about = about
        self.pods: dict[str, JsonObject] = {name: {**about[name], **NOT_STARTED} for name in about}
        self._log = log
        self.rows: dict[str, ZoneRow] = {}
        self._at_s = 0.0
        self.waits = ResourceWaits(lambda: self._at_s)
        self.refused: dict[str, str] = {}
        self.used_us: dict[str, int] = {}
        self.runs: ZoneSetting | None = None
        self.late: dict[str, tuple[int, int]] = {}
        self.exit: SchedulerExit | None = None

    async def ask(self, do: str, timeout_s: float = ANSWER_S, **fields: Any) -> None:
        """A request that a reading answers. Raises as `GuestLink.ask`, `Permanent` for an answer that is not one."""
        rows = {group: _row(row) for group, row in self.rows.items()}
        answer = await self.link.ask(do, timeout_s, rows=rows, **fields)
        try:
            self.used_us = {str(group): int(used) for group, used in answer["cpuUs"].items()}
            mode = answer["runs"]
            self.runs = (
                ZoneSetting(Backend.WEIGHTS)
                if mode is None
                else ZoneSetting(Backend.ROOT, ZoneMode(mode))
                if mode
                else None
            )
            for group, (number, worst) in answer["late"].items():
                before = self.late.get(group, (0, 0))
                self.late[group] = before[0] + int(number), max(before[1], int(worst))
            self.exit = None if answer["exit"] is None else SchedulerExit(*answer["exit"])
            self._counted(dict(answer.get("counters", {})))
            self._resources_seen(answer.get("resources", {}))
            pods = answer.get("pods", {})
            self._pods_seen({name: pod_shown(pod) for name, pod in pods.items() if name in self._about})
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise Permanent(f"the guest's answer is not a reading: {error!r}") from None

    def _resources_seen(self, told: Mapping[str, Any]) -> None:
        """What groups wait for, as the guest counts and times it."""
        self._at_s = int(told.get("atUs", 0)) / 1e6
        groups = told.get("groups", {})
        self.waits.seen(
            [
                GroupCounters(
                    group,
                    memory_bytes=int(memory_bytes),
                    pressure=Pressure(memory=Stall(int(memory_us), 0), io=Stall(int(io_us), 0)),
                )
                for group, (memory_us, io_us, memory_bytes) in groups.items()
                if group in self.rows
            ]
        )
        refused = {str(name)[:_LONGEST_LINE]: str(why)[:_LONGEST_LINE] for name, why in told.get("refused", {}).items()}
        for name, why in list(refused.items())[:_MOST_REFUSED]:
            if self.refused.get(name) != why:
                self._log(f"in the guest: {name} is not set: {why}")
        self.refused = refused

    async def reclaim(self, steps: tuple[tuple[str, int], ...]) -> None:
        """Reclaim so many bytes of each group of the guest. Raises as `GuestLink.ask`."""
        await self.link.ask("reclaim", steps=[list(step) for step in steps])

    def _pods_seen(self, pods: dict[str, JsonObject]) -> None:
        for name, pod in pods.items():
            before = self.pods[name]
            if pod["running"] and not before["running"]:
                self._log(f"pod {name} runs")
            if before["ready"] is not pod["ready"]:
                self._log(f"pod {name} is {'ready' if pod['ready'] else 'not ready'}")
            if not pod["running"] and (before["running"] or before["exit"] is None) and pod["exit"] is not None:
                last = f": {pod['log'][-1]}" if pod["log"] else ""
                self._log(f"pod {name} ended with status {pod['exit']}{last}")
            self.pods[name] = {**self._about[name], **pod}


def pod_shown(pod: Any) -> JsonObject:
    """A pod's state as the guest says it. Raises `LookupError`, `TypeError`, `ValueError` or `OverflowError` for
    another thing.
    """
    exit_status = pod["exit"]
    return {
        "running": bool(pod["running"]),
        "ready": bool(pod["ready"]),
        "restarts": int(pod["restarts"]),
        "exit": None if exit_status is None else int(exit_status),
        "log": [str(line)[:_LONGEST_LINE] for line in list(pod["log"])[-_LINES:]],
    }


class GuestBackend:
    """One back end in the guest: `backend` is WEIGHTS or ROOT. As `ZoneBackend`."""

    def __init__(
        self, state: GuestState, backend: Backend, modes: tuple[ZoneMode, ...], exclusive: ExclusiveCpus | None = None
    ) -> None:
        self._state = state
        self._backend = backend
        self._modes = modes
        self._exclusive = exclusive or ExclusiveCpus()
        self._attached = False

    async def attach(self, setting: ZoneSetting) -> None:
        """As the Protocol."""
        mode = None if setting.mode is None else setting.mode.value
        modes = [entry.value for entry in self._modes]
        await self._state.ask("attach", ATTACH_S, mode=mode, modes=modes, exclusive=asdict(self._exclusive))
        self._attached = True

    def runs(self, setting: ZoneSetting) -> bool:
        """As the Protocol: as of the last message."""
        return self._state.runs == setting

    def put(self, rows: Mapping[str, ZoneRow]) -> None:
        """As the Protocol; sent with the next message."""
        self._state.rows = dict(rows)

    async def refresh(self) -> None:
        """As the Protocol."""
        await self._state.ask("read")

    def late(self) -> dict[str, tuple[int, int]] | None:
        """As the Protocol."""
        found, self._state.late = self._state.late, {}
        return found if self._backend is Backend.ROOT else None

    def events(self) -> None:
        """The guest's are read once a period."""

    def last_exit(self) -> SchedulerExit | None:
        """As the Protocol."""
        return self._state.exit

    async def detach(self) -> None:
        """As the Protocol."""
        if self._attached and not self._state.link.lost:
            await self._state.link.ask("detach")
        self._attached = False


def _row(row: ZoneRow) -> dict[str, object]:
    return {
        "class": row.zone_class.name.lower(),
        "weight": row.weight,
        "sliceUs": row.slice_us,
        "lateUs": row.late_us,
        "memoryLow": row.memory_low_bytes,
        "ioWeight": row.io_weight,
        "threads": [[thread.name, thread.zone_class.name.lower(), thread.slice_us] for thread in row.threads],
    }
