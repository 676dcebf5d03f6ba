"""Input goes through the buffer of the server, on both loops, with TLS and without, and arrives whole."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from pathlib import Path
from typing import cast

import pytest

from cotenant.drivers.http.certificates import ensure
from cotenant.drivers.http.exact_reads import READ_BYTES, ReadBuffer
from cotenant.drivers.http.tls import Tls

NOW = datetime.datetime.now(datetime.UTC)


class Keeping(asyncio.Protocol):
    """Keeps what arrives, and answers at the end with its size."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.events: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are none of its classes
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.parts.append(data)
        if data.endswith(b"."):
            self.transport.write(b"%d" % sum(map(len, self.parts)))
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")


@pytest.mark.parametrize("size", [1, 300, READ_BYTES, 3 * READ_BYTES + 7])
@pytest.mark.parametrize("has_tls", [False, True])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_what_arrives_is_given_whole_and_through_the_buffer(
    loop: str, has_tls: bool, size: int, tmp_path: Path
) -> None:
    factory = asyncio.new_event_loop if loop == "asyncio" else pytest.importorskip("uvloop").new_event_loop
    made = ensure(tmp_path, ("127.0.0.1",), NOW)
    context = Tls(made.certificate, made.key).context() if has_tls else None
    sent = bytes(k % 251 for k in range(size - 1)).replace(b".", b",") + b"."

    async def live() -> tuple[Keeping, ReadBuffer, bytes]:
        kept, buffer = Keeping(), ReadBuffer()
        server = await asyncio.get_running_loop().create_server(
            buffer.before(lambda: kept), "127.0.0.1", 0, ssl=context
        )
        client = ssl.create_default_context(cafile=str(tmp_path / "ca.crt")) if has_tls else None
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=client)
        writer.write(sent)
        answer = await reader.read()
        writer.close()
        server.close()
        while "lost" not in kept.events:
            await asyncio.sleep(0)
        return kept, buffer, answer

    with asyncio.Runner(loop_factory=factory) as runner:
        kept, buffer, answer = runner.run(live())
    assert b"".join(kept.parts) == sent
    assert max(map(len, kept.parts)) <= READ_BYTES
    assert answer == b"%d" % size
    assert kept.events == ["made", "lost"]
    assert bytes(buffer.view[: len(kept.parts[-1])]) == kept.parts[-1]
