"""A scheduler's HTTP side without a process, for tests of its pages."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant.drivers.http.pages import HealthPages
from cotenant.drivers.http.tokens import BearerToken
from cotenant.engine.cluster import Cluster
from cotenant.services.routes import CallerGuard, Routes
from cotenant.services.scheduler.http import SchedulerPages
from cotenant.services.scheduler.metrics import SchedulerMetrics
from cotenant.services.scheduler.pages.debugging import Debugging
from cotenant.services.scheduler.pages.plugins import routes as plugin_routes
from cotenant.services.scheduler.pages.scheduler_pages import Process, ProcessState, routes

SECRET = "a-secret-of-the-operators"
HERE = ("127.0.0.1", 40000)


@dataclass
class Server:
    app: SchedulerPages
    cluster: Cluster
    debugging: Debugging

    def ask(
        self,
        path: str,
        body: str = "",
        method: str = "GET",
        client: tuple[str, int] | None = HERE,
        query: str = "",
        **headers: str,
    ) -> tuple[int, str]:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body.encode(), "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "client": client,
            "headers": [(key.replace("_", "-").encode(), value.encode()) for key, value in headers.items()],
        }
        asyncio.run(self.app(scope, receive, send))
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:]).decode()

    def json(self, path: str, query: str = "") -> Any:
        status, text = self.ask(path, query=query)
        assert status == 200, text
        return json.loads(text)


def server(c: Cluster, tmp_path: Path | None = None) -> Server:
    token = None
    if tmp_path is not None:
        (tmp_path / "token").write_text(SECRET)
        token = BearerToken(tmp_path / "token")
    debugging = Debugging(c.observe)
    state = ProcessState("one", True, True, 1, 1, 1, {}, {}, 0, 0, {})
    process = Process(c, debugging, "cotenant", lambda: 5.0, lambda: state, lambda: "")
    debug = Routes((*routes(process), *plugin_routes(c, lambda: 5.0)), CallerGuard(token, lambda: 0.0))

    async def report(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("nobody reports here")

    return Server(SchedulerPages(HealthPages(SchedulerMetrics("p").page), report=report, debug=debug), c, debugging)
