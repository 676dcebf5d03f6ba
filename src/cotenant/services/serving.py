"""Listening: uvicorn with httptools in our own event loop, with or without TLS.

Problem: kube-scheduler keeps one connection open for minutes between calls, and an idle one that is closed under it costs a failed cycle.
Choice: idle connections stay longer than the 90 s after which the caller closes its own; a head must arrive within seconds and some KiB; certificates are
read again when their files change, so that they may be renewed in place. A node's agent listens the same way, also on a unix socket that only
its own user may open. Limits: a body has its own bounds (services/reporting/asgi.py); renewed certificates hold for new connections.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cotenant.model.errors import InvalidInput
from cotenant.services.reporting.asgi import Receive, Scope, Send

KEEP_ALIVE_S = 300
HEAD_WITHIN_S = 10.0
MOST_HEAD_BYTES = 64 << 10
MOST_CONNECTIONS = 20_000  # an agent a node may hold one
RENEWED_EVERY_S = 60.0
BACKLOG = 1024

Application = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen: a host and port, or the path of a unix socket."""

    host: str
    port: int
    path: str = ""

    @classmethod
    def parse(cls, field: str, text: str) -> Address:
        """HOST:PORT, [IPv6]:PORT, :PORT (every address) or unix:PATH. Raises `InvalidInput`."""
        if text.startswith("unix:/"):
            return cls("", 0, text.removeprefix("unix:"))
        host, colon, port = text.rpartition(":")
        if not colon or not port.isdecimal() or not int(port) < 65536:
            raise InvalidInput(field, text, "HOST:PORT", "127.0.0.1:8888, or :8888 for every address")
        return cls(host.strip("[]") or "0.0.0.0", int(port))

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
class Tls:
    """A server's certificate; with `client_ca` every client must show one that it signed."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """The server side's context. Raises `InvalidInput`."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.load(context)
        if self.client_ca is not None:
            try:
                context.load_verify_locations(self.client_ca)
            except (OSError, ssl.SSLError) as error:
                raise InvalidInput("--client-ca", str(self.client_ca), "certificates as PEM", str(error)) from error
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Read the certificate and its key. Raises `InvalidInput`."""
        try:
            context.load_cert_chain(self.certificate, self.key, password=lambda: b"")
        except (OSError, ssl.SSLError, ValueError) as error:
            where = f"{self.certificate}, {self.key}"
            raise InvalidInput(
                "--tls-cert, --tls-key", where, "a certificate and its key without passphrase, as PEM", str(error)
            ) from error

    def stamp(self) -> tuple[float, ...]:
        """Changes when the files do."""
        with suppress(OSError):
            return tuple(path.stat().st_mtime for path in (self.certificate, self.key))
        return ()


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol; the head of a request must be complete within `HEAD_WITHIN_S` and `MOST_HEAD_BYTES`.

    Counted is what arrives without progress: trailers too, which are kept as a head is. The read in which a head begins is not counted: it may have brought the
    body before it.
    """

    _timer: asyncio.TimerHandle | None = None
    _stuck_bytes = 0  # read since a head began or ended, or a body grew

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEAD_WITHIN_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._stuck_bytes += len(data)
        super().data_received(data)
        if self._stuck_bytes > MOST_HEAD_BYTES:
            self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._stuck_bytes = 0
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_WITHIN_S, self.transport.abort)

    def on_headers_complete(self) -> None:
        self._in_time()
        self._stuck_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._stuck_bytes = 0
        super().on_body(body)

    def _in_time(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Uvicorn(uvicorn.Server):
    """Signals are the process's business, and so is when to end: it need not look ten times a second, which an idle agent would pay for."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._over = asyncio.Event()

    def end(self) -> None:
        """Finish what is under way, and return from `serve`."""
        self.should_exit = True
        self._over.set()

    async def main_loop(self) -> None:
        """Wait for the end; with no date header and no limit of requests nothing else is to be done."""
        if not await self.on_tick(0):
            await self._over.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the handlers alone."""
        yield


class Listener:
    """An application on a socket that is bound at once, so that its port is known. Raises `InvalidInput` where it cannot be bound."""

    def __init__(self, app: Application, address: Address, tls: Tls | None = None) -> None:
        self._tls = tls
        self._context = tls.context() if tls is not None else None
        self._socket = _unix_socket(address) if address.path else _tcp_socket(address)
        self.address = address if address.path else Address(address.host, int(self._socket.getsockname()[1]))
        context = self._context
        self._server = _Uvicorn(
            uvicorn.Config(
                app,
                http=_Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                backlog=BACKLOG,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=5,
                limit_concurrency=MOST_CONNECTIONS,
                ssl_context_factory=None if context is None else lambda config, default: context,
            )
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until told to stop; what is under way is finished."""
        serving = asyncio.create_task(self._server.serve([self._socket]))
        stopping = asyncio.create_task(stop.wait())
        renewing = asyncio.create_task(self._renew())
        try:
            await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._server.end()
            stopping.cancel()
            renewing.cancel()
            await serving
            self._socket.close()
            if self.address.path:
                Path(self.address.path).unlink(missing_ok=True)

    async def _renew(self) -> None:
        """Read the certificate again whenever its files change; a bad one keeps the last."""
        if self._tls is None or self._context is None:
            return
        stamp = self._tls.stamp()
        while True:
            await asyncio.sleep(RENEWED_EVERY_S)
            now = self._tls.stamp()
            if now and now != stamp:
                stamp = now
                with suppress(InvalidInput):
                    self._tls.load(self._context)


def _tcp_socket(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # asyncio switches Nagle's algorithm off only where the protocol is named; an answer is two writes, and would wait 40 ms between them.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return _bound(found, (address.host, address.port), address)


def _unix_socket(address: Address) -> socket.socket:
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if stat.S_ISSOCK(os.stat(address.path).st_mode) and probe.connect_ex(address.path) != 0:
            os.unlink(address.path)  # left by one that was killed
    before = os.umask(0o177)
    try:
        return _bound(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), address.path, address)
    finally:
        os.umask(before)


def _bound(found: socket.socket, where: tuple[str, int] | str, address: Address) -> socket.socket:
    try:
        found.bind(where)
        found.listen(BACKLOG)  # connections wait until the server runs
    except (OSError, TypeError, UnicodeError) as error:  # no address at all: bind says so by either of the latter
        found.close()
        raise InvalidInput(
            "listen address", str(address), "one that is free", getattr(error, "strerror", None) or str(error)
        ) from error
    return found
