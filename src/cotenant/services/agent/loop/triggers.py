"""Bells: what wakes the agent between two ticks. Pressure triggers of the services' groups, and late wake-ups that the probe tells.

Problem: a service that begins to wait should be helped at once, not at the next tick; and groups come and go, are many, and may not be there yet.
Choice: each bell is told the groups at every discovery, keeps what it needs in step with them, and calls when something rings; what rings
again before it was heard counts once. What cannot be had is told once; of the triggers that were lacking, be it for their group or for the whole
machine, one is tried at each discovery, and all after one could be had. Limits: at most `most` triggers, in the groups' order; without
CAP_SYS_RESOURCE the kernel looks at triggers every 2 s only, so a period of 1 s is quicker there.
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


class Bell(Protocol):
    """Wakes the agent."""

    def run(self, pressed: Pressed) -> Coroutine[object, object, None]:
        """Call `pressed` for what rings, until cancelled."""
        ...


class Trigger(Protocol):
    """One pressure trigger: its descriptor is readable when it fires (`drivers/psi/triggers.PressureTrigger`)."""

    stall_us: int
    window_us: int

    def fileno(self) -> int:
        """The descriptor to wait for."""
        ...

    def take(self) -> str:
        """Whether it "stalled", or its group is "gone"."""
        ...

    def close(self) -> None:
        """Stop waiting."""
        ...


class PressureBell:
    """Pressure triggers. `opens` makes one for a group and a resource, in this process or through the keeper; it raises `CotenantError`."""

    def __init__(
        self, opens: Callable[[str, str], Awaitable[Trigger]], resources: Sequence[str] = RESOURCES, most: int = MOST
    ) -> None:
        self._opens = opens
        self._resources = tuple(resources)
        self._most = most
        self._wanted: tuple[Key, ...] = ()
        self._triggers: dict[Key, Trigger] = {}
        self._lacking: dict[Key, None] = {}  # that cannot be had here; the one tried longest ago first
        self._rang: dict[Key, None] = {}  # in order; each once
        self._look = False
        self._news = asyncio.Event()
        self._told = ""

    @property
    def triggers(self) -> int:
        """How many are waited for."""
        return len(self._triggers)

    def watch(self, services: Sequence[str], best_effort: Sequence[str] = ()) -> None:
        """The services' groups from now on."""
        self._wanted = tuple((group, resource) for group in services for resource in self._resources)[: self._most]
        self._look = True
        self._news.set()

    async def run(self, pressed: Pressed) -> None:
        """Open what is wanted, and tell of what fires, until cancelled."""
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                while self._rang:
                    key = next(iter(self._rang))
                    del self._rang[key]
                    trigger = self._triggers.get(key)
                    if trigger is not None:
                        await pressed(*key, min(PPM, trigger.stall_us * PPM // trigger.window_us))
                if self._look:
                    self._look = False
                    await self._keep_step()
        finally:
            for key in list(self._triggers):
                self._drop(key)

    async def _keep_step(self) -> None:
        wanted = set(self._wanted)
        for key in self._triggers.keys() - wanted:
            self._drop(key)
        self._lacking = {key: None for key in self._lacking if key in wanted}
        again = next(iter(self._lacking), None)
        for key in self._wanted:
            rests = key in self._triggers or (key in self._lacking and key != again)
            if not rests and not await self._add(key):
                return

    async def _add(self, key: Key) -> bool:
        """Whether the others can be tried now."""
        lacked = key in self._lacking
        self._lacking.pop(key, None)
        try:
            trigger = await self._opens(*key)
        except Vanished:
            return True
        except Unsupported as error:
            self._tell(str(error))
            self._lacking[key] = None
            return True
        except Transient as error:
            self._tell(str(error))
            return False
        except CotenantError as error:
            self._tell(str(error))
            return True
        if lacked:
            self._lacking.clear()
        self._triggers[key] = trigger
        asyncio.get_running_loop().add_reader(trigger.fileno(), self._ring, key)
        return True

    def _tell(self, said: str) -> None:
        if not self._told:
            _log.info("not every pressure trigger can be had: %s", said)
        self._told = said

    def _ring(self, key: Key) -> None:
        if self._triggers[key].take() == "gone":
            self._drop(key)
        else:
            self._rang[key] = None
            self._news.set()

    def _drop(self, key: Key) -> None:
        trigger = self._triggers.pop(key)
        asyncio.get_running_loop().remove_reader(trigger.fileno())
        trigger.close()


class Probe(Protocol):
    """The run-queue probe, as far as it rings (`drivers/ebpf/runqueue.RunQueue`)."""

    def fileno(self) -> int:
        """Readable when there are late waits."""
        ...

    def late(self) -> tuple[LateWait, ...]:
        """Those since the last call."""
        ...


class LateBell:
    """Late wake-ups: a service's task waited longer for a CPU than it should while best-effort work ran. Waits for others, its own threads among
    them, do not ring: to hold back best-effort work would not help. `late_us` tells the probe which groups count, and from when."""

    def __init__(self, probe: Probe, late_us: int) -> None:
        self._probe = probe
        self._late_us = late_us
        self._services: frozenset[str] = frozenset()
        self._best_effort: tuple[str, ...] = ()
        self._news = asyncio.Event()

    def late_us(self, group: str) -> int | None:
        """The wait above which a group's task is late; None for those that are no services."""
        return self._late_us if group in self._services else None

    def watch(self, services: Sequence[str], best_effort: Sequence[str]) -> None:
        """Who may wait, and for whom, from now on."""
        self._services = frozenset(services)
        self._best_effort = tuple(best_effort)

    async def run(self, pressed: Pressed) -> None:
        """Tell of late waits until cancelled."""
        loop, descriptor = asyncio.get_running_loop(), self._probe.fileno()
        loop.add_reader(descriptor, self._news.set)
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                longest: dict[str, int] = {}
                for wait in self._probe.late():
                    if self._is_guilty(wait.culprit):
                        longest[wait.victim] = max(wait.wait_us, longest.get(wait.victim, 0))
                for group, waited_us in longest.items():
                    await pressed(group, "cpu", min(waited_us, PPM))  # of a second
        finally:
            loop.remove_reader(descriptor)

    def _is_guilty(self, culprit: str | NoCulprit) -> bool:
        return isinstance(culprit, str) and any(
            culprit == group or culprit.startswith(group + "/") for group in self._best_effort
        )
