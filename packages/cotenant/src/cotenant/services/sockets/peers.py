"""Who may connect to the keeper's socket: the file's mode and group, and the users that the kernel names.

A socket that every user can connect to lets strangers take connections and fill the log. The file is writable by its
owner and one group, and the kernel's credentials (SO_PEERCRED) decide in addition; refusals are logged once per
interval with their number.
Limits: a file has one group, so users of different groups need one that they share. Effective user and primary group
count, at connect time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cotenant.model.errors import InvalidInput

_log = logging.getLogger(__name__)
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
WARNING_INTERVAL_S = 60.0


@dataclass(frozen=True, slots=True)
class Peers:
    """Which peers may connect. `own`: root and the keeper's own user. `socket_group` None: only the owner may
    connect.
    """

    users: frozenset[int] = frozenset()
    groups: frozenset[int] = frozenset()
    own: bool = True
    socket_group: int | None = None

    def allows(self, user: int, group: int) -> bool:
        """Whether a peer may connect, by its effective user or group at connect time."""
        return (self.own and user in (0, os.geteuid())) or user in self.users or group in self.groups


def peers_of(users: Sequence[str], groups: Sequence[int], socket_group: int | None = None) -> Peers:
    """The peers of these users (names or numbers) and groups. Raises `InvalidInput` for unknown users, and where
    the socket's group is not clear.
    """
    numbers: set[int] = set()
    primary = set(groups)
    for name in users:
        try:
            entry = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
            numbers.add(entry.pw_uid)
            primary.add(entry.pw_gid)
        except KeyError:
            if not name.isdecimal():
                raise InvalidInput("--allow-user", name, "a user's name or number on this machine") from None
            numbers.add(int(name))  # a container's user without an entry: its group has the same number
            primary.add(int(name))
    if socket_group is None and len(primary) > 1:
        found = ", ".join(map(str, sorted(primary)))
        raise InvalidInput(
            "--socket-group", "none", "the group that all allowed users are in", f"their own are {found}"
        )
    group = socket_group if socket_group is not None else next(iter(primary), None)
    return Peers(frozenset(numbers), frozenset(groups), socket_group=group)


def protect_socket(path: Path, group: int | None) -> None:
    """Let the owner and one group connect, and no other user. Raises `InvalidInput` where the group cannot be set."""
    if group is None:
        path.chmod(0o600)
        return
    if path.stat().st_gid != group:
        try:
            os.chown(path, -1, group)
        except PermissionError as error:
            hint = f"run the keeper with group {group} (Group= of the unit, runAsGroup of the container)"
            raise InvalidInput("--socket-group", group, "a group of this process", hint) from error
    path.chmod(0o660)


def credentials(writer: asyncio.StreamWriter) -> tuple[int, int, int]:
    """The peer's process, effective user and group."""
    at = writer.get_extra_info("socket")
    pid, user, group = _CREDENTIALS.unpack(at.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, user, group


class RefusalLog:
    """Logs refused peers, one line per interval and kind; the line has the number of those that were left out
    before it.
    """

    def __init__(self, interval_s: float = WARNING_INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._next_s: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def refused(self, kind: str, line: str, now_s: float) -> None:
        """A peer was refused."""
        if now_s < self._next_s.get(kind, float("-inf")):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        self._next_s[kind] = now_s + self._interval_s
        left_out = self._left_out.pop(kind, 0)
        _log.warning("%s%s", line, f" ({left_out} more were refused before)" if left_out else "")
