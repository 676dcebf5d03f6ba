"""A console that runs against a small API server and canned answers of the scheduler, the trace process, the credit
process and a node's agent, in a thread.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.fakes.servers.fake_api import FakeApi
from tests.fakes.waiting import WITHIN_S, patience, soon

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.messages import HttpAnswer, Receive, Scope, Send, send_answer
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tokens import BearerToken
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.services.console.access import OneTimeToken
from cotenant.services.console.console_process import ConsoleOptions, ConsoleProcess

TOKEN = "a-token-that-scripts-send"
HOSTILE = "<img src=x onerror=alert(1)>"
ZONE = "topology.kubernetes.io/zone"
T = TypeVar("T")


def explained(pod: str, **more: Any) -> dict[str, Any]:
    """An answer of the scheduler about a pod."""
    return {
        "pod": pod,
        "uid": "u",
        "at_s": 1.8e9,
        "state": "bound",
        "headline": "it is on node-a",
        "priority": 0,
        "requests": [["cpu", "1"], ["memory", "64Mi"]],
        "node": "node-a",
        "promised": "",
        "supposed": "",
        "waiting": None,
        "record": None,
        "candidates": [],
        "concerns": [],
        "preemptions": [],
        "story": [[1.8e9, "seen"]],
        **more,
    }


def waiting(because: str, *helps: str) -> dict[str, Any]:
    """Why a pod waits."""
    return {
        "because": because,
        "nodes": 3,
        "held": False,
        "rejections": [{"filter": "NodeResourcesFit", "reason": because, "nodes": 3}],
        "nearest": ["1 node fits but for 28 cpu"],
        "passing": 0,
        "notes": [],
        "helps": [{"what": "request", "words": words, "nodes": 1} for words in helps],
        "preemption": "",
        "retry": {"standing": "unschedulable", "words": "after an event", "at_s": None},
    }


def quota(
    name: str, minimum: int, used: int, runtime: int, *, parent: str = "root", children: tuple[str, ...] = ()
) -> Any:
    """A page of the quota plugin, CPU only; amounts in milli-CPU."""
    terms = ["cpu", used, used, used, used, used, minimum, minimum, 0, 0, 100_000, 1, 100_000, minimum, runtime]
    return {
        "name": name,
        "object": f"quotas/{name}",
        "isUsed": True,
        "problems": [],
        "parent": parent,
        "children": list(children),
        "lends": True,
        "total": [["cpu", 100_000]],
        "used": [["cpu", used]],
        "maximum": [["cpu", 100_000]],
        "shares": [
            {
                "terms": terms,
                "reason": {"rule": "runtime", "text": f"runtime of {name}: its minimum and what others leave"},
            }
        ],
        "seated": 1,
        "waiting": 2,
        "keptFor": "",
    }


def objective(name: str, burn: float) -> dict[str, Any]:
    """A page of a ServiceObjective."""
    replica = {"pod": "shop/web-1-0", "node": "node-1", "requests": 90, "bad": 9, "burn": burn, "p99Ms": 35.0}
    return {
        "objective": name,
        "service": "shop/front",
        "operation": "",
        "indicator": "latency",
        "belowMs": 20.0,
        "targetPercent": 99.9,
        "window": "28d",
        "maxAction": "cap",
        "state": "burning",
        "ratio": 0.9981,
        "budgetLeft": 0.4,
        "requests": 1000,
        "bad": 2,
        "since": "",
        "burn": {"1h": burn, "6h": 0.5},
        "alerts": [{"severity": "fast", "label": "critical", "firing": True}],
        "worstReplica": replica,
        "lastAction": {"time": "", "node": "node-1", "pod": HOSTILE, "action": "cap", "text": HOSTILE},
        "conditions": [],
        "replicas": [replica],
    }


def span(parent: int, service: str, start_ms: float, took_ms: float, self_ms: float) -> dict[str, Any]:
    """A span of a trace's page."""
    return {
        "parent": parent,
        "service": service,
        "operation": "GET /",
        "startMs": start_ms,
        "durationMs": took_ms,
        "selfMs": self_ms,
        "failed": False,
        "pod": "",
    }


def latencies(service: str, slots: int) -> dict[str, Any]:
    """A page of the trace process: half minutes of a service, the sixth of which was slow."""
    rows = []
    for k in range(slots):
        slow = 4 if k == 5 else 0
        rows.append(
            {
                "agoS": 30.0 * (slots - k),
                "lengthS": 30.0,
                "requests": 300,
                "errors": 3,
                "p50Ms": 4.0 * 1.2**slow,
                "p95Ms": 12.0 * 1.2**slow,
                "p99Ms": 31.0 * 1.2**slow,
                "bands": [[34 + slow + b, n] for b, n in enumerate((20, 120, 100, 40, 15, 5))],
            }
        )
    return {"service": service, "lowMs": 0.00098, "factor": 1.2712, "slots": rows}


@dataclass
class ConsoleWorld:
    """`with ConsoleWorld() as world:`; what a test puts into `api` is done in the loop, by `do`."""

    pages: dict[str, Any] = field(default_factory=dict)  # of the other processes, by path
    token_file: Path | None = None
    options: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)  # paths with queries that reached them
    has_sources: bool = True

    def __enter__(self) -> ConsoleWorld:
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(patience(60))
        if self._error is not None:
            raise self._error
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(patience(20))
        if self._error is not None:
            raise self._error

    def do(self, what: Callable[[], T]) -> T:
        """Call something in the loop."""

        async def call() -> T:
            return what()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(patience(20))

    def wait(self, holds: Callable[[], bool], within_s: float = WITHIN_S) -> None:
        """Until something holds in the loop."""

        asyncio.run_coroutine_threadsafe(soon("it holds", holds, within_s), self.loop).result()

    @property
    def url(self) -> str:
        """Of the console."""
        return self.process.server.url

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self._error = error
            self._ready.set()

    async def _main(self) -> None:
        self.loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with FakeApi() as self.api:
            self.api.faults.refuse = lambda method, path: 404 if "metrics.k8s.io" in path else 0  # no metrics-server
            sources = HttpServer(self._answer, Address("127.0.0.1", 0))
            await sources.start()
            url = sources.url if self.has_sources else ""
            options = {
                "listen": Address("127.0.0.1", 0),
                "scheduler": lambda: url,
                "traces": lambda: url,
                "credit": url,
                "agents": url,
                "token": BearerToken(self.token_file) if self.token_file is not None else None,
                "login": OneTimeToken(),
                "period_s": 0.5,
                "title": "a test",
                **self.options,
            }
            self.process = ConsoleProcess(
                Access(self.api.url, FixedCredential(Credential(""))), ConsoleOptions(**options)
            )
            running = asyncio.create_task(self.process.run(self._stop))
            self._ready.set()
            await running
            await sources.stop()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = scope["query_string"].decode()
        path = scope["path"]
        self.asked.append(f"{path}?{query}" if query else path)
        found = self.pages.get(self.asked[-1], self.pages.get(path))
        if found is None and path == "/debug/reports":
            found = {}
        if found is None and path.startswith("/apis/v1/nodes/node-"):
            amount = {"resource": "cpu", "allocatable": "32", "requested": "14", "free": "18"}
            found = {"amounts": [amount], "pods": [], "promised": []}
        if found is None and path.startswith("/debug/explain/pods/shop/web-"):
            found = explained(path.removeprefix("/debug/explain/pods/"))
        if found is None:
            await send_answer(send, HttpAnswer(404, b"not known to this scheduler\n"))
        else:
            await send_answer(send, HttpAnswer(200, json.dumps(found).encode()))
