"""A command with a terminal in a container of a CRI runtime: its exec, whose stream is a WebSocket of the runtime.

Closing the stream ends nothing at containerd, and the interface tells no process. So the command's process is looked
for when it begins: a new one with these words in the cgroup and the process namespace of the container's first one.
Limits: two that begin the same words in one container at the same moment, one of them not by us, are not told apart.
Source: Kubernetes, "v4.channel.k8s.io": the first byte of a message is its channel (0 input, 1 output, 2 errors, 3 the
outcome as a Status, 4 the window's size).
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import msgspec

from cotenant.model.errors import Transient

_PROTOCOL = "v4.channel.k8s.io"
_INPUT, _OUTPUT, _ERRORS, _OUTCOME, _SIZE = range(5)
_START_S, _FOUND_S, _ENDED_S, _ASK_S = 10.0, 2.0, 2.0, 0.05
_PROC = Path("/proc")


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] = []


class _Status(msgspec.Struct):
    status: str = ""
    details: _Details = msgspec.field(default_factory=_Details)


class CriExec:
    """One command. Make it with `open_cri_exec`, and end it with `close`."""

    def __init__(self, session: aiohttp.ClientSession, line: aiohttp.ClientWebSocketResponse) -> None:
        self._session, self._line = session, line
        self._process = -1  # a descriptor
        self._left = b""
        self._code: int | None = None

    async def read(self, max_bytes: int) -> bytes:
        """Output; empty at its end."""
        while not self._left:
            message = await self._line.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                return b""
            channel, data = message.data[:1], message.data[1:]
            if channel == bytes([_OUTCOME]):
                self._code = _exit_code(data)
            elif channel in (bytes([_OUTPUT]), bytes([_ERRORS])):
                self._left = data
        found, self._left = self._left[:max_bytes], self._left[max_bytes:]
        return found

    async def write(self, data: bytes) -> None:
        """Type. Raises `Transient` where the line is gone."""
        try:
            await self._line.send_bytes(bytes([_INPUT]) + data)
        except (aiohttp.ClientError, OSError) as error:
            raise Transient("the command has ended") from error

    async def resize(self, columns: int, rows: int) -> None:
        """The window has this size now; nothing where the command has ended."""
        with suppress(aiohttp.ClientError, OSError):
            await self._line.send_bytes(bytes([_SIZE]) + msgspec.json.encode({"Width": columns, "Height": rows}))

    async def exit_code(self) -> int | None:
        """After the output's end; None where the runtime does not say."""
        return self._code

    async def close(self) -> None:
        """Hang the command up, then kill it where it goes on, and end the line."""
        try:
            if self._process >= 0:
                await self._hang_up(self._process)
        finally:
            await self._line.close()
            await self._session.close()

    async def find_process(self, first: int, before: frozenset[int], command: Sequence[str]) -> None:
        """Find the command's process `beside` the container's first one, unless it has ended already."""
        async with suppressed_timeout(_FOUND_S):
            while not self._line.closed:
                for process in await asyncio.to_thread(beside, first) - before:
                    if words(process) == tuple(command):
                        with suppress(OSError):  # it has ended
                            self._process = os.pidfd_open(process)
                        return
                await asyncio.sleep(_ASK_S)

    async def _hang_up(self, process: int) -> None:
        try:
            with suppress(OSError):
                signal.pidfd_send_signal(process, signal.SIGHUP)
                async with suppressed_timeout(_ENDED_S):
                    while not select.select([process], [], [], 0)[0]:
                        await asyncio.sleep(_ASK_S)
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            self._process = -1
            os.close(process)


@asynccontextmanager
async def suppressed_timeout(within_s: float) -> AsyncIterator[None]:
    """Go on after so long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            yield


def beside(first: int, proc: Path = _PROC) -> frozenset[int]:
    """Processes of the container whose first one this is; none where it has ended."""
    home = _home(first, proc)
    others = (int(folder.name) for folder in proc.iterdir() if folder.name.isdecimal())
    return frozenset(process for process in others if _home(process, proc) == home) if home else frozenset()


def _home(process: int, proc: Path) -> tuple[str, str] | None:
    """Its process namespace and its cgroups: a pod's containers may share either. None where it has ended."""
    folder = proc / str(process)
    try:
        return os.readlink(folder / "ns/pid"), (folder / "cgroup").read_text()
    except OSError:
        return None


def words(process: int) -> tuple[str, ...]:
    """Its command line; empty where it has ended."""
    try:
        return tuple((_PROC / str(process) / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1])
    except OSError:
        return ()


async def open_cri_exec(url: str, columns: int, rows: int) -> CriExec:
    """The line to a command that the runtime serves at `url`. Raises `Transient`."""
    session = aiohttp.ClientSession()
    try:
        async with asyncio.timeout(_START_S):
            line = await session.ws_connect(url.replace("http", "ws", 1), protocols=(_PROTOCOL,), max_msg_size=1 << 20)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        await session.close()
        raise Transient(f"the runtime does not start the command: {error or 'no answer'}") from error
    opened = CriExec(session, line)
    await opened.resize(columns, rows)
    return opened


def _exit_code(data: bytes) -> int | None:
    try:
        status = msgspec.json.decode(data, type=_Status)
    except msgspec.DecodeError:
        return None
    if status.status == "Success":
        return 0
    code = next((cause.message for cause in status.details.causes if cause.reason == "ExitCode"), "")
    return int(code) if code.isdecimal() else None
