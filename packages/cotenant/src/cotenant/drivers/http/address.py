"""Where a server listens: the address as it is written, and the socket that is bound to it.

An address in use must be one line before anything slow starts, and port 0 must be resolved before the first request.
Binding and listening are one step apart from serving; connections wait in the backlog meanwhile. A unix socket may be
opened by its own user only, and one that was left behind by a killed process is replaced.
Limits: one socket a server; a name resolves to its first address.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path

from cotenant.drivers.http.limits import DEFAULTS
from cotenant.model.errors import InvalidInput


class AddressUnusable(InvalidInput):
    """A server cannot listen at an address. `is_foreign`: it is no address of this machine."""

    def __init__(self, field: str, value: object, expected: str, hint: str = "", *, is_foreign: bool = False) -> None:
        self.is_foreign = is_foreign
        super().__init__(field, value, expected, hint)


@dataclass(frozen=True, slots=True)
class Address:
    """A host and port, or the path of a unix socket. `field` names the option in errors."""

    host: str
    port: int
    path: str = ""
    field: str = field(default="listen address", compare=False, repr=False)

    @classmethod
    def parse(cls, field: str, text: str) -> Address:
        """HOST:PORT, [IPv6]:PORT, :PORT (every address) or unix:/PATH. Raises `InvalidInput`."""
        if text.startswith("unix:"):
            path = text.removeprefix("unix:")
            if not path.startswith("/"):
                raise InvalidInput(field, text, "unix: and an absolute path")
            return cls("", 0, path, field)
        host, colon, port = text.rpartition(":")
        if not colon or not port.isdecimal() or len(port) > 5 or not int(port) < 65536:
            raise InvalidInput(
                field,
                text,
                "HOST:PORT, or unix:/PATH",
                "127.0.0.1:8888; :8888 for every address; port 0 for any free one",
            )
        return cls(host.strip("[]") or "0.0.0.0", int(port), "", field)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.path:
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ListeningSocket:
    """A socket that listens. `address` has the port that the system chose for port 0."""

    socket: socket.socket
    address: Address

    def close(self) -> None:
        """Release the address."""
        self.socket.close()
        if self.address.path:
            Path(self.address.path).unlink(missing_ok=True)


def bind(address: Address, backlog: int = DEFAULTS.backlog) -> ListeningSocket:
    """Listen at an address. Raises `AddressUnusable`."""
    if address.path:
        return ListeningSocket(_unix_socket(address, backlog), address)
    bound = _tcp_socket(address, backlog)
    return ListeningSocket(bound, replace(address, port=int(bound.getsockname()[1])))


def _tcp_socket(address: Address, backlog: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # asyncio disables Nagle's algorithm only where the protocol is named; an answer is two writes, and would wait 40 ms
    # between them.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return _bound(opened, (address.host, address.port), address, backlog)


def _unix_socket(address: Address, backlog: int) -> socket.socket:
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if stat.S_ISSOCK(os.stat(address.path).st_mode) and probe.connect_ex(address.path) != 0:
            os.unlink(address.path)  # left by a process that was killed
    before = os.umask(0o177)
    try:
        return _bound(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), address.path, address, backlog)
    finally:
        os.umask(before)


def _bound(opened: socket.socket, where: tuple[str, int] | str, address: Address, backlog: int) -> socket.socket:
    try:
        opened.bind(where)
        opened.listen(backlog)  # connections wait until the server runs
    except (OSError, TypeError, UnicodeError) as error:  # bind raises the latter two for what cannot be an address
        opened.close()
        raise _unusable(address, error) from error
    return opened


def _unusable(address: Address, error: Exception) -> AddressUnusable:
    why = getattr(error, "strerror", None) or str(error)
    number = error.errno if isinstance(error, OSError) else 0
    if isinstance(error, socket.gaierror | UnicodeError | TypeError) or number == errno.EADDRNOTAVAIL:
        return AddressUnusable(address.field, str(address), "an address of this machine", why, is_foreign=True)
    if number == errno.EADDRINUSE:
        hint = f"{why}: stop the process that uses it, or choose another"
        return AddressUnusable(address.field, str(address), "a free address", hint)
    return AddressUnusable(address.field, str(address), "an address that this user may listen at", why)
