"""A controller on the bus: hears heartbeats, registers agents, keeps their configuration up to date, takes over groups
that lost their controller.

Several may run. Each hears all agents; a request of an operator is handled by one of them; a group is brought up or
down by the one that wrote its record last, and agents refuse the others.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import msgspec

from cotenant.drivers.nats.contract import Bus, BusMessage, KeyValueStore, RevisionConflict, Subscription
from cotenant.engine.fleet.registry import HostRegistry
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.model.fleet.group import GroupRecord
from cotenant.model.fleet.host import Heartbeat, Registered, Registration
from cotenant.model.fleet.requests import Configure, Configured, Describe
from cotenant.model.fleet.rights import FleetFile
from cotenant.model.fleet.states import AgentState
from cotenant.services.fleet.controller.awake import Awake
from cotenant.services.fleet.controller.driving import Deadlines, GroupDriver, no_credentials
from cotenant.services.fleet.controller.stored import FleetStore
from cotenant.services.fleet.rpc import Dispatcher, RpcVerb, call, decode, encode
from cotenant.services.running import TaskSet, cancelled

_log = logging.getLogger(__name__)
TICK_S = 1.0
OWNER_AWAY_S = 3.0  # silence after which another controller's groups are taken over
FORGOTTEN_AFTER_S = 60.0  # a group that was removed; longer than an operator asks again
_AT_ONCE = 64  # agents that are asked at the same time


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """`rights`: None allows all to whoever reaches the bus.

    `issue`: credentials of a container's program. `is_alone`: no other controller can share the store, so its groups
    are taken over at once.
    """

    rights: FleetFile | None = None
    is_alone: bool = False
    deadlines: Deadlines = field(default_factory=Deadlines)
    issue: Callable[[str], str] = no_credentials


class FleetController:
    """One controller. `verbs` are those that operators ask (services/fleet/controller/asking.py), set before `run`."""

    def __init__(
        self,
        bus: Bus,
        store: KeyValueStore,
        settings: ControllerSettings | None = None,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        awake: Awake | None = None,
    ) -> None:
        """`now`: a steady clock; `wall`: Unix time, from which the epochs of groups begin."""
        self.bus = bus
        self.settings = settings or ControllerSettings()
        self.id = secrets.token_hex(6)
        self.registry = HostRegistry()
        self.stored = FleetStore(store)
        self.now, self.wall = now, wall
        self._peers: dict[str, float] = {}  # other controllers: when they were heard last
        self._started_s = now()
        self._gone: dict[int, float] = {}  # records of removed groups, by revision: since when
        self._drivers: dict[str, tuple[GroupDriver, asyncio.Task[None]]] = {}
        self._beginning: dict[str, tuple[asyncio.Lock, int]] = {}  # groups whose record is written here; by how many
        self._asking: set[str] = set()  # agents that are being asked who they are, or configured
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._awake = awake or Awake()
        self._dispatcher: Dispatcher | None = None
        self._subscriptions: list[Subscription] = []
        self._decode = msgspec.json.Decoder(Heartbeat).decode

    @property
    def is_young(self) -> bool:
        """Whether hosts may not have been heard yet, which send a heartbeat each second."""
        return self.now() - self._started_s < OWNER_AWAY_S

    async def run(self, verbs: dict[str, RpcVerb], stop: asyncio.Event) -> None:
        """Until `stop`."""
        tasks = TaskSet()
        await self.serve(verbs)
        tasks.start("controller", self._ticks())
        tasks.start("pulse", self._awake.pulse())
        try:
            await tasks.wait(stop)
        finally:
            await tasks.cancel()
            await self.close()

    async def serve(self, verbs: dict[str, RpcVerb]) -> None:
        """Hear agents and answer operators from now on."""
        self._dispatcher = Dispatcher(verbs, self.bus, self.now, self._awake.check)
        self._subscriptions += [
            await self.bus.subscribe("hb.*", self._heartbeat),
            await self.bus.subscribe("fleet.register.*", self._registration, "controllers"),
            await self.bus.subscribe("fleet.leave.*", self._left),
            await self.bus.subscribe("fleet.controller.*", self._peer),
            await self.bus.subscribe("fleet.*.rpc.*", self._dispatcher.received, "controllers"),
        ]

    async def close(self) -> None:
        """Stop; groups under way are taken over by another controller, or by the next."""
        for subscription in self._subscriptions:
            await subscription.unsubscribe()
        if self._dispatcher is not None:
            await self._dispatcher.close()
        await cancelled([*self._tasks, *(task for _, task in self._drivers.values())])

    async def tick(self) -> None:
        """What is due once a second."""
        now_s = self.now()
        for change in self.registry.tick(now_s):
            _log.info("%s: %s, was %s", change.guid, change.after, change.before)
        await self.bus.publish(f"fleet.controller.{self.id}", b"{}")
        for host in self.registry.hosts():
            if host.state is AgentState.ALIVE and host.beat is not None:
                wanted = self.stored.configuration(host.registration.role, host.registration.platform)
                guid = host.registration.guid
                if wanted.revision and host.beat.revision != wanted.revision and guid not in self._asking:
                    self._asking.add(guid)
                    self._start(self._push(guid, wanted))
        await self._take_over(now_s)
        await self._forget(now_s)

    # ---- groups

    def driver(self, name: str) -> GroupDriver | None:
        """The driver of a group that is under way here."""
        found = self._drivers.get(name)
        return found[0] if found is not None else None

    @asynccontextmanager
    async def beginning(self, name: str) -> AsyncIterator[None]:
        """From before a record is stored until its driver runs: what is stored may be seen before the store answers."""
        lock, users = self._beginning.get(name, (asyncio.Lock(), 0))
        self._beginning[name] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            users = self._beginning[name][1] - 1
            if users:
                self._beginning[name] = lock, users
            else:
                del self._beginning[name]

    def driver_of(self, record: GroupRecord, revision: int, *, is_new: bool = False) -> GroupDriver:
        """A driver of a stored record; `is_new`: nothing of it was asked of any agent before."""
        deadlines, issue = self.settings.deadlines, self.settings.issue
        return GroupDriver(self.bus, self.stored, record, revision, deadlines, self.now, is_new=is_new, issue=issue)

    def drive(self, driver: GroupDriver) -> None:
        """Bring a group where its record says."""
        name = driver.record.name
        task = asyncio.create_task(self._driven(name, driver), name=f"group {name}")
        self._drivers[name] = (driver, task)

    async def _driven(self, name: str, driver: GroupDriver) -> None:
        try:
            await driver.run()
        except CotenantError as error:
            _log.error("group %s: %s", name, error)
        except Exception:  # the loop of a process: one group's defect must not end the others
            _log.exception("group %s failed", name)
        finally:
            if self._drivers.get(name, (None,))[0] is driver:
                del self._drivers[name]

    async def _take_over(self, now_s: float) -> None:
        if not self.settings.is_alone and self.is_young:
            return
        for found in self.stored.groups():
            record = found.record
            if record.done or record.name in self._drivers or record.name in self._beginning:
                continue
            heard_s = self._peers.get(record.owner)
            if heard_s is not None and now_s - heard_s < OWNER_AWAY_S and not self.settings.is_alone:
                continue
            taken = replace(record, owner=self.id, epoch=record.epoch + 1)
            async with self.beginning(record.name):
                try:
                    revision = await self.stored.put_group(taken, found.revision)
                except RevisionConflict:
                    continue
                except CotenantError as error:
                    _log.warning("group %s is not taken over: %s", record.name, error)
                    continue
                _log.info("group %s is taken over: %s", record.name, record.goal)
                self.drive(self.driver_of(taken, revision))

    async def _forget(self, now_s: float) -> None:
        """Delete records of groups that operators removed a while ago."""
        gone = {found.revision: found for found in self.stored.groups() if found.record.is_forgotten}
        self._gone = {revision: self._gone.get(revision, now_s) for revision in gone}
        for revision, since_s in list(self._gone.items()):
            if now_s - since_s >= FORGOTTEN_AFTER_S:
                with suppress(RevisionConflict):  # it is brought up again
                    await self.stored.forget_group(gone[revision])

    # ---- agents

    async def _heartbeat(self, message: BusMessage) -> None:
        try:
            beat = self._decode(message.data)
        except ValueError as error:
            self.registry.counts["unreadable heartbeats"] += 1
            _log.debug("heartbeat on %s: %s", message.subject, error)
            return
        if message.subject != f"hb.{beat.guid}":
            self.registry.counts["heartbeats under another guid"] += 1
        elif not self.registry.beat(beat, self.now()) and beat.guid not in self._asking:
            self._asking.add(beat.guid)
            self._start(self._ask_who(beat.guid))

    async def _ask_who(self, guid: str) -> None:
        try:
            async with self._limit:
                found = await call(self.bus, f"guid.{guid}.rpc.describe", Describe(), Registration)
            self._register(guid, found)
        except CotenantError as error:
            _log.warning("%s sends heartbeats and is not known: %s", guid, error)
        finally:
            self._asking.discard(guid)

    async def _registration(self, message: BusMessage) -> None:
        guid = message.subject.rpartition(".")[2]
        try:
            registration = decode(Registration, message.data, "registration")
            answer = self._register(guid, registration)
        except CotenantError as error:
            _log.warning("%s is not registered: %s", guid, error)
            answer = Registered()
        if message.reply:
            await self.bus.publish(message.reply, encode(answer))

    def _register(self, guid: str, registration: Registration) -> Registered:
        if registration.guid != guid:
            raise InvalidInput("registration.guid", registration.guid, guid, "an agent speaks for its own guid only")
        wanted = self.stored.configuration(registration.role, registration.platform)
        self.registry.register(registration, self.now())
        return wanted

    async def _left(self, message: BusMessage) -> None:
        self.registry.leave(message.subject.rpartition(".")[2])

    async def _peer(self, message: BusMessage) -> None:
        peer = message.subject.rpartition(".")[2]
        if peer != self.id:
            self._peers[peer] = self.now()

    async def _push(self, guid: str, wanted: Registered) -> None:
        try:
            async with self._limit:
                answer = await self.configure(guid, wanted)
        except CotenantError as error:
            _log.info("%s has not got configuration %d: %s", guid, wanted.revision, error)
        else:
            if answer.refused:
                _log.warning("%s refuses configuration %d: %s", guid, wanted.revision, "; ".join(answer.refused))
        finally:
            self._asking.discard(guid)

    async def configure(self, guid: str, wanted: Registered) -> Configured:
        """Bring a stored configuration to an agent."""
        request = Configure(wanted.revision, wanted.configuration)
        return await call(self.bus, f"guid.{guid}.rpc.configure", request, Configured)

    async def _ticks(self) -> None:
        while True:
            try:
                await self.tick()
            except CotenantError as error:
                _log.warning("%s", error)
            await asyncio.sleep(TICK_S)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
