"""The ports of a local cluster's processes."""

from __future__ import annotations

import socket

from cotenant.drivers.http.ports import port_or_free


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
