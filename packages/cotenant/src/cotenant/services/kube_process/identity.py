"""Names of leases and of the replicas that compete for them.

A lone replica that is killed and starts again must not wait until its own lease has run out, and two replicas must
never have the same identity. An identity is kept in a file that its process holds locked: the kernel frees the lock
when the process is gone, so whoever locks the file next is the successor and may use the name. Further replicas on the
machine lock further files. Where no file can be kept, the identity is HOST-PID-RANDOM: host and process id are for
people.
Limits: a folder must not be shared by machines whose file system does not share locks; the file's name contains the
host's.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
import socket
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from cotenant.model.errors import InvalidInput

DEFAULT_NAMESPACE = "default"
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_MAX_REPLICAS = 64  # on one machine
_TOKEN_BYTES = 8

_log = logging.getLogger(__name__)
_held: list[int] = []  # descriptors of locked files: open until the process ends


def lease_name(scheduler: str) -> str:
    """The Lease of all schedulers with this name."""
    return f"{scheduler}-scheduler"


def new_identity() -> str:
    """The identity of this process."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def state_folder() -> Path | None:
    """Where a process without a folder of its own keeps state: systemd's `$STATE_DIRECTORY`, else
    `$XDG_STATE_HOME/cotenant`, else `~/.local/state/cotenant`.

    None where this user has no home directory.
    """
    given = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if given:
        return Path(given)
    base = os.environ.get("XDG_STATE_HOME")
    if base:
        return Path(base) / "cotenant"
    with suppress(RuntimeError):
        return Path.home() / ".local" / "state" / "cotenant"
    return None


def identity_folder(given: str | None) -> Path | None:
    """The folder of this replica's identity by `--state-dir`: by default that of processes without one of their
    own; None for "", where none is kept.
    """
    return state_folder() if given is None else Path(given) if given else None


def replica_identity(given: str | None, server: str, namespace: str, lease: str) -> str:
    """The identity of this process by `--state-dir`: kept in the folder, or a new one."""
    folder = identity_folder(given)
    return new_identity() if folder is None else kept_identity(folder, server, namespace, lease)


def kept_identity(folder: Path, server: str, namespace: str, lease: str) -> str:
    """The identity of this process as a candidate for a Lease of an API server: that of a predecessor that is gone,
    where there was one.

    A random one where the folder cannot be used.
    """
    about = sha256(f"{server} {namespace}/{lease}".encode()).hexdigest()[:12]
    host = socket.gethostname()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for number in range(_MAX_REPLICAS):
            token = _locked_token(folder / f"candidate-{host}-{about}-{number}")
            if token:
                return f"{host}-{token}"
    except OSError as error:
        _log.info("no identity is kept in %s: %s", folder, error)
    return new_identity()


def _locked_token(path: Path) -> str:
    """Lock the file for the life of this process and return its token, a new one where it has none; "" where
    another process has it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return ""
    except OSError:
        os.close(descriptor)
        raise
    token = os.pread(descriptor, 2 * _TOKEN_BYTES, 0).decode("ascii", "replace")
    if len(token) != 2 * _TOKEN_BYTES or not token.isalnum():
        token = secrets.token_hex(_TOKEN_BYTES)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, token.encode(), 0)
        os.fsync(descriptor)
    _held.append(descriptor)
    return token


def check_lease_namespace(namespace: str) -> None:
    """Raise `InvalidInput` for what cannot be a namespace; empty = that of the kubeconfig."""
    if namespace and not _LABEL.fullmatch(namespace):
        raise InvalidInput(
            "--lease-namespace", namespace, "the name of a namespace", "lower case letters, digits and -"
        )
