"""Requests to a daemon whose answers come in pieces, as a real one's do where the machine is busy."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from cotenant.drivers.docker.client import DockerClient, NotThere
from cotenant.model.errors import Permanent

_TURNS = 20  # of the loop, which the client shares: it has read each piece before the next comes


def _asked(socket: Path, status: str, body: bytes, pieces: int, max_answer_bytes: int = 1 << 20) -> Any:
    """What a GET gives where the body comes in that many pieces."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        size = -(-len(body) // pieces)
        for start in range(0, len(body), size):
            writer.write(body[start : start + size])
            await writer.drain()
            for _ in range(_TURNS):
                await asyncio.sleep(0)
        writer.close()

    async def ask() -> Any:
        client = DockerClient(socket, max_answer_bytes=max_answer_bytes)
        server = await asyncio.start_unix_server(answer, socket)
        async with server:
            try:
                return await client.get("/containers/web/json")
            finally:
                await client.close()

    return asyncio.run(ask())


@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_an_answer_in_pieces_is_read_whole(tmp_path: Path, pieces: int) -> None:
    body = {"Id": "a" * 64, "Labels": {f"label{number}": "value" for number in range(500)}}
    assert _asked(tmp_path / "s", "200 OK", json.dumps(body).encode(), pieces) == body


def test_a_refusal_in_pieces_is_read_whole(tmp_path: Path) -> None:
    with pytest.raises(NotThere, match=r"^No such container: web$"):
        _asked(tmp_path / "s", "404 Not Found", b'{"message": "No such container: web"}', 3)


def test_an_answer_without_end_is_left(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="longer than 1000 bytes"):
        _asked(tmp_path / "s", "200 OK", b" " * 3000, 8, max_answer_bytes=1000)
