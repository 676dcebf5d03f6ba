"""A program of the fleet: it registers its own functions as methods, and is asked for them by its guid.

    program = Program("thermostat", "1.0.0")

    @program.method(deadline_s=2.0)
    def warm(celsius: float, room: str = "hall") -> str: ...

    program.run()

The guid is that of the program's container ($COTENANT_GUID, which agents inject), so there is one program for each
guid. A NATS server with the fleet's keys lets it speak and hear as that guid only.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec

from cotenant.drivers.nats.client import BusAccess
from cotenant.drivers.nats.contract import Bus, BusMessage, BusService
from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.identity import check_guid
from cotenant.model.fleet.methods import METHODS, USUAL_DEADLINE_S, MethodList, Methods
from cotenant.services.fleet.connected import run_connected
from cotenant.services.fleet.places import BusOptions, access_of
from cotenant.services.fleet.programs.typed import TypedMethod
from cotenant.services.fleet.rpc import Dispatcher, RpcVerb

SERVICE = "cotenant-program"
GUID, KEY, CA, CREDENTIALS = "COTENANT_GUID", "COTENANT_KEY", "COTENANT_CA", "COTENANT_CREDENTIALS"
F = TypeVar("F", bound=Callable[..., object])


class Program:
    """`guid` empty: $COTENANT_GUID. `bus` empty: $COTENANT_BUS, $COTENANT_KEY (file of an nkey's seed, or of
    credentials), else $COTENANT_CREDENTIALS (their text), and $COTENANT_CA, else the fleet that this user runs on this
    machine.
    """

    def __init__(self, name: str, version: str = "0.0.0", guid: str = "", bus: BusOptions | None = None) -> None:
        self.name = name
        self.version = version
        self._guid = guid
        self._bus = bus
        self._methods: dict[str, TypedMethod] = {}

    @property
    def guid(self) -> str:
        """Its guid. Raises `InvalidInput` where it has none."""
        given = self._guid or os.environ.get(GUID, "")
        if not given:
            raise InvalidInput("guid", "", "a guid", f"an agent sets ${GUID} in containers; elsewhere set it yourself")
        return check_guid("guid", given)

    def method(self, name: str = "", *, deadline_s: float = USUAL_DEADLINE_S) -> Callable[[F], F]:
        """Register the function below, under its own name unless another is given. Raises `InvalidInput`."""

        def register(function: F) -> F:
            made = TypedMethod(function, name or function.__name__, deadline_s)
            if made.name in self._methods:
                raise InvalidInput("method", made.name, "each name once")
            self._methods[made.name] = made
            return function

        return register

    def methods(self) -> MethodList:
        """What it answers to."""
        return MethodList(self.name, self.version, tuple(found.method for found in self._methods.values()))

    def run(self) -> int:
        """Serve until a signal. Raises `InvalidInput`, `Permanent`."""
        run_connected(self._access(), self.serve)
        return 0

    async def serve(self, bus: Bus, stop: asyncio.Event) -> None:
        """Serve on a connection of the caller's, in its own loop, until `stop`."""
        verbs = {name: RpcVerb(msgspec.Raw, _handler(found)) for name, found in self._methods.items()}
        verbs[METHODS] = RpcVerb(Methods, self._listed)
        dispatcher = Dispatcher(verbs, bus)
        service = BusService(
            SERVICE,
            self.version,
            {"guid": self.guid, "program": self.name},
            f"guid.{self.guid}.rpc",
            sorted(verbs),
            metadata_of={name: _metadata(found) for name, found in self._methods.items()},
        )
        served = await bus.serve(service, dispatcher.received)
        try:
            await stop.wait()
        finally:
            await served.unsubscribe()
            await dispatcher.close()

    async def _listed(self, _: Methods, __: BusMessage) -> MethodList:
        return self.methods()

    def _access(self) -> BusAccess:
        key, ca = os.environ.get(KEY, ""), os.environ.get(CA, "")
        given = self._bus or BusOptions(key=Path(key) if key else None, ca=Path(ca) if ca else None)
        found = access_of(BusOptions(given.url, given.key, given.ca, self.guid, given.state_dir))
        return found if found.seed else replace(found, credentials=os.environ.get(CREDENTIALS, ""))


def _handler(method: TypedMethod) -> Callable[[msgspec.Raw, BusMessage], Awaitable[object]]:
    async def handle(arguments: msgspec.Raw, _: BusMessage) -> object:
        return await method.call(bytes(arguments))

    return handle


def _metadata(method: TypedMethod) -> dict[str, str]:
    found = method.method
    return {
        "arguments": msgspec.json.encode(found.schema).decode(),
        "result": found.result,
        "deadline_ms": str(round(found.deadline_s * 1000)),
        "about": found.about,
    }
