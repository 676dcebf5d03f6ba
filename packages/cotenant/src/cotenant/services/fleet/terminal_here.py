"""This process's own terminal as that of a command in a container: keys and window go there, output comes here."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from cotenant.drivers.nats.contract import Bus
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.model.fleet.refusal import NoSuchGuid
from cotenant.model.fleet.terminals import (
    EXEC,
    MAX_SIDE,
    MAX_WAIT_S,
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
from cotenant.services.fleet.operator import ask, connected
from cotenant.services.fleet.places import BusOptions

_CHUNK = 32 << 10


def run_terminal(options: BusOptions, guid: str, command: tuple[str, ...]) -> int:
    """Until the command ends; its exit code, 1 where it was ended. Raises what was answered."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidInput("standard input", "no terminal", "a terminal", "`cotenant fleet exec` is for people")
    page = asyncio.run(_run(options, guid, command))
    if page.exit_code is None:
        print(f"cotenant: {page.why}", file=sys.stderr)
        return 1
    return page.exit_code


async def _run(options: BusOptions, guid: str, command: tuple[str, ...]) -> TerminalPage:
    async with connected(options) as (bus, operator):
        viewer = os.environ.get("USER", "")[:200]
        opening = OpenTerminal(guid, command, _size(), viewer)
        session = (await ask(bus, operator, EXEC, opening, OpenedTerminal, 25.0)).session
        typing = _Typing(bus, operator, guid, session)
        with _raw(), typing.attached():
            sending = asyncio.create_task(typing.send())
            try:
                return await _shown(bus, operator, ReadTerminal(guid, session, 0, MAX_WAIT_S))
            finally:
                sending.cancel()


async def _shown(bus: Bus, operator: str, request: ReadTerminal) -> TerminalPage:
    while True:
        page = await ask(bus, operator, READ, request, TerminalPage, request.wait_s + 10.0)
        rest = memoryview(page.data)
        while rest:
            rest = rest[os.write(sys.stdout.fileno(), rest) :]
        if page.is_over:
            return page
        request = replace(request, position=page.position + len(page.data))


class _Typing:
    """Keys and sizes in order, one request at a time."""

    def __init__(self, bus: Bus, operator: str, guid: str, session: str) -> None:
        self._bus, self._operator = bus, operator
        self._blank = WriteTerminal(guid, session)
        self._keys = bytearray()
        self._is_resized = False
        self._has_some = asyncio.Event()

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Hear keys and the window's changes."""
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), self._pressed)
        loop.add_signal_handler(signal.SIGWINCH, self._resized)
        try:
            yield
        finally:
            loop.remove_reader(sys.stdin.fileno())
            loop.remove_signal_handler(signal.SIGWINCH)

    async def send(self) -> None:
        """Until cancelled, or until the terminal takes no more."""
        try:
            while True:
                await self._has_some.wait()
                self._has_some.clear()
                while self._keys or self._is_resized:
                    data, size = bytes(self._keys[:_CHUNK]), _size() if self._is_resized else None
                    del self._keys[:_CHUNK]
                    self._is_resized = False
                    request = replace(self._blank, data=data, size=size)
                    await ask(self._bus, self._operator, WRITE, request, WrittenTerminal, 10.0)
        except NoSuchGuid:
            return  # the reader says why
        except CotenantError as error:
            os.write(sys.stderr.fileno(), f"\r\ncotenant: {error}\r\n".encode())

    def _pressed(self) -> None:
        data = os.read(sys.stdin.fileno(), _CHUNK)
        if data:
            self._keys += data
            self._has_some.set()

    def _resized(self) -> None:
        self._is_resized = True
        self._has_some.set()


def _size() -> WindowSize:
    found = os.get_terminal_size(sys.stdin.fileno())
    return WindowSize(min(max(found.columns, 1), MAX_SIDE), min(max(found.lines, 1), MAX_SIDE))


@contextmanager
def _raw() -> Iterator[None]:
    """Each key is sent as it is pressed; what was set before is set again."""
    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    try:
        tty.setraw(stdin)
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
