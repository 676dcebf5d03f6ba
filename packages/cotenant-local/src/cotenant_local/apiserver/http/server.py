"""The API server's HTTP server: `drivers/http` with refusals as a Kubernetes Status; watches end when it stops.

Limits: a certificate is required for addresses other than loopback, because the token must not be sent in clear text. A
watch lasts as long as its client reads.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.drivers.http.address import Address, ListeningSocket
from cotenant.drivers.http.limits import DEFAULTS, ServerLimits
from cotenant.drivers.http.messages import JSON, HttpAnswer, Scope
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.http.traffic import ServerTraffic
from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant.model.errors import InvalidInput
from cotenant_local.apiserver.http.app import ApiServerApp
from cotenant_local.apiserver.http.bodies import MAX_BODY_BYTES
from cotenant_local.apiserver.http.encoding import rendering

LIMITS = replace(DEFAULTS, body_bytes=MAX_BODY_BYTES, body_within_s=30.0, connections=4_000, stop_within_s=2.0)
LOOPBACK = Address("127.0.0.1", 0)
_REASONS = {400: "BadRequest", 408: "Timeout", 431: "RequestHeaderFieldsTooLarge", 503: "ServiceUnavailable"}


class ApiServer:
    """Runs an Application on a socket.

        server = ApiServer(app)
        await server.start()      # server.url
        await server.stop()

    Raises `InvalidInput` if the address or the certificate cannot be used, and for an address other than loopback
    without a certificate.
    """

    def __init__(
        self,
        app: ApiServerApp,
        where: Address | ListeningSocket = LOOPBACK,
        *,
        tls: Tls | None = None,
        limits: ServerLimits = LIMITS,
    ) -> None:
        address = where.address if isinstance(where, ListeningSocket) else where
        if tls is None and not address.is_loopback:
            raise InvalidInput(
                address.field, str(address), "a loopback address", "any other address needs a certificate"
            )
        traffic = ServerTraffic("apiserver", is_watch)
        self._app = app
        self._server = HttpServer(
            app, where, limits=limits, tls=tls, traffic=traffic, refusal=status_refusal, has_dates=True
        )
        app.metrics.registry.register(traffic)
        app.address = str(self.address)

    @property
    def address(self) -> Address:
        """The address that the server listens on."""
        return self._server.address

    @property
    def url(self) -> str:
        """The URL for clients."""
        return self._server.url

    async def start(self) -> None:
        """Accept connections."""
        await self._server.start()

    async def stop(self) -> None:
        """End watches, complete requests in progress within 2 s, close."""
        self._app.close()
        await self._server.stop()


def is_watch(scope: Scope) -> bool:
    """Whether a request is a watch, whose duration is the client's choice."""
    return b"watch=" in scope["query_string"]


def status_refusal(status: int, message: str) -> HttpAnswer:
    """A refusal by the server's limits, as a Status."""
    error = ApiError(status, _REASONS.get(status, "BadRequest"), message)
    return HttpAnswer(status, rendering.encode(error.status()), JSON)
