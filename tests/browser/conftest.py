"""A real browser on a console with a small cluster. Skipped, with the reason, where there is no Chromium or no
Playwright.

Every page of these tests fails its test where the browser reports a violation of the Content-Security-Policy, an
uncaught error, or a dialog.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.fakes.processes.acting_objects import lending_pool
from tests.fakes.processes.console_objects import (
    SORT,
    WEB,
    agent_pages,
    credit_pages,
    gang,
    lab_folder,
    move,
    profile,
    reservations,
    topology,
)
from tests.fakes.processes.console_world import (
    HOSTILE,
    TOKEN,
    ZONE,
    ConsoleWorld,
    explained,
    latencies,
    objective,
    quota,
    span,
    waiting,
)
from tests.fakes.waiting import Bound, becomes, patience

from cotenant.model.groups.migration import JobPhase

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 400, "height": 800}
ACTION_MS = 30_000  # of a quiet machine: only a hang reaches it
SERVICE = {"cotenant.io/objective-p99-ms": "20"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser" in item.nodeid:
            item.add_marker(pytest.mark.slow)


def _fill(world: ConsoleWorld) -> None:
    api = world.api
    for k in range(6):
        name = f"node-{k}"
        status = {
            "allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110", "kubernetes.io/batch-cpu": "12000"},
            "conditions": [{"type": "Ready", "status": "False" if k == 5 else "True"}],
        }
        labels = {"kubernetes.io/hostname": name, ZONE: "ab"[k % 2], "note": HOSTILE[:3] if k == 0 else "plain"}
        api.put("nodes", {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status})
        for p in range(4):
            tenant = HOSTILE if (k, p) == (0, 0) else f"team-{p}"
            api.put(
                "pods",
                {
                    "metadata": {
                        "name": f"web-{k}-{p}",
                        "namespace": "shop",
                        "annotations": {"cotenant.io/tenant": tenant, **(SERVICE if p == 0 else {})},
                        "labels": {"pod-group.scheduling.sigs.k8s.io": "ring"} if (k, p) == (1, 3) else {},
                    },
                    "spec": {
                        "schedulerName": "cotenant",
                        "nodeName": name,
                        "containers": [{"name": "c", "resources": {"requests": {"cpu": str(2 + p), "memory": "4Gi"}}}],
                    },
                    "status": {"phase": "Running"},
                },
            )
    for name in ("too-large", HOSTILE):
        api.put(
            "pods",
            {
                "metadata": {"name": name, "namespace": "shop"},
                "spec": {
                    "schedulerName": "cotenant",
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": "64", "memory": "1Gi"}}}],
                },
                "status": {"phase": "Pending"},
            },
        )
    for k in range(5):
        api.put("noderesourcetopologies", topology(f"node-{k}", 1 + k % 2))
    amounts = {"cpu": "18", "memory": "40Gi"}
    for k in range(6):
        pods = [
            {
                "name": f"web-{k}-{p}",
                "namespace": "shop",
                "podUsage": {"resources": {"cpu": f"{1 + p}", "memory": "2Gi"}},
            }
            for p in range(4)
        ]
        pods[0]["extensions"] = {"cotenant": {"latencyP99Ms": 35.0 if k == 1 else 9.0}}
        part = {
            "updateTime": datetime.fromtimestamp(world.process.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "nodeMetric": {"nodeUsage": {"resources": amounts}},
            "podsMetric": pods,
        }
        lasts = {"metricCollectPolicy": {"reportIntervalSeconds": 86_400}}  # as long as the cases take
        api.put("nodemetrics", {"metadata": {"name": f"node-{k}"}, "spec": lasts, "status": part})
    for entry in (
        move("move-done", "shop/web-1-1", JobPhase.SUCCEEDED, helped="True"),
        move("move-planned", f"shop/{HOSTILE}", reason=HOSTILE, trigger=HOSTILE),
        move("move-failed", "shop/web-1-2", JobPhase.FAILED, status_reason="Timeout", message=HOSTILE),
    ):
        api.put("podmigrationjobs", entry)
    now_s = world.process.now()
    for k in range(180):
        bump = 26.0 if 80 <= k <= 100 else 0.0
        world.process.latencies.seen(now_s - 1800 + 10 * k, {"shop/web-1-0": 8.0 + k % 7 + bump, HOSTILE: 1.0})
    api.put("poollendings", lending_pool("cluster", HOSTILE))
    for name, values in (("web", WEB), ("sort", SORT), (HOSTILE, {})):
        api.put("workloadprofiles", profile("shop", name, values))


def _pages() -> dict[str, Any]:
    big = "/debug/explain/pods/shop/too-large"
    why = waiting("0/6 nodes are available: 6 Insufficient cpu.", "ask for 24 cpu instead of 64: 6 nodes fit then")
    hostile = waiting(f"reason {HOSTILE}", f"help {HOSTILE}")
    candidate = {
        "node": "node-1",
        "score": -2.5,
        "parts": [{"name": "services", "value": -3.0}, {"name": "spread", "value": 0.5}],
    }
    cpus = {str(k): {"cpuID": k, "coreID": k // 2, "nodeID": k // 8, "socketID": 0} for k in range(16)}
    return {
        **credit_pages(HOSTILE),
        **agent_pages("node-1", "shop/web-1-0", "shop/web-1-1", HOSTILE, "Job shop/sorts"),
        big: explained(
            "shop/too-large", node="", state="unschedulable", headline="it waits: no node has 64 cpu", waiting=why
        ),
        f"{big}?if=cpu%3D24": explained(
            "shop/too-large", node="", supposed="cpu 24", headline="with cpu 24 it would be placed on node-2"
        ),
        f"{big}?if=selector.disk%3Dssd": explained(
            "shop/too-large",
            node="",
            supposed="node selector disk=ssd",
            headline="with node selector disk=ssd it would be placed on node-3",
        ),
        f"{big}?if=cpu=24": explained(
            "shop/too-large", node="", supposed="cpu 24", headline="with cpu 24 it would be placed on node-2"
        ),
        f"/debug/explain/pods/shop/{HOSTILE}": explained(f"shop/{HOSTILE}", node="", headline=HOSTILE, waiting=hostile),
        "/debug/explain/pods/shop/web-1-0": explained("shop/web-1-0", node="node-1", candidates=[candidate]),
        "/apis/v1/plugins/ElasticQuota/quotas": [
            quota("research", 20_000, 30_000, 32_000, children=()),
            quota("shop", 40_000, 10_000, 25_000),
            quota(HOSTILE, 10_000, 5_000, 10_000),
        ],
        "/apis/v1/plugins/NodeNUMAResource/cpuTopologyOptions/node-1": {
            "cpuTopology": {"numCPUs": 16, "numNodes": 2, "cpuDetails": cpus},
            "reserved": {"system": "0"},
        },
        "/apis/v1/plugins/NodeNUMAResource/availableCPUs/node-1": {
            "availableCPUs": "4-15",
            "allocated": [{"pod": "shop/web-1-0", "cpus": "1-3"}],
        },
        "/apis/v1/plugins/Coscheduling/gang/shop/ring": gang("shop/ring", ("shop/web-1-3", HOSTILE)),
        "/apis/v1/plugins/Reservation/nodeReservations/node-1": reservations("kept", HOSTILE),
        "/api/v1/services": {
            "windowS": 60.0,
            "operations": [
                {
                    "service": name,
                    "operation": "GET /",
                    "kind": "server",
                    "requests": 600,
                    "perSecond": 10.0,
                    "errors": 6,
                    "p50Ms": 4.0,
                    "p95Ms": 12.0,
                    "p99Ms": 31.0,
                }
                for name in ("front", "cart", HOSTILE)
            ],
        },
        "/api/v1/graph": [
            {"client": "front", "server": "cart", "connection": "", "calls": 100, "failed": 0},
            {"client": "front", "server": HOSTILE, "connection": "", "calls": 10, "failed": 1},
        ],
        "/api/v1/traces": {
            "kept": 1,
            "traces": [
                {
                    "traceId": "ab12",
                    "service": "front",
                    "operation": HOSTILE,
                    "startNs": 1,
                    "durationMs": 40.0,
                    "spans": 2,
                    "services": 2,
                    "failed": True,
                    "partial": False,
                }
            ],
        },
        "/api/v1/traces/ab12": {
            "traceId": "ab12",
            "startNs": 1,
            "durationMs": 40.0,
            "spans": [span(-1, "front", 0, 40, 10), span(0, "cart", 5, 30, 30)],
        },
        "/api/v1/stories": [],
        "/api/v1/objectives": [objective("shop/front", 14.4)],
        "/api/v1/objectives/shop/front": objective("shop/front", 14.4),
        "/api/v1/sketch": latencies("shop/front", 40),
        "/api/v1/critical": {
            "service": "front",
            "requests": 1,
            "meanMs": 40.0,
            "path": [{"service": "cart", "operation": "GET /", "share": 0.75, "meanMs": 30.0}],
        },
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    path = tmp_path_factory.mktemp("console") / "token"
    path.write_text(TOKEN)
    lab_folder(path.parent / "lab", ("cotenant", "kube-default", HOSTILE), seeds=2)
    with ConsoleWorld(pages=_pages(), token_file=path, options={"results": path.parent / "lab"}) as running:
        running.do(lambda: _fill(running))
        fleet = running.process.fleet
        running.wait(
            lambda: len(fleet.pods) == 26 and fleet.totals().used_m == 6 * 18_000 and fleet.totals().burning == 1
        )
        yield running


# Once for the folder, and no longer: while Playwright runs, no other case of this process can use asyncio.run.
@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: pip install playwright"
    )
    if not CHROMIUM:
        pytest.skip("there is no Chromium on this machine: on Debian, apt-get install chromium")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=patience(ACTION_MS))
        yield browser
        browser.close()


class Tab:
    """A page with a session. `page` is Playwright's."""

    def __init__(self, browser: Any, world: ConsoleWorld, session: Any = None, **options: Any) -> None:
        """`session`: the cookies of an earlier log-in; None = log in by the form."""
        self.world, self.problems = world, []
        if session is not None:
            options["storage_state"] = session
        self.context = browser.new_context(viewport=WIDE, locale="en-US", **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(patience(ACTION_MS))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.problems.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("console", self._said)
        if session is None:
            self.page.goto(f"{world.url}/login")
            self.page.fill("#token", TOKEN)
            self.page.click("button")
        else:
            self.page.goto(world.url)
        self.page.wait_for_selector("[data-map]")

    problems: list[str]
    # the test opens what is not there: refused questions, which Chromium reports whenever they come, are no problem
    asks_in_vain = False

    def open(self, view: str) -> Any:
        """Open a view by its address."""
        self.page.goto(f"{self.world.url}/#/{view}")
        return self.page

    def until(self, expression: str, timeout_s: float = 20.0) -> None:
        """Wait until a JavaScript expression is true.

        Playwright's `wait_for_function` evaluates a string inside the page when the first try is false, which the
        page's Content-Security-Policy forbids; `evaluate` goes through the debugger.
        """
        bound = Bound(timeout_s)
        while not self.page.evaluate(expression):
            assert not bound.reached(), f"not true after {timeout_s:g} s: {expression}"
            self.page.wait_for_timeout(50)

    def counts(self, selector: str, count: int) -> None:
        """Wait until so many elements are there."""
        becomes(selector, self.page.locator(selector).count, count)

    def at(self, part: str) -> None:
        """Wait until the address has this in it. `page.url` follows by an event, after what is drawn."""
        self.until(f"location.href.includes({json.dumps(part)})")

    def size(self, size: dict[str, int]) -> None:
        """Change the window's size."""
        self.page.set_viewport_size(size)

    def _said(self, message: Any) -> None:
        if message.type == "error" or "Content Security Policy" in message.text:
            self.problems.append(message.text)


@pytest.fixture(scope="module")
def session(chromium: Any, world: ConsoleWorld) -> Any:
    """Cookies after a log-in."""
    first = Tab(chromium, world)
    kept = first.context.storage_state()
    first.context.close()
    return kept


@pytest.fixture
def tab(chromium: Any, world: ConsoleWorld, session: Any) -> Iterator[Tab]:
    opened = Tab(chromium, world, session)
    yield opened
    problems = opened.problems
    if folder := os.environ.get("CONSOLE_SHOTS"):
        opened.page.screenshot(path=f"{folder}/{os.environ['PYTEST_CURRENT_TEST'].split('::')[-1].split(' ')[0]}.png")
    opened.context.close()
    if opened.asks_in_vain:
        problems = [problem for problem in problems if "Failed to load resource" not in problem]
    assert problems == []
