"""Names of leases and of the replicas that compete for them.

An identity is HOST-PID-RANDOM. Host and process id are for people and for `cotenant up`, which starts processes on this machine; the random part
distinguishes two processes that got the same id one after the other.
"""

from __future__ import annotations

import os
import secrets
import socket

DEFAULT_NAMESPACE = "default"


def lease_name(scheduler: str) -> str:
    """The Lease of all schedulers with this name."""
    return f"{scheduler}-scheduler"


def new_identity() -> str:
    """The identity of this process."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def process_here(identity: str) -> int | None:
    """The process id in an identity of this machine; None where it is of another machine or has another form."""
    host, _, rest = identity.rpartition("-")[0].rpartition("-")
    return int(rest) if host == socket.gethostname() and rest.isdecimal() else None
