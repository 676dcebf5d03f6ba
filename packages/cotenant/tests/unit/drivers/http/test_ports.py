"""The ports of a local cluster's processes."""

from __future__ import annotations

import socket

import pytest

from cotenant.drivers.http.address import Address, bind
from cotenant.drivers.http.ports import hold_port, port_or_free


def test_a_port_is_free_again_after_its_server_has_ended_with_open_connections() -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = int(server.getsockname()[1])
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = server.accept()
            accepted.close()  # the side that closes first waits in TIME_WAIT
            assert client.recv(1) == b""
            assert port_or_free(port) != port
    assert port_or_free(port) == port


def test_a_held_port_is_its_servers_before_it_listens_while_it_does_and_when_it_has_ended() -> None:
    held = hold_port()

    def is_taken() -> bool:
        with socket.socket() as other:
            try:
                other.bind(("127.0.0.1", held.port))
            except OSError:
                return True
        return False

    assert is_taken()
    for _ in range(2):
        server = bind(Address("127.0.0.1", held.port))
        with socket.create_connection(("127.0.0.1", held.port)):
            assert is_taken()
        with pytest.raises(OSError, match="in use"):
            hold_port(held.port)
        server.close()
        assert is_taken()
    held.close()
