"""Replies of the servers, in any pieces; where the real programs are there, each serves what it was filled with."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.fakes.waiting import eventually

from cotenant.model.errors import Permanent
from cotenant_lab.experiments.loads.servers import SERVERS, GetMany, SearchList, ServerKind, connect

VALUES = b"".join(b"VALUE key%06d 0 8\r\nit%06d\r\n" % (number, number) for number in range(3)) + b"END\r\n"


@pytest.mark.parametrize(("wire", "reply"), [(GetMany(3), VALUES), (SearchList(), b"$-1\r\n")])
def test_replies_are_counted_whole_in_whatever_pieces_they_come(wire: GetMany | SearchList, reply: bytes) -> None:
    for size in (1, 7, len(reply), 2 * len(reply) + 1):
        received, count = bytearray(), 0
        sent = reply * 5
        for begin in range(0, len(sent), size):
            received += sent[begin : begin + size]
            count += wire.replies(received)
        assert (count, bytes(received)) == (5, b"")


@pytest.mark.parametrize(
    ("wire", "reply"),
    [
        (GetMany(3), b"SERVER_ERROR out of memory\r\n"),
        (GetMany(3), b"ERROR\r\n"),
        (SearchList(), b"-ERR unknown\r\n"),
    ],
)
def test_an_error_is_no_reply(wire: GetMany | SearchList, reply: bytes) -> None:
    with pytest.raises(Permanent, match="the server answered"):
        wire.replies(bytearray(reply))


@pytest.mark.parametrize("server", SERVERS.values(), ids=lambda server: str(server.name))
def test_the_real_server_answers_the_request(server: ServerKind) -> None:
    program = shutil.which(server.program)
    if program is None:
        pytest.skip(f"no {server.program} here")
    with tempfile.TemporaryDirectory(prefix="cotenant-test-") as place:
        path = Path(place) / "server.sock"
        with subprocess.Popen([program, *server.arguments(path, Path(place))], stdout=subprocess.DEVNULL) as process:
            try:
                # the socket's file is there a moment before the server listens on it
                eventually(f"{server.name} listens", lambda: connect(path), tolerated=(OSError,)).close()
                server.fill(path, 300)
                wire, received, count = server.wire(300), bytearray(), 0
                with connect(path) as connection:
                    connection.sendall(wire.request(0) + wire.request(1))
                    while count < 2:
                        received += connection.recv(65536)
                        if server.name == "memcached" and count == 0 and received.endswith(b"END\r\n"):
                            assert received.count(b"VALUE") % 30 == 0
                        count += wire.replies(received)
                assert not received
            finally:
                process.kill()
