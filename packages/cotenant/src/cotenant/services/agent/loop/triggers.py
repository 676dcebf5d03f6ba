"""Triggers between two ticks: pressure of the services' groups, and late wake-ups from the eBPF probe.

A service that starts to wait should be helped at once, not at the next tick; and groups come and go, are many, and may
not exist yet. Each trigger source gets the groups at every discovery, keeps its triggers in step with them, and calls
back when one fires; repeated firing before it was processed counts once. What is unavailable is logged once; of the
unavailable triggers, whether for their group or for the whole machine, one is retried at each discovery, and all after
one could be opened.
Limits: at most `most` triggers, in the groups' order; without CAP_SYS_RESOURCE the kernel checks triggers only every 2
s, so a period of 1 s is quicker there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Protocol

from cotenant.model.errors import CotenantError, Transient, Unsupported
from cotenant.model.machine.knob import Vanished
from cotenant.model.machine.node_state import PPM
from cotenant.model.machine.run_queue import LateWait, NoCulprit

MOST = 256
RESOURCES = ("cpu", "memory")
_log = logging.getLogger(__name__)

Pressed = Callable[[str, str, int], Awaitable[None]]  # group, resource, share of the window in millionths
Key = tuple[str, str]  # group, resource


class TriggerSource(Protocol):
    """A source of triggers."""

    def run(self, pressed: Pressed) -> Coroutine[object, object, None]:
        """Call `pressed` for each fired trigger, until cancelled."""
        ...


class ReadableTrigger(Protocol):
    """One pressure trigger: its descriptor is readable when it fires (`drivers/psi/triggers.PressureTrigger`)."""

    stall_us: int
    window_us: int

    def fileno(self) -> int:
        """The descriptor to wait for."""
        ...

    def take(self) -> str:
        """ "stalled", or "gone" where the group was removed."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class AgentTriggers:
    """Pressure triggers. `opens` opens one for a group and a resource, in this process or through the keeper; it
    raises `CotenantError`.
    """

    def __init__(
        self,
        opens: Callable[[str, str], Awaitable[ReadableTrigger]],
        resources: Sequence[str] = RESOURCES,
        most: int = MOST,
    ) -> None:
        self._opens = opens
        self._resources = tuple(resources)
        self._max = most
        self._wanted: tuple[Key, ...] = ()
        self._triggers: dict[Key, ReadableTrigger] = {}
        self._unavailable: dict[Key, None] = {}  # unavailable triggers; the least recently tried first
        self._fired: dict[Key, None] = {}  # in order, without repeats
        self._sync_needed = False
        self._event = asyncio.Event()
        self._noted = ""

    @property
    def triggers(self) -> int:
        """The number of open triggers."""
        return len(self._triggers)

    def watch(self, services: Sequence[str], best_effort: Sequence[str] = ()) -> None:
        """Set the services' groups."""
        self._wanted = tuple((group, resource) for group in services for resource in self._resources)[: self._max]
        self._sync_needed = True
        self._event.set()

    async def run(self, pressed: Pressed) -> None:
        """Open the wanted triggers, and call back for those that fire, until cancelled."""
        try:
            while True:
                await self._event.wait()
                self._event.clear()
                while self._fired:
                    key = next(iter(self._fired))
                    del self._fired[key]
                    trigger = self._triggers.get(key)
                    if trigger is not None:
                        await pressed(*key, min(PPM, trigger.stall_us * PPM // trigger.window_us))
                if self._sync_needed:
                    self._sync_needed = False
                    await self._sync()
        finally:
            for key in list(self._triggers):
                self._drop(key)

    async def _sync(self) -> None:
        wanted = set(self._wanted)
        for key in self._triggers.keys() - wanted:
            self._drop(key)
        self._unavailable = {key: None for key in self._unavailable if key in wanted}
        again = next(iter(self._unavailable), None)
        for key in self._wanted:
            is_settled = key in self._triggers or (key in self._unavailable and key != again)
            if not is_settled and not await self._add(key):
                return

    async def _add(self, key: Key) -> bool:
        """Open one trigger. Returns whether to continue with the others."""
        was_unavailable = key in self._unavailable
        self._unavailable.pop(key, None)
        try:
            trigger = await self._opens(*key)
        except Vanished:
            return True
        except Unsupported as error:
            self._note_unavailable(str(error))
            self._unavailable[key] = None
            return True
        except Transient as error:
            self._note_unavailable(str(error))
            return False
        except CotenantError as error:
            self._note_unavailable(str(error))
            return True
        if was_unavailable:
            self._unavailable.clear()
        self._triggers[key] = trigger
        asyncio.get_running_loop().add_reader(trigger.fileno(), self._fire, key)
        return True

    def _note_unavailable(self, detail: str) -> None:
        if not self._noted:
            _log.info("some pressure triggers are unavailable: %s", detail)
        self._noted = detail

    def _fire(self, key: Key) -> None:
        if self._triggers[key].take() == "gone":
            self._drop(key)
        else:
            self._fired[key] = None
            self._event.set()

    def _drop(self, key: Key) -> None:
        trigger = self._triggers.pop(key)
        asyncio.get_running_loop().remove_reader(trigger.fileno())
        trigger.close()


class RunQueueProbe(Protocol):
    """The events of the run-queue probe (`drivers/ebpf/runqueue.RunQueue`)."""

    def fileno(self) -> int:
        """Readable when there are late waits."""
        ...

    def late(self) -> tuple[LateWait, ...]:
        """Late waits since the last call."""
        ...


class LateWakeups:
    """Late wake-ups: a service's task waited longer for a CPU than allowed while best-effort work ran.

    Waits for other groups, or for the service's own threads, do not count: throttling best-effort work would not help.
    `late_us` tells the probe which groups to watch, and from which wait on.
    """

    def __init__(self, probe: RunQueueProbe, late_us: int) -> None:
        self._probe = probe
        self._late_us = late_us
        self._services: frozenset[str] = frozenset()
        self._best_effort: tuple[str, ...] = ()
        self._event = asyncio.Event()

    def late_us(self, group: str) -> int | None:
        """The wait above which a group's task is late; None for groups that are not services."""
        return self._late_us if group in self._services else None

    def watch(self, services: Sequence[str], best_effort: Sequence[str]) -> None:
        """Set the services' and best-effort groups."""
        self._services = frozenset(services)
        self._best_effort = tuple(best_effort)

    async def run(self, pressed: Pressed) -> None:
        """Call back for late waits until cancelled."""
        loop, descriptor = asyncio.get_running_loop(), self._probe.fileno()
        loop.add_reader(descriptor, self._event.set)
        try:
            while True:
                await self._event.wait()
                self._event.clear()
                longest: dict[str, int] = {}
                for wait in self._probe.late():
                    if self._is_best_effort(wait.culprit):
                        longest[wait.victim] = max(wait.wait_us, longest.get(wait.victim, 0))
                for group, waited_us in longest.items():
                    await pressed(group, "cpu", min(waited_us, PPM))  # of a second
        finally:
            loop.remove_reader(descriptor)

    def _is_best_effort(self, culprit: str | NoCulprit) -> bool:
        return isinstance(culprit, str) and any(
            culprit == group or culprit.startswith(group + "/") for group in self._best_effort
        )
