"""Containers of this host: reserve, create, start, probe, stop, remove, each of which may be repeated, and their states
in the heartbeat.

What was done is read from the runtime, by labels, and never remembered: an agent that was killed goes on where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cotenant.drivers.cri.exec import CriExec
from cotenant.drivers.docker.client import InUse, NotThere
from cotenant.drivers.docker.exec import Exec
from cotenant.drivers.nats.contract import BusMessage
from cotenant.model.errors import CotenantError, Permanent, Transient
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.containers import FleetContainer, ListedContainer
from cotenant.model.fleet.group import ContainerStep
from cotenant.model.fleet.host import HostContainer
from cotenant.model.fleet.refusal import NoSuchGuid
from cotenant.model.fleet.requests import Inspect, Inspected, Make, Move, Moved, Survey, Surveyed
from cotenant.model.fleet.terminals import WindowSize
from cotenant.services.fleet.functions import labels as names
from cotenant.services.fleet.functions.container_states import last_words, state_of, step_of, why_ended
from cotenant.services.fleet.functions.contract import Beat
from cotenant.services.fleet.functions.fences import Fences
from cotenant.services.fleet.functions.mounts import mounted
from cotenant.services.fleet.functions.room import RoomReservations, Taken
from cotenant.services.fleet.functions.runtime import ContainerRuntime, DockerRuntime
from cotenant.services.fleet.rpc import RpcVerb
from cotenant.services.running import cancelled

_log = logging.getLogger(__name__)
STEADY_S = 0.5  # a container without a health check is ready when it has run for this long
_POLL_S, _QUICK_LOOKS, _SLOW_POLL_S = 0.1, 50, 0.5
_REFRESH_S = 10.0  # the list is read again this often where no event says so
_AGAIN_S = 1.0  # and this long after an event: a list that is read with it may be from before its end


class ContainerFunction:
    """Implements `Function`."""

    name = "containers"

    def __init__(
        self,
        agent: str,
        socket: Path,
        state_dir: Path,
        now: Callable[[], float] = time.time,
        opened: Callable[[], ContainerRuntime] | None = None,
        mount_paths: tuple[str, ...] = (),
    ) -> None:
        """`socket`: of Docker, unless another runtime is `opened`.

        `mount_paths`: where the configuration names none.
        """
        self._agent = agent
        self._label = names.label_of(agent)
        self._opened = opened or (lambda: DockerRuntime(socket))
        self._state_dir = state_dir
        self._now = now
        self._containers: ContainerRuntime | None = None
        self._fences: Fences | None = None
        self._room = RoomReservations(0, 0)
        self._environment: Mapping[str, str] = {}
        self._usual_mount_paths = self._mount_paths = mount_paths
        self._listed: tuple[ListedContainer, ...] = ()
        self._stopping: set[str] = set()
        self._making: dict[str, str] = {}  # guid -> group: an image may be pulled for longer than room is kept
        self._stale = asyncio.Event()
        self._locks: dict[str, asyncio.Lock] = {}
        self._following: asyncio.Task[None] | None = None
        self.fault = ""
        self.verbs: Mapping[str, RpcVerb] = {
            "survey": RpcVerb(Survey, self._survey),
            "reserve": RpcVerb(Make, self._reserve),
            "create": RpcVerb(Make, self._create),
            "start": RpcVerb(Move, self._start),
            "probe": RpcVerb(Move, self._probe),
            "stop": RpcVerb(Move, self._stop),
            "remove": RpcVerb(Move, self._remove),
            "release": RpcVerb(Move, self._release),
            "inspect": RpcVerb(Inspect, self._inspect),
        }

    def configure(self, configuration: AgentConfiguration) -> None:
        """As the Protocol."""
        self._environment = configuration.environment
        said = configuration.mount_paths
        self._mount_paths = self._usual_mount_paths if said is None else said

    async def start(self) -> None:
        """As the Protocol."""
        self._fences = self._fences or Fences(self._state_dir / "epochs.json")
        containers = self._opened()
        try:
            self._room = RoomReservations(*await containers.capacity())
            self._listed = await containers.list(self._label)
        except CotenantError as error:
            await containers.close()
            self.fault = str(error)
            raise
        self._containers, self.fault = containers, ""
        self._following = asyncio.create_task(self._follow(), name="containers")

    async def stop(self) -> None:
        """As the Protocol."""
        if self._following is not None:
            await cancelled([self._following])
        if self._containers is not None:
            await self._containers.close()
        self._containers, self._following, self._listed = None, None, ()

    async def add_to(self, beat: Beat) -> None:
        """As the Protocol."""
        for listed in self._listed:
            status = self._status(listed)
            beat.containers[status.guid] = status

    async def process_of(self, guid: str) -> FleetContainer:
        """The running container. Raises `NoSuchGuid`, `Permanent` where it does not run."""
        found = await self._found(guid)
        if found is None:
            raise NoSuchGuid(f"no container of this host has the guid {guid}")
        if not found.pid:
            raise Permanent(f"{guid} does not run: it is {found.status}")
        return found

    def ids(self) -> dict[str, str]:
        """The runtime's ids of running containers, by guid."""
        return {listed.labels.get(names.GUID, ""): listed.id for listed in self._listed if listed.status == "running"}

    def guids(self) -> tuple[str, ...]:
        """Of all containers of this host's fleet, also those that ended."""
        return tuple(listed.labels.get(names.GUID, listed.name) for listed in self._listed)

    @property
    def is_listed(self) -> bool:
        """Whether it is known what there is."""
        return self._containers is not None

    async def inspected(self, guid: str) -> FleetContainer | None:
        """The container, running or not; None where there is none of ours. Raises `Transient`."""
        return await self._found(guid) if self._containers is not None else None

    async def command(self, guid: str, command: Sequence[str], size: WindowSize) -> Exec | CriExec:
        """Run a command with a terminal in a container. Raises as `process_of`, and where the runtime refuses."""
        found = await self.process_of(guid)
        return await self._runtime.command(found.id, command, size.columns, size.rows)

    # ---- what a controller asks

    async def _survey(self, request: Survey, _: BusMessage) -> Surveyed:
        self._check(request)
        listed = await self._runtime.list(self._label)
        making = (guid for guid, group in self._making.items() if group == request.fence.group)
        kept = self._room.of_group(request.fence.group, self._now())
        steps = dict.fromkeys((*making, *kept), ContainerStep.RESERVED)
        for entry in listed:
            if entry.labels.get(names.GROUP) == request.fence.group:
                steps[entry.labels[names.GUID]] = step_of(entry.status)
        return Surveyed(steps)

    async def _reserve(self, request: Make, _: BusMessage) -> Moved:
        self._check(request)
        found = await self._found(request.container.guid)
        if found is None:
            await asyncio.to_thread(mounted, request.container.template, self._mount_paths)
            listed = await self._runtime.list(self._label)
            self._check(request)
            self._keep_room(request, listed)
            return Moved(ContainerStep.RESERVED)
        return Moved(step_of(found.status))

    async def _create(self, request: Make, _: BusMessage) -> Moved:
        guid = request.container.guid
        async with self._lock(guid):
            self._check(request)
            found = await self._found(guid)
            if found is not None:
                return Moved(step_of(found.status))
            template = await asyncio.to_thread(mounted, request.container.template, self._mount_paths)
            listed = await self._runtime.list(self._label)
            appkey = template.appkey
            for entry in listed:
                if (entry.labels.get(names.GROUP), entry.labels.get(names.APPKEY)) == (request.fence.group, appkey):
                    raise Permanent(f"{appkey} of group {request.fence.group} is here already, as {entry.name}")
            self._check(request)  # a later controller that has looked meanwhile was not told of this one
            self._keep_room(request, listed)
            self._making[guid] = request.fence.group
            environment = names.environment_of(request.container, self._environment, request.credentials)
            try:
                await self._runtime.create(
                    guid, template, environment, names.labels_of(request.container, request.fence)
                )
            except InUse as error:
                raise Permanent(f"a container that is not of this fleet has the name {guid}") from error
            finally:
                del self._making[guid]
                self._stale.set()
            self._room.release(guid)  # from here on its labels say what it takes
            return Moved(ContainerStep.CREATED)

    async def _start(self, request: Move, _: BusMessage) -> Moved:
        async with self._lock(request.guid):
            self._check(request)
            found = await self._found(request.guid)
            if found is None:
                raise NoSuchGuid(f"no container of this host has the guid {request.guid}")
            if found.started_s and found.status != "created":
                return Moved(step_of(found.status))
            await self._runtime.start(request.guid)
            self._stale.set()
            return Moved(ContainerStep.RUNNING)

    async def _probe(self, request: Move, _: BusMessage) -> Moved:
        for look in itertools.count():
            self._check(request)
            found = await self._found(request.guid)
            if found is None:
                raise NoSuchGuid(f"no container of this host has the guid {request.guid}")
            step = step_of(found.status)
            if step is not ContainerStep.RUNNING:
                if step is ContainerStep.ENDED:
                    raise Permanent(await last_words(found))
                return Moved(step)
            if found.restarts:
                raise Permanent(
                    f"it ended and was restarted {found.restarts} times; the last: {await last_words(found)}"
                )
            if found.health == "unhealthy":
                raise Permanent(f"its health check fails: {found.health_said or 'without a word'}")
            is_steady = found.status != "restarting" and self._now() - found.started_s >= STEADY_S
            if found.health == "healthy" or (not found.health and is_steady):
                return Moved(ContainerStep.READY)
            await asyncio.sleep(_POLL_S if look < _QUICK_LOOKS else _SLOW_POLL_S)
        raise AssertionError

    async def _stop(self, request: Move, _: BusMessage) -> Moved:
        async with self._lock(request.guid):
            self._check(request)
            self._stopping.add(request.guid)
            self._stale.set()
            await self._runtime.stop(request.guid)
            found = await self._found(request.guid)
            self._stale.set()
            return Moved(step_of(found.status) if found is not None else ContainerStep.ABSENT)

    async def _remove(self, request: Move, _: BusMessage) -> Moved:
        async with self._lock(request.guid):
            self._check(request)
            found = await self._found(request.guid)
            if found is not None:
                await self._runtime.remove(request.guid)
            self._room.release(request.guid)
            self._stopping.discard(request.guid)
            self._stale.set()
        self._locks.pop(request.guid, None)
        return Moved(ContainerStep.ABSENT)

    async def _release(self, request: Move, _: BusMessage) -> Moved:
        return await self._remove(request, _)

    async def _inspect(self, request: Inspect, _: BusMessage) -> Inspected:
        found = await self._found(request.guid)
        if found is None:
            raise NoSuchGuid(f"no container of this host has the guid {request.guid}")
        status = next((self._status(listed) for listed in self._listed if listed.name == request.guid), None)
        facts = {
            "image": found.image,
            "container": found.id[:12],
            "status": found.status + (f", {found.health}" if found.health else ""),
            "process": str(found.pid or "none"),
            "restarts": str(found.restarts),
            **({"health check said": found.health_said} if found.health_said else {}),
            **({"ended": why_ended(found)} if found.status in ("exited", "dead") else {}),
        }
        return Inspected(status, facts)

    # ----

    @property
    def _runtime(self) -> ContainerRuntime:
        if self._containers is None:
            raise Transient(self.fault or "the container runtime is not ready yet")
        return self._containers

    def _check(self, request: Survey | Make | Move) -> None:
        if self._fences is None:
            raise Transient(self.fault or "the container runtime is not ready yet")
        self._fences.check(request.fence)

    def _lock(self, guid: str) -> asyncio.Lock:
        return self._locks.setdefault(guid, asyncio.Lock())

    def _keep_room(self, request: Make, listed: tuple[ListedContainer, ...]) -> None:
        taken = [
            Taken(
                entry.labels.get(names.GUID, ""),
                names.number(entry.labels, names.CPU),
                names.number(entry.labels, names.MEMORY),
                names.ports(entry.labels),
            )
            for entry in listed
        ]
        self._room.reserve(request.container, request.fence.group, taken, self._now())

    async def _found(self, guid: str) -> FleetContainer | None:
        """The container where it is ours."""
        found = await self._runtime.inspect(guid)
        return found if found is not None and found.labels.get(names.AGENT) == self._agent else None

    async def _follow(self) -> None:
        """Keep the list as the runtime has it."""
        watching = asyncio.create_task(self._watch(), name="events of containers")
        try:
            wait_s = _REFRESH_S
            while True:
                is_told = False
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        is_told = await self._stale.wait()
                wait_s = _AGAIN_S if is_told else _REFRESH_S
                self._stale.clear()
                try:
                    self._listed = await self._runtime.list(self._label)
                    self.fault = ""
                except (CotenantError, NotThere) as error:
                    self.fault = str(error)
                    await asyncio.sleep(1.0)
                    self._stale.set()
        finally:
            await cancelled([watching])

    async def _watch(self) -> None:
        while True:
            try:
                async for _ in self._runtime.changes(self._label):
                    self._stale.set()
            except CotenantError as error:
                self.fault = str(error)
            self._stale.set()
            await asyncio.sleep(1.0)

    def _status(self, listed: ListedContainer) -> HostContainer:
        guid = listed.labels.get(names.GUID, listed.name)
        state, detail = state_of(listed, guid in self._stopping)
        return HostContainer(
            guid=guid,
            state=state,
            image=listed.image,
            group=listed.labels.get(names.GROUP, ""),
            appkey=listed.labels.get(names.APPKEY, ""),
            detail=detail,
            cpu_request_milli=names.number(listed.labels, names.CPU),
            memory_request_bytes=names.number(listed.labels, names.MEMORY),
            host_ports=names.ports(listed.labels),
        )
