"""Loopback ports for servers that are started later, or again after a kill.

A port that the kernel picks comes from the range of outgoing connections: until its server listens, and while the
server is dead, any connection of this machine or any other search for a free port may get it, and two workers start
servers all the time. These ports are below that range, and a lock file keeps each from other workers and runs until
this process ends. Who listens at once asks the kernel for port 0 instead.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from pathlib import Path

FIRST, LAST = 24_000, 31_999
_kept: dict[int, int] = {}  # the open lock file of each port


def free_port() -> int:
    """A port that no other call gets, in any process, while this process lives."""
    folder = Path(tempfile.gettempdir()) / f"cotenant-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for port in range(FIRST, LAST + 1):
        if port in _kept:
            continue
        lock = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as trial:
                trial.bind(("", port))
        except OSError:
            os.close(lock)
            continue
        _kept[port] = lock
        return port
    raise AssertionError(f"none of the ports {FIRST} to {LAST} is free")
