"""A container runtime that takes plugins (NRI) over a socket of the test's own. It reads and writes the wire by
itself, as a second opinion of it.
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

from cotenant.drivers.nri.messages import PLUGIN_SERVICE, messages

LONGEST_PIECE = 4096  # of a runtime's reader


class PluginOfRuntime:
    """One connected plugin, as its runtime has it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.registered: Any = None
        self.longest_piece = 0
        self._reader, self._writer = reader, writer
        self._streams: dict[int, bytes] = {1: b"", 2: b""}
        self._stream = -1

    async def register(self, code: int = 0) -> None:
        """Wait for the plugin's registration and answer it."""
        stream, type_, body = await self._message(2)
        request = messages()["Request"].FromString(body)
        assert (type_, request.method) == (1, "RegisterPlugin")
        self.registered = messages()["RegisterPluginRequest"].FromString(request.payload)
        answer = messages()["Response"](status={"code": code, "message": "not here"} if code else None)
        await self.send(self.frame(2, stream, 2, answer.SerializeToString()))

    def request(self, method: str, kind: str, service: str = PLUGIN_SERVICE, **fields: Any) -> bytes:
        """A call as bytes of the socket."""
        self._stream += 2
        payload = messages()[kind](**fields).SerializeToString()
        body = messages()["Request"](service=service, method=method, payload=payload).SerializeToString()
        return self.frame(1, self._stream, 1, body)

    @staticmethod
    def frame(connection: int, stream: int, type_: int, body: bytes, length: int | None = None) -> bytes:
        """One message in one frame; `length`: what its header says, where that is not so."""
        message = struct.pack(">IIBB", len(body) if length is None else length, stream, type_, 0) + body
        return struct.pack(">II", connection, len(message)) + message

    async def send(self, data: bytes, piece: int = 0) -> None:
        """Write bytes, `piece` at a time."""
        for at in range(0, len(data), piece or len(data)):
            self._writer.write(data[at : at + (piece or len(data))])
            await self._writer.drain()

    async def answer(self, kind: str) -> tuple[int, Any]:
        """The next answer: status, and the message."""
        _, type_, body = await self._message(1)
        assert type_ == 2
        response = messages()["Response"].FromString(body)
        return response.status.code, messages()[kind].FromString(response.payload)

    async def call(self, method: str, **fields: Any) -> Any:
        """Call the plugin; the answer."""
        await self.send(self.request(method, f"{method}Request", **fields))
        code, answer = await self.answer(f"{method}Response")
        assert code == 0
        return answer

    def close(self) -> None:
        """Close the connection, as a runtime that stops."""
        self._writer.close()

    async def closed(self) -> bool:
        """Whether the plugin closed the connection."""
        with suppress(ConnectionError):
            return await self._reader.read(1) == b""
        return True

    async def _message(self, connection: int) -> tuple[int, int, bytes]:
        header = await self._bytes(connection, 10)
        length, stream, type_, _ = struct.unpack(">IIBB", header)
        return stream, type_, await self._bytes(connection, length)

    async def _bytes(self, connection: int, count: int) -> bytes:
        while len(self._streams[connection]) < count:
            number, length = struct.unpack(">II", await self._reader.readexactly(8))
            self.longest_piece = max(self.longest_piece, length)
            self._streams[number] += await self._reader.readexactly(length)
        found, self._streams[connection] = self._streams[connection][:count], self._streams[connection][count:]
        return found


class FakeHookRuntime:
    """The listening socket. Each connected plugin is taken from `plugins`."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "nri.sock"
        self.plugins: asyncio.Queue[PluginOfRuntime] = asyncio.Queue()
        self._server: asyncio.Server | None = None
        self._open: list[PluginOfRuntime] = []

    async def __aenter__(self) -> FakeHookRuntime:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen."""

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            plugin = PluginOfRuntime(reader, writer)
            self._open.append(plugin)
            await self.plugins.put(plugin)

        self._server = await asyncio.start_unix_server(connected, str(self.socket))

    async def stop(self) -> None:
        """Close the socket and every connection."""
        assert self._server is not None
        self._server.close()
        for plugin in self._open:
            plugin.close()
        await self._server.wait_closed()
        self.socket.unlink(missing_ok=True)

    async def plugin(self, *containers: dict[str, Any]) -> PluginOfRuntime:
        """The next plugin as containerd 2.1.9 accepts one: it is asked only once it was told what runs."""
        found = await self.plugins.get()
        await found.register()
        await found.call("Configure", runtime_name="containerd", runtime_version="2.1.9")
        pods = [{"id": id_} for id_ in sorted({container["pod_sandbox_id"] for container in containers})]
        await found.call("Synchronize", pods=pods, containers=containers)
        return found
