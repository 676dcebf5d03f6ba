"""An HTTP server: an application on a socket, from its start to a graceful stop.

Four processes listen, and each needs the same bounds, TLS, metrics and end. Uvicorn's protocol on httptools in the
caller's event loop, within `ServerLimits`; nothing polls, so an idle server costs nothing. Certificates are read again
when their files change.
Limits: signals are the process's matter; connections are bounded by the process's open files too, with some kept for
its own work.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from contextlib import suppress
from time import monotonic

import uvicorn
from uvicorn.server import ServerState

from cotenant.drivers.http.address import Address, ListeningSocket, bind
from cotenant.drivers.http.exact_reads import ReadBuffer
from cotenant.drivers.http.limits import DEFAULTS, ServerLimits
from cotenant.drivers.http.messages import Application
from cotenant.drivers.http.protocol import BoundedProtocol, Refusal, ServerContext, plain_refusal
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.http.traffic import ServerTraffic
from cotenant.model.errors import InvalidInput

RESERVED_FILES = 128  # kept for what the process opens itself
_log = logging.getLogger(__name__)


class HttpServer:
    """Serves an application.

        server = HttpServer(app, Address.parse("--listen", "127.0.0.1:0"))
        await server.start()      # server.url
        await server.stop()

    The socket listens from the construction on, so the address is known and connections wait. Raises `InvalidInput`
    where the address or the certificate cannot be used.
    """

    def __init__(
        self,
        app: Application,
        where: Address | ListeningSocket,
        *,
        limits: ServerLimits = DEFAULTS,
        tls: Tls | None = None,
        traffic: ServerTraffic | None = None,
        refusal: Refusal = plain_refusal,
        has_dates: bool = False,
    ) -> None:
        """`refusal` makes the answers to what the limits refuse; `has_dates`: answers have a Date header."""
        self._limits = limits
        self._tls = tls
        try:
            self._ssl = tls.context() if tls is not None else None
        except InvalidInput:
            if isinstance(where, ListeningSocket):
                where.close()
            raise
        self._listening = bind(where, limits.backlog) if isinstance(where, Address) else where
        self.traffic = traffic or ServerTraffic("http")
        self._state = ServerState()
        self._context = ServerContext(limits, self.traffic, _max_connections(limits), refusal)
        if has_dates:
            self._context.next_date_s = 0.0
        self._config = uvicorn.Config(
            app,
            interface="asgi3",
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # the client is the peer
        )
        self._server: asyncio.Server | None = None
        self._renewing: asyncio.Task[None] | None = None

    @property
    def address(self) -> Address:
        """Where the server listens."""
        return self._listening.address

    @property
    def url(self) -> str:
        """For clients; of a unix socket, its path after `unix:`."""
        if self.address.path:
            return str(self.address)
        return f"{'http' if self._tls is None else 'https'}://{self.address}"

    async def start(self) -> None:
        """Accept connections."""
        loop = asyncio.get_running_loop()
        self._config.load()
        limits, context = self._limits, self._ssl
        handshake_s = None if context is None else limits.handshake_within_s
        shutdown_s = None if context is None else limits.tls_close_within_s
        create = loop.create_unix_server if self.address.path else loop.create_server
        self._server = await create(
            ReadBuffer().before(lambda: BoundedProtocol(self._config, self._state, self._context)),
            sock=self._listening.socket,
            backlog=limits.backlog,
            ssl=context,
            ssl_handshake_timeout=handshake_s,
            ssl_shutdown_timeout=shutdown_s,
        )
        if self._tls is not None:
            self._renewing = asyncio.create_task(self._renew(self._tls), name="certificate renewal")

    async def stop(self) -> None:
        """Stop accepting, complete the requests in progress for `stop_within_s` at most, close."""
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
        if self._server is not None:
            self._server.close()
            await self._drain()
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._server.wait_closed()
            self._server = None
        self._listening.close()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then stop."""
        await self.start()
        try:
            await stop.wait()
        finally:
            await self.stop()

    async def _drain(self) -> None:
        until_s = monotonic() + self._limits.stop_within_s
        for connection in tuple(self._state.connections):
            connection.shutdown()
        if tasks := tuple(self._state.tasks):
            _, late = await asyncio.wait(tasks, timeout=self._limits.stop_within_s)
            if late:
                _log.warning("stopping: %d requests were not completed", len(late))
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=1.0)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until_s - monotonic())):
                while self._state.connections:
                    self._context.emptied.clear()
                    await self._context.emptied.wait()
        for connection in tuple(self._state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # for their ends

    async def _renew(self, tls: Tls) -> None:
        """Load the certificate again whenever its files change; a broken one keeps the last."""
        assert self._ssl is not None
        stamp = tls.stamp()
        while True:
            await asyncio.sleep(self._limits.certificate_check_s)
            now = tls.stamp()
            if now and now != stamp:
                stamp = now
                try:
                    tls.context()  # a broken pair would leave half of itself in the context that is in use
                    tls.load(self._ssl)
                except InvalidInput as error:
                    _log.error("the certificate was not renewed: %s", error)


def _max_connections(limits: ServerLimits) -> int:
    """What the limits and the process's open files allow."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return limits.connections
    return max(1, min(limits.connections, max(files - RESERVED_FILES, files // 2)))
