"""The ASGI application: authentication, routing, and every error as a Status.

Thousands of small requests a second share one event loop with storage and watches, and every invalid request must be
answered with a Status. Plain ASGI with one dispatch by path: resources first, then the fixed paths.
Limits: HTTP/1.1 only; no HEAD or OPTIONS.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from cotenant.drivers.http.messages import Receive, Scope, Send
from cotenant.drivers.http.pages import EXPOSITION
from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.http import resource_metrics, reviews
from cotenant_local.apiserver.http.audit import RequestAudit
from cotenant_local.apiserver.http.auth import Credentials, is_public, unauthorized
from cotenant_local.apiserver.http.bodies import BodyDecoder
from cotenant_local.apiserver.http.discovery import ApiDiscovery
from cotenant_local.apiserver.http.encoding import rendering
from cotenant_local.apiserver.http.encoding.accept import Representation
from cotenant_local.apiserver.http.exchange import ClientGone, Exchange, Header
from cotenant_local.apiserver.http.health import ApiServerMetrics, HealthApi, version
from cotenant_local.apiserver.http.openapi.documents import OpenApi
from cotenant_local.apiserver.http.options import parse_query, write_options
from cotenant_local.apiserver.http.protocols import ApiProtocol
from cotenant_local.apiserver.http.resource_metrics import MetricsApi, UsageSource
from cotenant_local.apiserver.http.resources import ResourceHandler, is_pretty, method_not_allowed, not_found
from cotenant_local.apiserver.http.routing import ResourceRoute, parse
from cotenant_local.apiserver.http.streaming import Streams
from cotenant_local.apiserver.http.unsupported import refuse_impersonation
from cotenant_local.apiserver.schema.builtin import definitions

_log = logging.getLogger("cotenant.apiserver")
_FIXED = ("/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version")


class ApiServerApp:
    """The HTTP interface of one API server, as an ASGI application."""

    def __init__(
        self,
        api: ApiProtocol,
        credentials: Credentials | None,
        *,
        clock: Callable[[], float] = time.time,
        address: str = "",
        audit: RequestAudit | None = None,
        storage: Callable[[], str] = lambda: "",
    ) -> None:
        """`audit` receives every request, those that are refused too; `storage`: why writes cannot be stored, empty
        while they can.
        """
        self._api = api
        self._credentials = credentials
        self._audit = audit
        self.address = address
        self.health = HealthApi(storage)
        self.streams = Streams(clock)
        self.metrics = ApiServerMetrics(lambda: len(self.streams))
        self._clock = clock
        self._bodies = BodyDecoder()
        self._resources = ResourceHandler(api, self.streams, self._bodies, clock)
        self._discovery = ApiDiscovery(api.registry, rendering.encode)
        self._openapi = OpenApi(api, definitions)
        self._usage: MetricsApi | None = None

    def serve_usage(self, source: UsageSource) -> None:
        """Serve the resource metrics API from now on."""
        self._usage = MetricsApi(source, self._clock)
        self._discovery.add(resource_metrics.RESOURCES.values())

    def close(self) -> None:
        """Report not ready and end all open watches."""
        self.health.is_ready = False
        self.streams.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        exchange = Exchange(scope, receive, send)
        began = time.perf_counter()
        verb, plural = exchange.method, ""
        audit = self._audit
        identity = "" if audit is None else audit.received(exchange)
        try:
            if self._credentials is not None and not is_public(exchange.path):
                authorization = exchange.headers.get(b"authorization", b"")
                if not self._credentials.admits(authorization):
                    raise unauthorized()
                refuse_impersonation(exchange)
            route = parse(exchange.path)
            if route is not None:
                plural = route.plural
                verb = await self._routed(exchange, route)
            else:
                await self._fixed(exchange)
        except ClientGone:
            exchange.abort()
        except ApiError as error:
            await self._refuse(exchange, error)
        except RecursionError:
            await self._refuse(exchange, ApiError(400, "BadRequest", "the object is nested too deeply"))
        except asyncio.CancelledError:
            exchange.abort()
            if audit is not None:
                audit.completed(exchange, identity)
            raise
        except Exception:  # the outermost handler of a request: counted, logged, answered with a Status
            self.metrics.failure()
            _log.exception("%s %s failed", exchange.method, exchange.path)
            await self._refuse(exchange, ApiError(500, "InternalError", "Internal error occurred"))
        self.metrics.observe(verb, plural, exchange.code, time.perf_counter() - began)
        if audit is not None:
            audit.completed(exchange, identity)

    async def _refuse(self, exchange: Exchange, error: ApiError) -> None:
        if exchange.started:
            exchange.abort()
            return
        headers: list[Header] = []
        if error.retry_after_s:
            headers.append((b"retry-after", b"%d" % error.retry_after_s))
        if error.code == 401:
            headers.append((b"www-authenticate", b'Bearer realm="cotenant"'))
        if error.code in (408, 413):
            headers.append((b"connection", b"close"))  # the rest of the body is not read
        await exchange.answer(error.code, b"application/json", rendering.encode(error.status()), headers)

    async def _routed(self, exchange: Exchange, route: ResourceRoute) -> str:
        if (
            route.group == resource_metrics.GROUP
            and route.version == resource_metrics.VERSION
            and self._usage is not None
        ):
            await self._json(exchange, self._usage.answer(exchange, route))
            return "get" if route.name else "list"
        review = reviews.REVIEWS.get((route.group, route.version, route.plural))
        if review is None:
            return await self._resources.serve(exchange, route)
        if exchange.method != "POST" or route.name:
            raise method_not_allowed()
        query = parse_query(exchange.query_string)
        write_options(query, "CreateOptions", "")
        obj = await self._bodies.object(await exchange.body(), exchange.header(b"content-type"), review.kind)
        await self._json(exchange, reviews.answer(review, obj), 201)
        return "create"

    async def _json(self, exchange: Exchange, document: Manifest, code: int = 200) -> None:
        await self._bytes(exchange, rendering.encode(document), b"application/json", code)

    async def _bytes(self, exchange: Exchange, body: bytes, content_type: bytes, code: int = 200) -> None:
        if is_pretty(parse_query(exchange.query_string), exchange):
            body = rendering.finish(body, Representation(), True)
        await exchange.answer(code, content_type, body)

    async def _fixed(self, exchange: Exchange) -> None:
        path = exchange.path
        if exchange.method != "GET":
            raise method_not_allowed() if path.rstrip("/") in _FIXED else not_found()
        if path.startswith(("/healthz", "/livez", "/readyz")):
            answer = self.health.answer(path, "verbose" in parse_query(exchange.query_string))
            if answer is None:
                raise not_found()
            await exchange.answer(
                answer[0], b"text/plain; charset=utf-8", answer[1], [(b"x-content-type-options", b"nosniff")]
            )
        elif path == "/version" or path == "/version/":
            await self._json(exchange, version())
        elif path == "/metrics":
            await exchange.answer(200, EXPOSITION, self.metrics.text())
        elif path.startswith("/openapi/"):
            await self._openapi.serve(exchange)
        elif path == "/":
            await self._json(exchange, {"paths": self._paths()})
        else:
            found = self._discovery.document(path, exchange.header(b"accept"), self.address)
            if found is None:
                raise not_found()
            await self._bytes(exchange, found[1], found[0])

    def _paths(self) -> list[str]:
        served = {
            f"/api/{one.version}" if not one.group else f"/apis/{one.group}" for one in self._api.registry.resources()
        }
        served |= {f"/apis/{one.group}/{one.version}" for one in self._api.registry.resources() if one.group}
        return sorted(served | set(_FIXED))


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
