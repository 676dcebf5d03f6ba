"""What a scheduler calls itself among the candidates for the lease, and which process that is.

The host and the process's number are for people and for whoever starts schedulers on this machine; the random part tells apart two
processes that were given the same number one after the other.
"""

from __future__ import annotations

import os
import secrets
import socket

DEFAULT_NAMESPACE = "default"


def lease_name(scheduler: str) -> str:
    """The Lease of all schedulers of that name."""
    return f"{scheduler}-scheduler"


def new_identity() -> str:
    """This process's."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def process_here(identity: str) -> int | None:
    """The number of the process on this machine that has the identity; None where it is elsewhere or not one of ours."""
    host, _, rest = identity.rpartition("-")[0].rpartition("-")
    return int(rest) if host == socket.gethostname() and rest.isdecimal() else None
