"""One agent on the bus: who it is, its heartbeat, its configuration, its answers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace

import msgspec

from cotenant.drivers.nats.contract import Bus, BusMessage, BusService, Subscription
from cotenant.model.errors import CotenantError, InvalidInput, Transient
from cotenant.model.fleet.configuration import AgentConfiguration, merged, refusals
from cotenant.model.fleet.host import Heartbeat, HostContainer, Registered, Registration
from cotenant.model.fleet.refusal import NobodyAnswers
from cotenant.model.fleet.requests import Configure, Configured, Describe, Inspect, Inspected
from cotenant.services.fleet.agent.switches import Switches
from cotenant.services.fleet.functions.contract import Beat, Function
from cotenant.services.fleet.rpc import Dispatcher, RpcVerb, call, decode, encode
from cotenant.services.running import TaskSet

_log = logging.getLogger(__name__)
SERVICE = "cotenant-agent"
_REGISTER_S = 3.0


class FleetAgent:
    """An agent. `local`: the settings of its own file; those named in `overridden` win over the registry's."""

    def __init__(
        self,
        registration: Registration,
        bus: Bus,
        functions: Sequence[Function],
        local: AgentConfiguration | None = None,
        overridden: tuple[str, ...] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._bus = bus
        self._now = now
        self._local = local or AgentConfiguration()
        self._overridden = overridden
        self._configuration = self._local
        self._switches = Switches(functions)
        self._verbs = {
            **self._switches.verbs(),
            "describe": RpcVerb(Describe, self._describe),
            "configure": RpcVerb(Configure, self._configure),
            "inspect": RpcVerb(Inspect, self._inspect),
        }
        self._inspect_container = self._switches.verbs().get("inspect")
        self.registration = replace(registration, capabilities=tuple(sorted(self._verbs)))
        self._dispatcher = Dispatcher(self._verbs, bus)
        self._revision = 0
        self._refused: tuple[str, ...] = ()
        self._number = 0
        self._started_s = now()
        self._containers: tuple[HostContainer, ...] = ()
        self._served: Subscription | None = None

    @property
    def guid(self) -> str:
        """Its guid."""
        return self.registration.guid

    @property
    def configuration(self) -> AgentConfiguration:
        """What it works by now."""
        return self._configuration

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`. Containers go on running afterwards."""
        self._switches.apply(self._configuration)
        tasks = TaskSet()
        tasks.start("functions", self._switches.run())
        await self.serve()
        try:
            await self.register()
            tasks.start("heartbeats", self._beat())
            await tasks.wait(stop)
        finally:  # nothing is asked any more before the functions end
            await self._leave()
            await self._dispatcher.close()
            await tasks.cancel()

    async def serve(self) -> None:
        """Answer on the bus from now on."""
        metadata = {
            "guid": self.guid,
            "host": self.registration.hostname,
            "role": self.registration.role,
            "platform": self.registration.platform,
            "tags": ",".join(self.registration.tags),
        }
        service = BusService(SERVICE, self.registration.version, metadata, f"guid.{self.guid}.rpc", sorted(self._verbs))
        self._served = await self._bus.serve(service, self._dispatcher.received)

    async def register(self) -> None:
        """Say who this is, and take the configuration that a controller answers with.

        Without one the agent works by its own.
        """
        try:
            answer = await call(self._bus, f"fleet.register.{self.guid}", self.registration, Registered, _REGISTER_S)
        except NobodyAnswers:
            _log.info("no controller yet: working by the local configuration")
        except Transient as error:
            _log.warning("not registered yet: %s", error)
        else:
            self._take(answer.revision, answer.configuration)

    async def send_heartbeat(self) -> None:
        """One heartbeat, now."""
        beat = Beat()
        await self._switches.fill(beat)
        self._number += 1
        self._containers = tuple(beat.containers.values())
        message = Heartbeat(
            self.guid,
            self._number,
            self._started_s,
            self._configuration.heartbeat_s,
            self._revision,
            self._refused,
            beat.load,
            beat.cpu_milli,
            beat.memory_bytes,
            self._containers,
            self._switches.health(),
            tuple(beat.exporters),
        )
        await self._bus.publish(f"hb.{self.guid}", encode(message))

    async def _beat(self) -> None:
        while True:
            started_s = self._now()
            try:
                await self.send_heartbeat()
            except CotenantError as error:
                _log.warning("no heartbeat: %s", error)
            pause_s = self._configuration.heartbeat_s - (self._now() - started_s)
            await asyncio.sleep(min(max(0.01, pause_s), self._configuration.heartbeat_s))

    async def _leave(self) -> None:
        try:
            if self._served is not None:
                await self._served.unsubscribe()
            await self._bus.publish(f"fleet.leave.{self.guid}", b"{}")
        except Exception as error:  # the bus may be gone; heartbeats end anyway
            _log.info("not said that this agent leaves: %s", error)

    # ---- configuration

    def _take(self, revision: int, text: str) -> tuple[str, ...]:
        """Go over to a revision, whole or not at all; the reasons against it."""
        if revision <= 0:
            return ()
        try:
            wanted = merged(decode(AgentConfiguration, text.encode(), "configuration"), self._local, self._overridden)
            refused = refusals(self._configuration, wanted)
        except InvalidInput as error:
            refused = (str(error),)
        self._revision, self._refused = revision, refused
        if refused:
            _log.warning("configuration %d is refused: %s", revision, "; ".join(refused))
        elif wanted != self._configuration:
            _log.info("configuration %d: %s", revision, _differences(self._configuration, wanted))
            self._configuration = wanted
            self._switches.apply(wanted)
        return refused

    async def _configure(self, request: Configure, _: BusMessage) -> Configured:
        return Configured(request.revision, self._take(request.revision, request.configuration))

    async def _describe(self, _: Describe, __: BusMessage) -> Registration:
        return self.registration

    async def _inspect(self, request: Inspect, message: BusMessage) -> object:
        if request.guid and self._inspect_container is not None:
            return await self._inspect_container.handle(request, message)
        facts = {
            "configuration": f"revision {self._revision}" if self._revision else "its own",
            "heartbeat": f"{self._configuration.heartbeat_s:g} s",
            **{
                f"function {health.name}": (health.fault or "well")
                if health.is_on
                else f"off{': ' * bool(health.fault)}{health.fault}"
                for health in self._switches.health()
            },
        }
        return Inspected(None, facts)


def _differences(before: AgentConfiguration, after: AgentConfiguration) -> str:
    changed = [
        field.name for field in fields(AgentConfiguration) if getattr(before, field.name) != getattr(after, field.name)
    ]
    return ", ".join(f"{name} = {msgspec.json.encode(getattr(after, name)).decode()}" for name in changed)
