"""An HTTP server that answers each request with the next line of a script, and records what it was asked.

A reply is a status with a body and headers, or one of `CUT` (read the request, then close) and `SILENT` (never answer).
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reply:
    """A status of 0 = no answer."""

    status: int
    body: dict[str, Any] = field(default_factory=dict)
    retry_after: str = ""
    is_cut: bool = False


CUT = Reply(0, is_cut=True)
SILENT = Reply(0)


def refusal(status: int, message: str = "", reason: str = "", retry_after: str = "") -> Reply:
    """A Status of Kubernetes."""
    return Reply(
        status,
        {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message},
        retry_after,
    )


class ScriptedServer:
    """`async with ScriptedServer({"POST": [...], "GET": [...]}) as server: ... server.url`."""

    def __init__(self, replies: dict[str, list[Reply]]) -> None:
        self._replies = {method: list(reply) for method, reply in replies.items()}
        self.asked: list[tuple[str, str]] = []  # method, path
        self.bodies: list[Any] = []
        self._closing = asyncio.Event()

    async def __aenter__(self) -> ScriptedServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        self._server.close()
        await self._server.wait_closed()

    @property
    def left(self) -> int:
        """Replies that were not asked for."""
        return sum(map(len, self._replies.values()))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (line := await reader.readline()) and await self._answer(line.decode(), reader, writer):
                pass
        finally:
            writer.close()

    async def _answer(self, line: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        method, path, _ = line.split()
        length = 0
        while (header := (await reader.readline()).decode().strip()) != "":
            name, _, value = header.partition(":")
            if name.lower() == "content-length":
                length = int(value)
        body = await reader.readexactly(length)
        self.asked.append((method, path))
        self.bodies.append(json.loads(body) if body else None)
        replies = self._replies.get(method, [])
        reply = replies.pop(0) if replies else Reply(418, {"message": f"the script has no answer to {method} {path}"})
        if reply.is_cut:
            return False
        if reply.status == 0:
            await self._closing.wait()
            return False
        encoded = json.dumps(reply.body).encode()
        after = f"Retry-After: {reply.retry_after}\r\n" if reply.retry_after else ""
        head = (
            f"HTTP/1.1 {reply.status} x\r\nContent-Type: application/json\r\nContent-Length: "
            f"{len(encoded)}\r\n{after}\r\n"
        )
        writer.write(head.encode() + encoded)
        await writer.drain()
        return True
