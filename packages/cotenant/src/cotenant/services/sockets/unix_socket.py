"""A Unix socket at a path that only authorized users can reach.

An old socket file is left by a process that was killed, something else may be at the path, and another process may
listen there. Only a socket that no process listens on is replaced; the file is closed to others from its first moment
(umask), then opened to one group.
Limits: not a lock: of two processes that start in the same moment, the later one gets the path.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

from cotenant.model.errors import InvalidInput, Permanent
from cotenant.services.sockets.peers import protect_socket


def listening_socket(path: Path, group: int | None) -> socket.socket:
    """A bound socket. `group`: who may connect beside the owner. Raises `Permanent` where the path is not a socket,
    or another process listens there; `InvalidInput` where it cannot be made.
    """
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _bind(bound, path, group)
    except BaseException:
        bound.close()
        raise
    return bound


def _bind(bound: socket.socket, path: Path, group: int | None) -> None:
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise Permanent(f"{path} is not a socket; it is not removed")
            if _is_listening(path):
                raise Permanent(f"another process listens at {path}")
            path.unlink()
        mask = os.umask(0o177)
        try:
            bound.bind(os.fspath(path))
        finally:
            os.umask(mask)
        protect_socket(path, group)
    except OSError as error:
        raise InvalidInput("--socket", str(path), "a path for a socket", str(error)) from error


def _is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.settimeout(1.0)
        try:
            trial.connect(os.fspath(path))
        except OSError:
            return False
    return True
