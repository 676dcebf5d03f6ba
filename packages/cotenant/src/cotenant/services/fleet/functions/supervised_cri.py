"""Containers by CRI with the restarts and health checks that Docker has in its daemon: the agent does them.

What is told of a container has them in it, so nobody else need know which runtime it is. While the agent does not run,
nothing is started again; when it is back it goes on from what the runtime tells.
Limits: an end is seen within a second.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cotenant.drivers.cri.client import CriClient
from cotenant.drivers.cri.containers import LOGS, NAME
from cotenant.drivers.cri.recipe import SUPERVISED
from cotenant.drivers.cri.supervised import SupervisedContainers
from cotenant.engine.fleet import supervision as rules
from cotenant.engine.fleet.supervision import SupervisionAct, Supervisor
from cotenant.model.errors import CotenantError
from cotenant.model.fleet.containers import FleetContainer, ListedContainer
from cotenant.model.fleet.supervision import SupervisedContainer
from cotenant.services.running import cancelled

_log = logging.getLogger(__name__)
_POLL_S, _SOON_S = 1.0, 0.05


class SupervisedCri(SupervisedContainers):
    """Implements `ContainerRuntime`. `label`: NAME=VALUE of the containers that are this agent's."""

    def __init__(
        self,
        socket: Path,
        label: str,
        logs: Path = LOGS,
        now: Callable[[], float] = time.time,
        client: CriClient | None = None,
    ) -> None:
        super().__init__(socket, logs, client)
        name, _, value = label.partition("=")
        self._ours = {name: value}
        self._now = now
        self._supervisors: dict[str, Supervisor] = {}
        self._seen: dict[str, SupervisedContainer] = {}
        self._acting: dict[str, asyncio.Task[None]] = {}  # by name: one thing at a time
        self._locks: dict[str, asyncio.Lock] = {}
        self._running: asyncio.Task[None] | None = None

    def begin(self) -> SupervisedCri:
        """Supervise until `close`."""
        self._running = asyncio.create_task(self._run(), name="supervision")
        return self

    async def close(self) -> None:
        """As the Protocol."""
        await cancelled([*([self._running] if self._running else ()), *self._acting.values()])
        await super().close()

    async def list(self, label: str) -> tuple[ListedContainer, ...]:
        """As the Protocol."""
        return tuple([await self._listed(listed) for listed in await super().list(label)])

    async def inspect(self, name: str) -> FleetContainer | None:
        """As the Protocol."""
        found = await super().inspect(name)
        if found is None or SUPERVISED not in found.labels:
            return found
        status, health, said = await self._told(name, found.id, found.status)
        return replace(found, status=status, health=health, health_said=said)

    async def start(self, name: str) -> None:
        """As the Protocol."""
        async with self._lock(name):
            await super().start(name)

    async def stop(self, name: str) -> None:
        """As the Protocol."""
        async with self._lock(name):
            await super().stop(name)

    async def remove(self, name: str) -> None:
        """As the Protocol."""
        async with self._lock(name):
            await super().remove(name)
        self._locks.pop(name, None)

    async def begin_due(self) -> float:
        """One round: begin what is due. How long until the next one."""
        found = await self.supervised(self._ours)
        self._seen = {seen.name: seen for seen in found}
        for name in [*self._supervisors]:
            if name not in self._seen:
                del self._supervisors[name]
        for name, task in [*self._acting.items()]:
            if task.done():
                del self._acting[name]
        wait_s = _POLL_S
        for seen in found:
            if seen.name in self._acting:
                continue
            supervisor = self._supervisors.setdefault(seen.name, Supervisor())
            match supervisor.act(seen, self._now()):
                case SupervisionAct.PROBE:
                    self._acting[seen.name] = asyncio.create_task(self._probes(supervisor, seen))
                case SupervisionAct.START | SupervisionAct.RESTART:
                    self._acting[seen.name] = asyncio.create_task(self._starts(supervisor, seen))
                case SupervisionAct.NOTHING:
                    wait_s = min(wait_s, supervisor.due_s - self._now())
        return max(wait_s, _SOON_S)

    async def _run(self) -> None:
        while True:
            try:
                wait_s = await self.begin_due()
            except CotenantError as error:
                _log.warning("containers are not supervised: %s", error)
                wait_s = _POLL_S
            await asyncio.sleep(wait_s)

    async def _probes(self, supervisor: Supervisor, seen: SupervisedContainer) -> None:
        check = rules.check_of(seen)
        if check is None:
            return
        began_s = self._now()
        try:
            is_passed, said = await self.probe(seen.id, rules.words_of(check), rules.timeout_s(check))
        except CotenantError as error:
            _log.warning("health check of %s: %s", seen.name, error)
            supervisor.unprobed(seen, self._now())
            return
        supervisor.probed(seen, said, began_s, self._now(), is_passed=is_passed)

    async def _starts(self, supervisor: Supervisor, before: SupervisedContainer) -> None:
        """Unless it has been stopped, removed or started meanwhile."""
        async with self._lock(before.name):
            seen = before
            try:
                now = await self._one(before.name)
                if now is None or now.id != before.id:
                    return
                seen = now
                if rules.is_to_start(seen):
                    await super().start(seen.name)
                elif rules.is_to_restart(seen):
                    await self.restart(seen, rules.quick_ends_after(seen))
            except CotenantError as error:
                _log.warning("%s is not started again yet: %s", seen.name, error)
                supervisor.refused(seen, self._now())

    async def _listed(self, listed: ListedContainer) -> ListedContainer:
        if SUPERVISED not in listed.labels:
            return listed
        status, health, _ = await self._told(listed.name, listed.id, listed.status)
        return replace(listed, status=status, health=health)

    async def _told(self, name: str, container: str, status: str) -> tuple[str, str, str]:
        """(status, health, what its check said) of a container that the runtime tells so."""
        seen = self._seen.get(name)
        if seen is None or (seen.id, seen.status) != (container, status):
            seen = await self._one(name)
        if seen is None:
            return status, "", ""
        if rules.is_to_start(seen) or rules.is_to_restart(seen):
            return "restarting", "", ""
        supervisor = self._supervisors.get(name, Supervisor())
        return (status, *supervisor.health_of(seen)) if status == "running" else (status, "", "")

    async def _one(self, name: str) -> SupervisedContainer | None:
        found = await self.supervised({**self._ours, NAME: name})
        return found[0] if found else None

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())
