"""Listening: uvicorn with httptools, bound so that a slow or silent client costs a descriptor for seconds, no more.

Problem: uvicorn bounds idle keep-alive connections but neither the time nor the size of a request's head, and gives an application no way
to drop a client that reads nothing. Choice: its HTTP protocol with three additions: the head must be complete within 10 s and 64 KiB, and
the transport is lent to the application. The socket is ours, so port 0 works and the address is known before the first request. Limits:
signals are the owner's business.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cotenant.local.apiserver.http.app import Application

HEAD_TIMEOUT_S = 10.0
MAX_HEAD_BYTES = 64 << 10
KEEP_ALIVE_S = 75
MAX_CONNECTIONS = 4_000
BACKLOG = 1_024

_HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with bounded heads and the transport in the scope."""

    _head_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected: it has seconds to say what it wants."""
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone."""
        self._head_done()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a head or a body."""
        super().data_received(data)
        if self._head_timer is None:
            self._head_bytes = 0
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._head_done()
            self.transport.write(_HEAD_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.abort)

    def on_headers_complete(self) -> None:
        """Its head is complete."""
        self._head_done()
        self.scope["extensions"] = {"cotenant.transport": self.transport}  # type: ignore[dict-item]
        super().on_headers_complete()

    def _head_done(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class _Uvicorn(uvicorn.Server):
    """Leaves signals alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a server can be reached."""

    host: str
    port: int
    is_tls: bool

    @property
    def url(self) -> str:
        """For clients."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}"


class HttpServer:
    """Runs an Application on a socket.

        server = HttpServer(app, host="127.0.0.1", port=0)
        await server.start()      # server.listening.url
        await server.stop()

    Beyond loopback a certificate is required: the token must not travel in clear.
    """

    def __init__(
        self,
        app: Application,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        if certificate is None and not is_loopback(host):
            raise ValueError(f"host: {host} is not a loopback address; listening there needs a certificate")
        self._app = app
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # With its protocol named, asyncio turns Nagle's algorithm off; otherwise small answers wait for 40 ms.
        self._socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except OSError:
            self._socket.close()
            raise
        self.listening = Listening(host, self._socket.getsockname()[1], certificate is not None)
        app.address = f"{host}:{self.listening.port}"
        options: dict[str, Any] = {}
        if certificate is not None:
            options = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
        config = uvicorn.Config(
            app,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=2,
            limit_concurrency=MAX_CONNECTIONS,
            backlog=BACKLOG,
            **options,
        )
        self._server = _Uvicorn(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to serve; returns when connections are accepted."""
        self._task = asyncio.create_task(self._server.serve([self._socket]))
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise RuntimeError("the server ended before it began")
            await asyncio.sleep(0.002)

    async def stop(self) -> None:
        """End watches, finish what is under way for 2 s at most, close."""
        self._app.close()
        self._server.should_exit = True
        if self._task is not None:
            await self._task
        self._socket.close()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
