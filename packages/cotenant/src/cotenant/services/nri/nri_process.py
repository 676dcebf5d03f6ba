"""Keeps the hook connected to its runtime, for ever.

Runtimes restart, and their socket appears after this process. Connect, answer until the runtime closes, and connect
again after 0.1 s to 2 s; in between, containers start as the runtime was told and the agent's leases follow within a
period. Facts of the node are renewed beside it.
Limits: one runtime.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cotenant.drivers.nri.session import NriSession, RuntimeVersion
from cotenant.drivers.nri.state_file import HookState, StateFile
from cotenant.model.errors import CotenantError
from cotenant.services.nri.hook import Hook

FACTS_EVERY_S, SAID_EVERY_S = 10.0, 2.0
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0
NAME = "cotenant"
# A runtime takes the place of whatever stands at its path when it starts, and leaves it there when it is killed.
_DEAD = (
    "nobody listens there: the runtime that made it has ended, or another one on this node has taken its path and "
    "ended; a runtime makes it again when it is restarted, and two of one node need paths of their own"
)
_log = logging.getLogger(__name__)


class HookProcess:
    """The tasks of the process. `read_facts` blocks for a few seconds at most."""

    def __init__(
        self,
        socket: Path,
        index: str,
        hook: Hook,
        cpu_version: int,
        read_facts: Callable[[], None],
        state: StateFile | None,
        said_every_s: float = SAID_EVERY_S,
    ) -> None:
        self.hook = hook
        self.runtime: RuntimeVersion | None = None  # while connected
        self._socket, self._index, self._cpu_version = socket, index, cpu_version
        self._read_facts, self._state, self._said_every_s = read_facts, state, said_every_s
        self._said = self._runtime_said = ""
        self._was_connected = False

    def connected(self, runtime: RuntimeVersion) -> None:
        """The runtime asks the plugin from now on."""
        self.runtime, self._was_connected, self._said = runtime, True, ""
        _log.info("hooked into %s %s; %s", runtime.name, runtime.version, _does(self.hook.acts))
        self._write(f"{runtime.name} {runtime.version}")

    def unready(self) -> str:
        """Why no container is changed, empty if they are."""
        return "" if self.runtime is not None else self._said or "no runtime has accepted this plugin yet"

    async def run(self) -> None:
        """Until cancelled."""
        self._write("")
        await asyncio.to_thread(self._read_facts)
        beside = (
            asyncio.create_task(self._renew(), name="facts"),
            asyncio.create_task(self._say_again(), name="state file"),
        )
        wait_s = FIRST_WAIT_S
        try:
            while True:
                self._was_connected = False
                said = await self._session()
                self.runtime = None
                self._write("")
                if self._was_connected or said != self._said:
                    _log.warning(
                        "%s: %s; containers start as the runtime was told, until it is back", self._socket, said
                    )
                self._said = said
                wait_s = FIRST_WAIT_S if self._was_connected else min(LONGEST_WAIT_S, 2 * wait_s)
                await asyncio.sleep(wait_s)
        finally:
            for task in beside:
                task.cancel()

    async def _session(self) -> str:
        """One connection, and why it ended."""
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._socket))
            holds_shares = bool(self.hook.settings.mps_pipe)
            session = NriSession(reader, writer, self.hook, self._cpu_version, removals=holds_shares)
            await session.run(NAME, self._index)
        except ConnectionRefusedError:
            return _DEAD
        except (CotenantError, OSError) as error:
            return str(error)
        return "the runtime closed the connection"

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(FACTS_EVERY_S)
            try:
                await asyncio.to_thread(self._read_facts)
            except Exception:  # the hook goes on with what it knows
                self.hook.failed("facts")
                _log.exception("the node's facts could not be read")

    async def _say_again(self) -> None:
        """So that others see a process that no longer comes round."""
        while self._state is not None:
            await asyncio.sleep(self._said_every_s)
            with suppress(OSError):  # said where what it says changed
                self._state.write(HookState(self._runtime_said, self.hook.acts, self.hook.shares()))

    def _write(self, runtime: str) -> None:
        self._runtime_said = runtime
        if self._state is not None:
            try:
                self._state.write(HookState(runtime, self.hook.acts, self.hook.shares()))
            except OSError as error:
                _log.warning("the state file cannot be written: %s", error)


def _does(acts: bool) -> str:
    return "new containers get their first values" if acts else "it decides and changes nothing, since mode is not act"
