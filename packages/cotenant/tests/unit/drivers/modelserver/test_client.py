"""Asking model servers: endless, slow, compressed and redirecting answers end with a word."""

from __future__ import annotations

import asyncio
import gzip

import pytest
from tests.fakes.servers.model_servers import page

from cotenant.drivers.modelserver.client import ModelServerClient
from cotenant.drivers.modelserver.exposition import MAX_BYTES
from cotenant.model.errors import InvalidInput, Transient
from cotenant.model.traces.model_server import ModelServerReading

BODY = page("vllm-0.11", {"timeToFirstToken": (0.03,)}).encode()


def asked(*answer: bytes, ends: bool = True, timeout_s: float = 20.0) -> ModelServerReading:
    """What a client reads from a server that sends these parts, and hangs up or not."""
    return asyncio.run(_asked(answer, ends, timeout_s))


async def _asked(answer: tuple[bytes, ...], ends: bool, timeout_s: float) -> ModelServerReading:

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        try:
            for part in answer:
                writer.write(part)
                await writer.drain()
            if not ends:
                await reader.read()
        except ConnectionError:
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = ModelServerClient(timeout_s)
    try:
        return await client.read(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics")
    finally:
        await client.close()
        server.close()


def head(status: str = "200 OK", *lines: str) -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status}", *lines, "", "")).encode()


def test_a_page_is_read() -> None:
    assert (asked(head(), BODY)).server == "vllm"


def test_an_answer_without_end_is_not_kept() -> None:
    with pytest.raises(InvalidInput, match="bytes"):
        asked(head(), *[b"x" * (1 << 20)] * ((MAX_BYTES >> 20) + 2))


def test_an_answer_that_does_not_end_in_time() -> None:
    with pytest.raises(Transient, match="no whole answer"):
        asked(head(), BODY, ends=False, timeout_s=0.05)


def test_a_compressed_answer_is_not_unpacked() -> None:
    with pytest.raises(InvalidInput, match="compressed"):
        asked(head("200 OK", "Content-Encoding: gzip"), gzip.compress(BODY))


@pytest.mark.parametrize("status", ["302 Found", "404 Not Found", "503 Busy"])
def test_no_redirection_is_followed_and_no_error_read(status: str) -> None:
    with pytest.raises(Transient, match=status[:3]):
        asked(head(status, "Location: http://127.0.0.1:1/metrics"), BODY)


def test_nobody_listens() -> None:
    async def ask() -> None:
        client = ModelServerClient()
        try:
            await client.read("http://127.0.0.1:1/metrics")
        finally:
            await client.close()

    with pytest.raises(Transient):
        asyncio.run(ask())
