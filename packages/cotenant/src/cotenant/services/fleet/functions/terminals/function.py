"""Terminals into this host's containers, and into those of its pods. Off unless the configuration names it.

A container is named by its guid, a pod's by a name with a slash, as the controller writes it.
A terminal belongs to the operator that opened it, and ends when nobody reads it, when no key was pressed for long, when
its recording is full or cannot be written, and with the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from cotenant.drivers.nats.contract import BusMessage
from cotenant.engine.fleet.terminal import TerminalLimits, TerminalState
from cotenant.model.errors import CotenantError, Permanent, Transient, Unsupported
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.pods import FIND, FindPods, FoundPods, PodContainer, PodName
from cotenant.model.fleet.refusal import NoSuchGuid
from cotenant.model.fleet.terminals import (
    EXEC,
    READ,
    WRITE,
    OpenedTerminal,
    OpenTerminal,
    ReadTerminal,
    TerminalPage,
    WindowSize,
    WriteTerminal,
    WrittenTerminal,
)
from cotenant.services.fleet.functions.contract import Beat
from cotenant.services.fleet.functions.terminals.pods import NodePods
from cotenant.services.fleet.functions.terminals.records import Recording, TerminalRecords
from cotenant.services.fleet.rpc import RpcVerb
from cotenant.services.running import cancelled

_log = logging.getLogger(__name__)
MAX_TERMINALS = 16
_CHUNK = 32 << 10


class TerminalCommand(Protocol):
    """A command with a terminal, as drivers/docker/exec.py has it."""

    async def read(self, max_bytes: int) -> bytes:
        """Output; empty at its end."""
        ...

    async def write(self, data: bytes) -> None:
        """Type."""
        ...

    async def resize(self, columns: int, rows: int) -> None:
        """The window has this size now."""
        ...

    async def exit_code(self) -> int | None:
        """After the output's end."""
        ...

    async def close(self) -> None:
        """End the command and the line."""
        ...


class Commands(Protocol):
    """Who runs commands in containers."""

    async def command(self, guid: str, command: Sequence[str], size: WindowSize) -> TerminalCommand:
        """Run one with a terminal. Raises `CotenantError`."""
        ...


class PodCommands(Protocol):
    """Who runs commands in containers of pods."""

    def configure(self, socket: str) -> None:
        """Ask this runtime from now on."""
        ...

    def close(self) -> None:
        """End the connection; it may be asked again."""
        ...

    async def names(self, name: PodName) -> tuple[str, ...]:
        """Pods that run here, as NAMESPACE/NAME. Raises `CotenantError`."""
        ...

    async def container(self, name: PodName) -> PodContainer:
        """The running container. Raises `CotenantError`."""
        ...

    async def command(self, container: PodContainer, command: Sequence[str], size: WindowSize) -> TerminalCommand:
        """Run one with a terminal. Raises `CotenantError`."""
        ...


