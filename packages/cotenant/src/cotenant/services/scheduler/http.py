"""The scheduler's HTTP side: metrics, health, reports of nodes, and the debug API.

    GET  /metrics        Prometheus text            POST /metrics/report  a node's report (services/reporting)
    GET  /healthz        200 while the loop runs    GET  /readyz          200 once everything has been listed
    /apis/v1/..., /debug/...                        questions and switches, for callers on this machine or with a token
                                                    (pages.py)

It must answer while ten thousand pods are judged. Plain ASGI in the scheduler's own event loop; a batch of judgements
takes some tens of milliseconds, so an answer waits no longer. The server is the one of `drivers/http`.
Limits: metrics and health are open to whoever reaches the port, also with TLS.
"""

from __future__ import annotations

from cotenant.drivers.http.messages import TEXT, Application, HttpAnswer, Receive, Scope, Send, send_answer
from cotenant.drivers.http.pages import HealthPages
from cotenant.services.reporting.endpoint import PATH as REPORT_PATH
from cotenant.services.routes import PROTECTED


class SchedulerPages:
    """The ASGI application."""

    def __init__(self, health: HealthPages, *, report: Application, debug: Application) -> None:
        """`debug` answers the paths that are guarded."""
        self._health = health
        self._report = report
        self._debug = debug

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"]
        if path == REPORT_PATH:
            await self._report(scope, receive, send)
        elif path.startswith(PROTECTED):
            await self._debug(scope, receive, send)
        else:
            await send_answer(
                send,
                self._health.answer(scope["method"], path, scope["query_string"])
                or HttpAnswer(404, b"not found\n", TEXT),
            )
