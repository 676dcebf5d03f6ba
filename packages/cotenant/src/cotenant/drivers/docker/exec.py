"""A command with a terminal in a running container: Docker's exec, whose connection becomes the terminal's line.

Closing the line ends nothing at Docker, so the command is hung up by its process, which is held by a descriptor while
Docker is asked whether it is still that of the command.
Source: Docker Engine API, version 1.41, exec and "upgraded" streams.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from cotenant.drivers.docker.client import VERSION, DockerClient, NotThere, failure
from cotenant.model.errors import CotenantError, Permanent, Transient
from cotenant.model.json_object import JsonObject

_START_S = 10.0
_ENDED_S, _ASK_S = 2.0, 0.05
_MAX_HEAD = 16 << 10


class _Made(msgspec.Struct, rename="pascal"):
    id: str


class Exec:
    """One command. Make it with `open_exec`, and end it with `close`."""

    def __init__(
        self, docker: DockerClient, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._docker, self._name, self._reader, self._writer = docker, name, reader, writer

    async def read(self, max_bytes: int) -> bytes:
        """Output; empty at its end."""
        try:
            return await self._reader.read(max_bytes)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """Type. Raises `Transient` where the line is gone."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise Transient("the command has ended") from error

    async def resize(self, columns: int, rows: int) -> None:
        """The window has this size now; nothing where the command has ended."""
        with suppress(Permanent):
            await self._docker.post(f"/exec/{self._name}/resize", parameters={"w": str(columns), "h": str(rows)})

    async def exit_code(self) -> int | None:
        """After the output's end; None where Docker does not say."""
        async with asyncio.timeout(_ENDED_S):
            while True:
                found = await self._found()
                if not found.get("Running"):
                    code = found.get("ExitCode")
                    return None if code is None else int(code)
                await asyncio.sleep(_ASK_S)

    async def close(self) -> None:
        """Hang the command up, then kill it where it goes on, and end the line."""
        try:
            with suppress(CotenantError, TimeoutError):
                await self._signal(signal.SIGHUP)
                with suppress(TimeoutError):
                    await self.exit_code()
                await self._signal(signal.SIGKILL)
        finally:
            self._writer.close()

    async def _signal(self, number: signal.Signals) -> None:
        process = int((await self._found()).get("Pid") or 0)
        if process <= 1:
            return
        try:
            held = os.pidfd_open(process)
        except OSError:  # it has ended, or it is another machine's
            return
        try:
            found = await self._found()
            if found.get("Running") and found.get("Pid") == process:
                with suppress(OSError):
                    signal.pidfd_send_signal(held, number)
        finally:
            os.close(held)

    async def _found(self) -> JsonObject:
        try:
            found: JsonObject = await self._docker.get(f"/exec/{self._name}/json")
        except NotThere:
            return {}
        return found


async def open_exec(docker: DockerClient, container: str, command: Sequence[str], columns: int, rows: int) -> Exec:
    """Run a command in a container. Raises `NotThere`, `InUse` where it does not run, `Permanent`, `Transient`."""
    body = {
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": True,
        "Env": ["TERM=xterm"],
        "Cmd": list(command),
    }
    name = msgspec.convert(await docker.post(f"/containers/{container}/exec", body), _Made).id
    started = Exec(docker, name, *await _line(docker, f"/exec/{name}/start", {"Detach": False, "Tty": True}))
    try:
        await started.resize(columns, rows)
    except BaseException:
        await started.close()
        raise
    return started


async def _line(docker: DockerClient, path: str, body: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """POST, and the connection as the stream that it turns into."""
    data = msgspec.json.encode(body)
    head = [
        f"POST {VERSION}{path} HTTP/1.1",
        "Host: docker",
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
        "Connection: Upgrade",
        "Upgrade: tcp",
    ]
    try:
        async with asyncio.timeout(_START_S):
            reader, writer = await asyncio.open_unix_connection(os.fspath(docker.socket), limit=_MAX_HEAD)
            try:
                writer.write("\r\n".join([*head, "", ""]).encode() + data)
                await _answered(reader, path)
            except BaseException:
                writer.close()
                raise
            return reader, writer
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise Transient(f"Docker at {docker.socket} does not start the command: {error or 'no answer'}") from error


async def _answered(reader: asyncio.StreamReader, path: str) -> None:
    lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    parts = lines[0].split()
    status = int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0
    if status in (101, 200):
        return
    length = next((line[15:].strip() for line in lines if line.lower().startswith(b"content-length:")), b"")
    said = await reader.readexactly(min(int(length), _MAX_HEAD)) if length.isdigit() else await reader.read(_MAX_HEAD)
    raise failure(status, said, path)
