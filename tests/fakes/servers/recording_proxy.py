"""A proxy on loopback that records the requests of processes to an API server, as events of an audit log.

Which calls a process made is written in the server's audit log, which a client of a real server often cannot read. The
processes are given the proxy's address in their kubeconfig; it passes each request on with the process's own token and
keeps what kube-apiserver would log: User-Agent, verb, object and code.
Limits: plain HTTP on loopback, no upgrades (exec, port-forward); a request of a process that ends meanwhile is kept
with the code 0.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web
from tests.fakes.waiting import patience

from cotenant_local.apiserver.http.options import is_watch, parse_query
from cotenant_local.apiserver.http.routing import parse

HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
BY_NAME = "metadata.name="


def event(method: str, path: str, query: str, agent: str) -> dict[str, Any]:
    """The event of a request, with the fields that `api_roles` reads."""
    route, asked = parse(path), parse_query(query.encode())
    found: dict[str, Any] = {"userAgent": agent, "requestURI": path, "verb": method.lower(), "code": 0}
    if route is None:
        return found
    name = route.name
    if not name:  # a list of one object counts as that object's, as in kube-apiserver's RequestInfo
        terms = asked.get("fieldSelector", "").split(",")
        name = next((term.removeprefix(BY_NAME) for term in terms if term.startswith(BY_NAME)), "")
    verb = VERBS.get(method, "watch" if is_watch(asked) else "get" if route.name else "list")
    of = {
        "resource": route.plural,
        "subresource": route.subresource,
        "apiGroup": route.group,
        "namespace": route.namespace,
        "name": name,
    }
    return found | {"verb": verb, "objectRef": {key: value for key, value in of.items() if value}}


class RecordingProxy:
    """A server in a thread with its own event loop, until `stop`."""

    def __init__(self, upstream: str, trusting: ssl.SSLContext) -> None:
        self.events: list[dict[str, Any]] = []
        self.url = ""
        self._upstream, self._trusting = upstream, trusting
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()), daemon=True)
        self._thread.start()
        assert self._started.wait(patience(30)), "the proxy does not start"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(patience(15))

    def kubeconfig(self, path: Path, token: str) -> Path:
        """Write a kubeconfig whose user has this token."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(yaml.safe_dump(config))
        return path

    async def _serve(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self._trusting, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        asked = {"skip_auto_headers": ("Accept-Encoding",), "auto_decompress": False}  # what the process can read
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, **asked) as http:
            self._http = http
            app = web.Application(client_max_size=32 << 20)
            app.router.add_route("*", "/{path:.*}", self._pass_on)
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._started.set()
            await self._stop.wait()
            await runner.cleanup()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        seen = event(request.method, request.path, request.query_string, request.headers.get("User-Agent", ""))
        self.events.append(seen)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
        body = await request.read()
        async with self._http.request(
            request.method, f"{self._upstream}{request.path_qs}", data=body or None, headers=headers
        ) as answer:
            seen["code"] = answer.status
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP}
            passed = web.StreamResponse(status=answer.status, headers=kept)
            with suppress(ConnectionResetError):  # the process has ended, or closed its watch
                await passed.prepare(request)
                async for chunk in answer.content.iter_any():
                    await passed.write(chunk)
                await passed.write_eof()
            return passed
