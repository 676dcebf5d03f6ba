"""An extender over HTTP that does as the test says: well, slowly, not at all, or with lies."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

Judge = Callable[[dict[str, Any]], Any]  # the request's document -> the answer's, or bytes as they are


class FakeExtender:
    """Serves its verbs on a free port. `asked`: every request, by verb."""

    def __init__(self, tls: ssl.SSLContext | None = None, **verbs: Judge) -> None:
        self.verbs = dict(verbs)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.holds: asyncio.Event | None = None  # answers come when it is set
        self.status = 200
        self._tls = tls
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> FakeExtender:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/{verb}", self._handle)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self.holds is not None:
            self.holds.set()
        assert self._runner is not None
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        verb, given = request.match_info["verb"], json.loads(await request.read())
        self.asked.append((verb, given))
        if self.holds is not None:
            await self.holds.wait()
        answer = self.verbs[verb](given)
        if isinstance(answer, Awaitable):
            answer = await answer
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return web.Response(status=self.status, body=body, content_type="application/json")


def names(given: dict[str, Any]) -> list[str]:
    """The nodes that a request is about."""
    if given["NodeNames"] is not None:
        return list(given["NodeNames"])
    return [item["metadata"]["name"] for item in given["Nodes"]["items"]]


def keeping(*allowed: str) -> Judge:
    """A filter that keeps these nodes."""

    def judge(given: dict[str, Any]) -> dict[str, Any]:
        asked = names(given)
        return {
            "NodeNames": [name for name in asked if name in allowed],
            "FailedNodes": {name: "no card is free" for name in asked if name not in allowed},
        }

    return judge