class _Terminal:
    """One that is open."""

    def __init__(
        self, request: OpenTerminal, line: TerminalCommand, state: TerminalState, recording: Recording
    ) -> None:
        self.request, self.line, self.state, self.recording = request, line, state, recording
        self.changed = asyncio.Event()
        self.living: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Something changed for whoever waits."""
        self.changed.set()
        self.changed = asyncio.Event()


class TerminalFunction:
    """Implements `Function`. `now`: a steady clock; `look_s`: between two looks at what is due."""

    name = "terminals"

    def __init__(
        self,
        containers: Commands,
        state_dir: Path,
        limits: TerminalLimits | None = None,
        records: TerminalRecords | None = None,
        now: Callable[[], float] = time.monotonic,
        look_s: float = 1.0,
        pods: PodCommands | None = None,
    ) -> None:
        self._containers = containers
        self._pods = pods or NodePods()
        self._records = records or TerminalRecords(state_dir / "terminals")
        self._limits = limits or TerminalLimits()
        self._now, self._look_s = now, look_s
        self._terminals: dict[str, _Terminal] = {}
        self.fault = ""
        self.verbs: Mapping[str, RpcVerb] = {
            EXEC: RpcVerb(OpenTerminal, self._open),
            READ: RpcVerb(ReadTerminal, self._read),
            WRITE: RpcVerb(WriteTerminal, self._write),
            FIND: RpcVerb(FindPods, self._find),
        }

    def configure(self, configuration: AgentConfiguration) -> None:
        """As the Protocol."""
        self._pods.configure(configuration.pod_runtime)

    async def start(self) -> None:
        """As the Protocol."""

    async def stop(self) -> None:
        """As the Protocol: every terminal is hung up."""
        await cancelled([terminal.living for terminal in self._terminals.values() if terminal.living is not None])
        self._terminals.clear()
        self._pods.close()

    async def add_to(self, beat: Beat) -> None:
        """As the Protocol."""

    # ---- what a controller asks

    async def _open(self, request: OpenTerminal, _: BusMessage) -> OpenedTerminal:
        if sum(not terminal.state.is_over for terminal in self._terminals.values()) >= MAX_TERMINALS:
            raise Transient(f"{MAX_TERMINALS} terminals are open on this host")
        session = secrets.token_hex(16)
        container = await self._pods.container(PodName.read("guid", request.guid)) if "/" in request.guid else None
        shown = request if container is None else replace(request, guid=str(container))
        try:
            recording = self._records.begin(session, shown, time.time())
        except OSError as error:
            raise Permanent(f"no terminal is opened where it cannot be recorded: {error.strerror}") from error
        try:
            line = await (
                self._containers.command(request.guid, request.command, request.size)
                if container is None
                else self._pods.command(container, request.command, request.size)
            )
        except BaseException as error:
            self._closed(session, recording, str(error) or type(error).__name__, None)
            raise
        terminal = _Terminal(request, line, TerminalState(self._now(), self._limits), recording)
        self._terminals[session] = terminal
        terminal.living = asyncio.create_task(self._live(session, terminal), name=f"terminal {request.guid}")
        return OpenedTerminal(session)

    async def _read(self, request: ReadTerminal, _: BusMessage) -> TerminalPage:
        terminal = self._of(request)
        page = terminal.state.read(request.position, self._now())
        terminal.wake()  # there is room now
        if not page.data and not page.is_over and request.wait_s:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(request.wait_s):
                    while not terminal.state.has_news(request.position):
                        await terminal.changed.wait()
            page = terminal.state.read(request.position, self._now())
        return page

    async def _write(self, request: WriteTerminal, _: BusMessage) -> WrittenTerminal:
        terminal = self._of(request)
        if terminal.state.is_over:
            raise NoSuchGuid("this terminal has ended")
        if request.size is not None:
            await terminal.line.resize(request.size.columns, request.size.rows)
            try:
                terminal.recording.resized(request.size, time.time())
            except OSError as error:
                terminal.state.end(f"it cannot be recorded any more: {error.strerror}")
                terminal.wake()
                raise Permanent(terminal.state.why) from error
        if request.data:
            terminal.state.typed(self._now())
            await terminal.line.write(request.data)
        if request.ends:
            terminal.state.end("hung up")
        terminal.wake()
        return WrittenTerminal()

    async def _find(self, request: FindPods, _: BusMessage) -> FoundPods:
        name = PodName.read("name", request.name)
        if not request.session:
            return FoundPods(await self._names(name))
        terminal = self._terminals.get(request.session)
        return FoundPods(() if terminal is None else (terminal.request.guid,))

    # ----

    async def _names(self, name: PodName) -> tuple[str, ...]:
        """A runtime that does not answer is a fault, which hosts show: a controller asks others meanwhile."""
        try:
            found = await self._pods.names(name)
        except Unsupported:
            self.fault = ""  # no runtime is named
            raise
        except CotenantError as error:
            self.fault = f"pods: {error}"
            raise
        self.fault = ""
        return found

    def _of(self, request: ReadTerminal | WriteTerminal) -> _Terminal:
        found = self._terminals.get(request.session)
        if found is None or (found.request.operator, found.request.guid) != (request.operator, request.guid):
            raise NoSuchGuid("this terminal is not there any more")
        return found

    async def _live(self, session: str, terminal: _Terminal) -> None:
        """From its opening until its end was read, or nobody came for it."""
        state = terminal.state
        pumping = asyncio.create_task(self._pump(terminal), name="output of a terminal")
        try:
            while not state.is_over:
                if why := state.due(self._now()):
                    state.end(why)
                else:
                    await self._wait(terminal)
        except BaseException:
            state.end("the agent ended")
            raise
        finally:
            await cancelled([pumping])
            terminal.wake()
            try:
                await terminal.line.close()
            finally:
                self._closed(session, terminal.recording, state.why, state.exit_code)
        while not state.due(self._now()):
            await self._wait(terminal)
        self._terminals.pop(session, None)

    async def _wait(self, terminal: _Terminal) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._look_s):
                await terminal.changed.wait()

    async def _pump(self, terminal: _Terminal) -> None:
        """Output, recorded before anybody may read it."""
        state, line = terminal.state, terminal.line
        try:
            while not state.is_over:
                if not state.room:
                    await terminal.changed.wait()
                    continue
                data = await line.read(min(_CHUNK, state.room))
                if not data:
                    state.end("the command has ended", await _exit_code(line))
                elif terminal.recording.is_full:
                    state.end("its recording is full: open another")
                else:
                    terminal.recording.output(data, time.time())
                    state.output(data)
                terminal.wake()
        except OSError as error:
            state.end(f"it cannot be recorded any more: {error.strerror}")
            terminal.wake()

    def _closed(self, session: str, recording: Recording, why: str, exit_code: int | None) -> None:
        recording.close()
        line = {"at": time.time(), "what": "ended", "session": session, "why": why, "exitCode": exit_code}
        try:
            self._records.note({**line, "outputBytes": recording.output_bytes})
        except OSError as error:
            _log.warning("the end of terminal %s is not in the journal: %s", session, error.strerror)


async def _exit_code(line: TerminalCommand) -> int | None:
    try:
        return await line.exit_code()
    except (CotenantError, TimeoutError):
        return None
