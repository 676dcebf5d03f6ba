"""The real servers that loads are put on: how each is started and filled, and what a request of it is.

One kind of server says little about others: Redis answers from its one thread and event loop as memcached does, but
what a request costs and how its reply is built differ. A request is one packet to the server and tens of microseconds
of its CPU, like a small query.
Limits: Unix sockets, one thread, requests that only read.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cotenant.model.errors import Permanent
from cotenant_lab.experiments.loads.open_loop import Wire

_KEY, _ABSENT = "list", "none"
_ITEMS_A_KEY = 10  # a key of memcached costs about what ten items of a list do


@dataclass(frozen=True, slots=True)
class ServerKind:
    """One kind. `items` is the size of a request everywhere."""

    name: str  # on the command line
    program: str
    arguments: Callable[[Path, Path], tuple[str, ...]]  # of the socket, and of a folder for its files
    fill: Callable[[Path, int], None]  # of the socket and the items
    wire: Callable[[int], Wire]
    says: Callable[[float, int], str]  # of the requests a second and the items: for people


def connect(path: Path) -> socket.socket:
    """A blocking connection. Raises OSError where no server listens."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def command(*words: str) -> bytes:
    """A request in Redis' protocol (RESP)."""
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode()) for word in words]
    return b"".join(parts)


class SearchList:
    """LPOS of a missing item: the server scans the whole list and answers in one line."""

    def __init__(self) -> None:
        self._request = command("LPOS", _KEY, _ABSENT)

    def request(self, number: int) -> bytes:
        """The bytes of the request, always the same."""
        return self._request

    def replies(self, received: bytearray) -> int:
        """Remove complete lines; an error begins with a minus."""
        count = 0
        while (end := received.find(b"\r\n")) >= 0:
            if received[:1] == b"-":
                raise Permanent(f"the server answered: {received[1:end].decode(errors='replace')}")
            del received[: end + 2]
            count += 1
        return count


class GetMany:
    """One `get` of many keys: the server looks each up and answers with all values."""

    _END = b"END\r\n"

    def __init__(self, keys: int) -> None:
        self._request = b"get " + " ".join(map(_key, range(keys))).encode() + b"\r\n"

    def request(self, number: int) -> bytes:
        """The bytes of the request, always the same."""
        return self._request

    def replies(self, received: bytearray) -> int:
        """Remove complete replies; values do not contain what ends one."""
        if bytes(received[:1]) not in (b"", b"V", b"E") or received.startswith(b"ERROR"):
            raise Permanent(f"the server answered: {received[:80].decode(errors='replace').strip()}")
        count = 0
        while (end := received.find(self._END)) >= 0:
            del received[: end + len(self._END)]
            count += 1
        return count


def _fill_redis(path: Path, items: int) -> None:
    """Create a list of this many items of 8 bytes."""
    with connect(path) as connection:
        for first in range(0, items, 500):
            words = [f"it{number:06d}" for number in range(first, min(items, first + 500))]
            connection.sendall(command("RPUSH", _KEY, *words))
            if not connection.recv(64).startswith(b":"):
                raise Permanent("the server did not take the list")


def _fill_memcached(path: Path, items: int) -> None:
    """Store the keys, with values of 8 bytes."""
    with connect(path) as connection:
        for number in range(_keys(items)):
            connection.sendall(f"set {_key(number)} 0 0 8\r\nit{number:06d}\r\n".encode())
            if connection.recv(64) != b"STORED\r\n":
                raise Permanent("the server did not take the keys")


def _key(number: int) -> str:
    return f"key{number:06d}"


def _keys(items: int) -> int:
    return max(1, items // _ITEMS_A_KEY)


def _redis(path: Path, folder: Path) -> tuple[str, ...]:
    stored = ("--save", "", "--appendonly", "no", "--dir", str(folder))
    return ("--port", "0", "--unixsocket", str(path), *stored)


def _memcached(path: Path, folder: Path) -> tuple[str, ...]:
    return ("--unix-socket", str(path), "--user", "root", "--threads", "1", "--memory-limit", "64")


SERVERS = {
    server.name: server
    for server in (
        ServerKind(
            "redis", "redis-server", _redis, _fill_redis, lambda items: SearchList(),
            lambda rate, items: f"Redis answers {rate:g} LPOS a second over a list of {items}",
        ),
        ServerKind(
            "memcached", "memcached", _memcached, _fill_memcached, lambda items: GetMany(_keys(items)),
            lambda rate, items: f"memcached answers {rate:g} gets a second of {_keys(items)} keys each",
        ),
    )
}  # fmt: skip
