"""Functions switched on and off while the agent runs.

One that cannot start is tried again, and its fault is in the heartbeat.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from cotenant.drivers.nats.contract import BusMessage
from cotenant.model.errors import CotenantError, Unsupported
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.host import FunctionHealth
from cotenant.services.fleet.functions.contract import Beat, Function
from cotenant.services.fleet.rpc import RpcVerb

_log = logging.getLogger(__name__)
_AGAIN_S = 3.0


class Switches:
    """The functions of one agent."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self._functions = functions
        self._wanted: frozenset[str] = frozenset()
        self._on: set[str] = set()
        self._faults: dict[str, str] = {}
        self._changed = asyncio.Event()

    def verbs(self) -> dict[str, RpcVerb]:
        """All verbs, of functions that are off too: those answer that they are."""
        return {
            verb: RpcVerb(entry.form, self._guarded(function, entry))
            for function in self._functions
            for verb, entry in function.verbs.items()
        }

    def apply(self, configuration: AgentConfiguration) -> None:
        """Bring the functions to this configuration; `run` does the switching."""
        for function in self._functions:
            function.configure(configuration)
        self._wanted = frozenset(configuration.functions)
        self._changed.set()

    async def switch(self) -> None:
        """Switch what is to be switched."""
        for function in self._functions:
            name = function.name
            if name in self._wanted and name not in self._on:
                try:
                    await function.start()
                except CotenantError as error:
                    if self._faults.get(name) != str(error):
                        _log.warning("%s cannot start yet: %s", name, error)
                    self._faults[name] = str(error)
                else:
                    self._on.add(name)
                    self._faults.pop(name, None)
        for function in reversed(self._functions):
            if function.name not in self._wanted and function.name in self._on:
                self._on.discard(function.name)
                await function.stop()

    async def run(self) -> None:
        """Switch as configured until cancelled, then switch all off."""
        try:
            while True:
                self._changed.clear()
                await self.switch()
                try:
                    async with asyncio.timeout(_AGAIN_S if self._faults else None):
                        await self._changed.wait()
                except TimeoutError:
                    continue
        finally:
            self._wanted = frozenset()
            await self.switch()

    def health(self) -> tuple[FunctionHealth, ...]:
        """Of each function."""
        return tuple(
            FunctionHealth(
                function.name,
                function.name in self._on,
                self._faults.get(function.name, "") or self._fault(function),
                is_starting=function.name in self._wanted - self._on and function.name not in self._faults,
            )
            for function in self._functions
        )

    async def fill(self, beat: Beat) -> None:
        """Let all functions that are on add to a heartbeat; a defect of one leaves the others'."""
        for function in self._functions:
            if function.name in self._on:
                try:
                    await function.add_to(beat)
                except Exception as error:  # a heartbeat goes out, whatever one function has
                    _log.exception("%s adds nothing to the heartbeat", function.name)
                    self._faults[function.name] = str(error) or type(error).__name__

    def _fault(self, function: Function) -> str:
        return function.fault if function.name in self._on else ""

    def _guarded(self, function: Function, entry: RpcVerb) -> Callable[[object, BusMessage], Awaitable[object]]:
        async def handle(request: object, message: BusMessage) -> object:
            if function.name not in self._wanted:
                raise Unsupported(
                    function.name, f"the function {function.name}, which this agent's configuration switches off"
                )
            return await entry.handle(request, message)

        return handle
