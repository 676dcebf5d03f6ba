"""Free loopback ports, for processes that are started side by side."""

from __future__ import annotations

import socket
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeldPort:
    """A loopback port for a process that listens there later, and again after each restart of it.

    The port is bound and does not listen. As long as it is held the system gives it to nobody who asks for any free
    one, and whoever binds it by number has to say SO_REUSEADDR, as servers do: such a one may listen there (Linux).
    """

    port: int
    socket: socket.socket

    def close(self) -> None:
        """Anybody may have it from here on."""
        self.socket.close()


def hold_port(wanted: int = 0) -> HeldPort:
    """This loopback port, or any free one, held. Raises `OSError` where somebody listens there."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind(("127.0.0.1", wanted))
    except OSError:
        held.close()
        raise
    return HeldPort(int(held.getsockname()[1]), held)


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
