"""The scheduler's HTTP side: metrics, health, reports of nodes, and the debug API.

    GET  /metrics        Prometheus text            POST /metrics/report  a node's report (services/reporting)
    GET  /healthz        200 while the loop turns   GET  /readyz          200 once everything has been listed
    /apis/v1/..., /debug/...                        questions and switches, for callers on this machine or with a token (pages.py)

Problem: it must answer while ten thousand pods are judged. Choice: plain ASGI in the scheduler's own event loop; a batch of judgements takes some
tens of milliseconds, so an answer waits no longer. Limits: no TLS; metrics and health are open to the pod network.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import uvicorn

from cotenant.services.reporting.asgi import TEXT, Answer, Receive, Scope, Send, send_answer
from cotenant.services.reporting.endpoint import PATH as REPORT_PATH
from cotenant.services.scheduler.metrics import Metrics
from cotenant.services.scheduler.pages.routes import PROTECTED

Endpoint = Callable[[Scope, Receive, Send], Awaitable[None]]
EXPOSITION = b"text/plain; version=0.0.4; charset=utf-8"


class Pages:
    """The ASGI application."""

    def __init__(
        self,
        metrics: Metrics,
        report: Endpoint,
        *,
        healthy: Callable[[], str],
        ready: Callable[[], str],
        debug: Endpoint,
    ) -> None:
        """`healthy` and `ready` give what is wrong, empty if nothing is; `debug` answers what may not be asked by everybody."""
        self._metrics = metrics
        self._report = report
        self._healthy = healthy
        self._ready = ready
        self._debug = debug

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise ValueError(f"an HTTP endpoint was asked for {scope['type']}")
        if scope["path"] == REPORT_PATH:
            await self._report(scope, receive, send)
        elif scope["path"].startswith(PROTECTED):
            await self._debug(scope, receive, send)
        elif scope["method"] not in ("GET", "HEAD"):
            await send_answer(send, Answer(405, b"only GET\n", TEXT, ((b"allow", b"GET, HEAD"),)))
        else:
            await send_answer(send, self._answer(scope["path"]))

    def _answer(self, path: str) -> Answer:
        if path == "/metrics":
            return Answer(200, self._metrics.page(), EXPOSITION)
        if path in ("/healthz", "/livez"):
            return _verdict(self._healthy())
        if path == "/readyz":
            return _verdict(self._ready())
        return Answer(404, b"not found\n", TEXT)


def _verdict(wrong: str) -> Answer:
    return Answer(503, f"{wrong}\n".encode(), TEXT) if wrong else Answer(200, b"ok\n", TEXT)


class Server(uvicorn.Server):
    """uvicorn in somebody else's event loop: signals are the process's business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the process's signal handlers alone."""
        yield

    @property
    def port(self) -> int:
        """The port that is listened to, 0 before that."""
        for server in getattr(self, "servers", ()):
            for socket in server.sockets:
                return int(socket.getsockname()[1])
        return 0


def serve(app: Endpoint, host: str, port: int) -> Server:
    """A server for the application; `await` its `serve()`."""
    return Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # who asks is who connects
            timeout_keep_alive=75,
            timeout_graceful_shutdown=2,
            limit_concurrency=512,
        )
    )
