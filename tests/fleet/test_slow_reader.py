"""A reader that reads nothing: the server ends it, whoever reads hears all, and nobody is held up."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from tests.fakes.servers.nats_server import NatsServer
from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import patience, soon

from cotenant.drivers.nats.client import BusAccess, connect
from cotenant.drivers.nats.contract import BusMessage

pytestmark = pytest.mark.slow
MESSAGES, BYTES = 8_000, 4_096
PENDING = 4 << 20  # what the server keeps for one reader: an eighth of what is said


def test_a_reader_that_reads_nothing_costs_the_others_nothing(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "conf").write_text(f'listen: "127.0.0.1:{port}"\nmax_pending: {PENDING}\nwrite_deadline: "1s"\n')
    server = NatsServer(tmp_path, port, tmp_path / "conf")
    server.start()

    async def play(stuck: socket.socket) -> None:
        said, heard = (
            await connect(BusAccess(server.url, "said"), patience(30)),
            await connect(BusAccess(server.url, "heard"), patience(30)),
        )
        numbers: list[int] = []

        async def beat(message: BusMessage) -> None:
            numbers.append(int(message.data[:8]))

        await heard.subscribe("hb.*", beat)
        await heard.flush(patience(30))
        stuck.sendall(b'CONNECT {"verbose":false}\r\nSUB hb.* 1\r\nPING\r\n')
        while b"PONG" not in stuck.recv(4096):
            pass
        for number in range(MESSAGES):
            await said.publish("hb.agent-a", f"{number:08}".encode().ljust(BYTES, b"."))
            if number % 100 == 0:
                await said.flush(patience(30))  # at a pace that a reader can keep
                await soon("what was said is heard", lambda until=number: len(numbers) > until)
        await soon("all is heard", lambda: len(numbers) == MESSAGES)
        assert numbers == list(range(MESSAGES))
        await said.close()
        await heard.close()

    try:
        with socket.create_connection(("127.0.0.1", port)) as stuck:
            asyncio.run(play(stuck))
            stuck.settimeout(patience(30))
            read = 0
            while part := stuck.recv(1 << 20):  # what the kernel had, then the end of the connection
                read += len(part)
            assert read < MESSAGES * BYTES
    finally:
        server.kill()
