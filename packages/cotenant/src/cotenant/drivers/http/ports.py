"""Free loopback ports, for processes that are started side by side."""

from __future__ import annotations

import socket


def port_or_free(wanted: int) -> int:
    """This loopback port where it is free, else another. Another process may take it before it is used."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # closed connections of an earlier run do not count
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            return free_port()
    return wanted


def free_port() -> int:
    """A free loopback port. Another process may take it before it is used."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
