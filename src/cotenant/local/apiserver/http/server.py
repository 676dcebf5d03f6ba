"""The API server's HTTP server: the one of `drivers/http`, with refusals as a Kubernetes Status and watches that end at the stop.

Limits: beyond loopback a certificate is required, because the token must not travel in clear text. Watches last as long as their client reads.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.drivers.http.address import Address, Listening
from cotenant.drivers.http.limits import DEFAULTS, ServerLimits
from cotenant.drivers.http.messages import JSON, Answer, Scope
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.http.traffic import Traffic
from cotenant.local.apiserver.contract import ApiError
from cotenant.local.apiserver.http.app import Application
from cotenant.local.apiserver.http.bodies import MAX_BODY_BYTES
from cotenant.local.apiserver.http.encoding import rendering
from cotenant.model.errors import InvalidInput

LIMITS = replace(DEFAULTS, body_bytes=MAX_BODY_BYTES, body_within_s=30.0, connections=4_000, stop_within_s=2.0)
LOOPBACK = Address("127.0.0.1", 0)
_REASONS = {400: "BadRequest", 408: "Timeout", 431: "RequestHeaderFieldsTooLarge", 503: "ServiceUnavailable"}


class ApiServer:
    """Runs an Application on a socket.

        server = ApiServer(app)
        await server.start()      # server.url
        await server.stop()

    Raises `InvalidInput` where the address or the certificate cannot be used, and for an address beyond loopback without a certificate.
    """

    def __init__(
        self,
        app: Application,
        where: Address | Listening = LOOPBACK,
        *,
        tls: Tls | None = None,
        limits: ServerLimits = LIMITS,
    ) -> None:
        address = where.address if isinstance(where, Listening) else where
        if tls is None and not address.is_loopback:
            raise InvalidInput(address.field, str(address), "a loopback address", "elsewhere it needs a certificate")
        traffic = Traffic("apiserver", is_watch)
        self._app = app
        self._server = HttpServer(
            app, where, limits=limits, tls=tls, traffic=traffic, refusal=status_refusal, has_dates=True
        )
        app.metrics.registry.register(traffic)
        app.address = str(self.address)

    @property
    def address(self) -> Address:
        """Where the server listens."""
        return self._server.address

    @property
    def url(self) -> str:
        """For clients."""
        return self._server.url

    async def start(self) -> None:
        """Accept connections."""
        await self._server.start()

    async def stop(self) -> None:
        """End watches, complete what is in progress for 2 s at most, close."""
        self._app.close()
        await self._server.stop()


def is_watch(scope: Scope) -> bool:
    """Whether a request is a watch, which lasts as long as its client wants."""
    return b"watch=" in scope["query_string"]


def status_refusal(status: int, message: str) -> Answer:
    """A refusal by the server's limits, in the form of the API."""
    error = ApiError(status, _REASONS.get(status, "BadRequest"), message)
    return Answer(status, rendering.encode(error.status()), JSON)
