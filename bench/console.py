"""What the console costs: settling a full change, a snapshot, frames for many viewers, and, with Chromium, a frame of
the map.

    python -m bench.console [--nodes 5000] [--tenants 20] [--viewers 200] [--seconds 10] [--no-map] [--json]

The map must stay smooth at 5,000 machines with 20 tenants, and 200 viewers must not cost more than 5 % of a core. CPU
time of this process for the server's side, viewers being plain sockets in a child; in the browser the time of `paint`
as the page itself measures it, while the map is scrolled and zoomed, and the CPU time of the page's process for each
such frame (all of its script, layout and drawing).
Limits: software rendering; the time of a frame depends on what else the machine does, so the least is shown beside the
median.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import select
import shutil
import socket
from collections.abc import Awaitable, Callable, Mapping
from statistics import median
from time import monotonic, process_time
from typing import Any

import numpy as np

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.messages import HttpAnswer, Receive, Scope, Send, send_answer
from cotenant.drivers.http.pages import HealthPages
from cotenant.drivers.http.server import HttpServer
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import PodPhase
from cotenant.model.machine.node_metric import Use
from cotenant.model.resources import Amounts
from cotenant.services.console.access import Sessions, ViewerSession
from cotenant.services.console.app import ConsoleApp
from cotenant.services.console.applications.changing import Changing
from cotenant.services.console.encoding import snapshot
from cotenant.services.console.fleet import MeasuredFleet
from cotenant.services.console.history import SnapshotHistory
from cotenant.services.console.hosts.terminals import Terminals
from cotenant.services.console.live import Live
from cotenant.services.console.pod_rows import CellKind, PodRow
from cotenant.services.console.sources import ConsoleSources

GIB = 1 << 30


def fleet_of(nodes: int, tenants: int) -> MeasuredFleet:
    """A cluster with one pod of each of `tenants` tenants, of 40, on every node."""
    chance, fleet = np.random.default_rng(1), MeasuredFleet()
    sizes = Amounts.of({"cpu": 32_000, "memory": 128 * GIB, "kubernetes.io/batch-cpu": 12_000})
    for n in range(nodes):
        fleet.node_seen(Node(f"node-{n:04d}", sizes, Labels.of({"topology.kubernetes.io/zone": "abc"[n % 3]})))
        cpu = chance.dirichlet(np.ones(tenants)) * 29_000
        for t in range(tenants):
            key = f"bench/pod-{n}-{t}"
            kind = CellKind.BATCH if t % 3 == 0 else CellKind.SERVICE
            tenant = f"tenant-{int(chance.integers(40)):02d}"
            fleet.pod_seen(
                PodRow(
                    key,
                    key,
                    f"node-{n:04d}",
                    tenant,
                    kind,
                    0,
                    int(cpu[t]),
                    0,
                    2 * GIB,
                    PodPhase.RUNNING,
                    0.0,
                    "",
                    "",
                    "",
                    False,
                )
            )
    measure(fleet, chance, 1.0)
    fleet.missing({f"node-{n:04d}": 0.2 for n in range(0, nodes, 50)})
    fleet.recompute()
    return fleet


def measure(fleet: MeasuredFleet, chance: np.random.Generator, share: float) -> None:
    """New measurements of the pods on this share of the nodes."""
    names = [name for name in fleet.order if chance.random() < share]
    pods = {
        key: Use(int(row.cpu_m * chance.random()), GIB) for name in names for key, row in fleet.nodes[name].pods.items()
    }
    fleet.measured({}, pods)


class _Anyone(Sessions):
    async def find(self, scope: Scope) -> ViewerSession | None:
        """Everybody has a session."""
        return ViewerSession(float("inf"))


class _NoQuestions:
    async def answer(self, path: str, raw_query: str) -> HttpAnswer:
        """Nothing is known."""
        return HttpAnswer(200, b'{"snapshots": [], "curves": {"at": []}}')


def served(fleet: MeasuredFleet) -> tuple[Live, HttpServer]:
    """The console's HTTP side over a fleet."""
    sources = ConsoleSources(monotonic)
    live = Live(fleet, sources, monotonic)
    sessions = _Anyone(monotonic, link=None)  # type: ignore[arg-type]
    health, off = HealthPages(lambda: b""), (Terminals(None), Changing())
    app = ConsoleApp(sessions, live, SnapshotHistory(), _NoQuestions(), health, *off)  # type: ignore[arg-type]

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/favicon.ico":
            await send_answer(send, HttpAnswer(204))
        else:
            await app(scope, receive, send)

    return live, HttpServer(answer, Address("127.0.0.1", 0))


def costs(nodes: int, tenants: int) -> dict[str, float]:
    """CPU milliseconds of a full settle and of a snapshot."""
    fleet, chance = fleet_of(nodes, tenants), np.random.default_rng(2)
    measure(fleet, chance, 1.0)
    began = process_time()
    fleet.recompute()
    settled = process_time()
    size = len(snapshot(fleet, 0.0))
    return {
        "settle_all_ms": 1e3 * (settled - began),
        "snapshot_ms": 1e3 * (process_time() - settled),
        "snapshot_kib": size / 1024,
    }


async def viewing(nodes: int, tenants: int, viewers: int, seconds: float) -> dict[str, float]:
    """CPU of this process with viewers at 1 Hz, a tenth of the nodes changing each second, less the same without
    viewers.
    """
    fleet, chance = fleet_of(nodes, tenants), np.random.default_rng(3)
    live, server = served(fleet)
    await server.start()
    shares = []
    size = 0
    for count in (0, viewers):
        child = multiprocessing.get_context("fork").Process(
            target=_read, args=(server.address.port, count, f"{fleet.epoch}-{fleet.seq}", seconds + 3.0), daemon=True
        )
        child.start()
        while live.viewers < count:
            await asyncio.sleep(0.05)
        began, wall = process_time(), monotonic()
        for _ in range(round(seconds)):
            at = fleet.seq
            measure(fleet, chance, 0.1)
            fleet.recompute()
            live.wake()
            size = len(live.frame(fleet.epoch, at))
            await asyncio.sleep(1.0)
        shares.append((process_time() - began) / (monotonic() - wall))
        child.terminate()
        child.join()
        while live.viewers:
            await asyncio.sleep(0.05)
    await server.stop()
    return {
        "frame_kib": size / 1024,
        "core_share_without_viewers": shares[0],
        "core_share_of_viewers": shares[1] - shares[0],
    }


def _read(port: int, count: int, position: str, seconds: float) -> None:
    opened = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(f"GET /api/events?since={position} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        opened.append(connection)
    until = monotonic() + seconds
    while opened and monotonic() < until:
        for entry in select.select(opened, [], [], 0.2)[0]:
            entry.recv(1 << 20)


async def frames(nodes: int, tenants: int) -> dict[str, float] | None:
    """Milliseconds of `paint` in Chromium; None without it."""
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        return None
    chromium = shutil.which("chromium")
    if chromium is None:
        return None
    _, server = served(fleet_of(nodes, tenants))
    await server.start()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1600, "height": 900})
        await page.goto(server.url)
        await page.wait_for_function("performance.getEntriesByName('paint').length > 0")
        processes = await browser.new_browser_cdp_session()
        found: dict[str, list[float]] = {}
        cpu_s: dict[str, float] = {}
        for name, act in _ACTS.items():
            await page.evaluate("performance.clearMeasures('paint')")
            began_s = await _renderer_cpu_s(processes)
            await act(page)
            cpu_s[name] = await _renderer_cpu_s(processes) - began_s
            found[name] = await page.evaluate("performance.getEntriesByName('paint').map((each) => each.duration)")
        await browser.close()
    await server.stop()
    painted = {name: times for name, times in found.items() if times}
    return {
        f"{name}_{what}_ms": of(times)
        for name, times in painted.items()
        for what, of in (("least", min), ("median", median))
    } | {f"{name}_cpu_of_a_frame_ms": 1e3 * cpu_s[name] / len(times) for name, times in painted.items()}


async def _renderer_cpu_s(processes: Any) -> float:
    """CPU seconds of the browser's renderers so far: script, layout and drawing."""
    found = await processes.send("SystemInfo.getProcessInfo")
    return float(sum(entry["cpuTime"] for entry in found["processInfo"] if entry["type"] == "renderer"))


async def _zoom(page: Any) -> None:
    for key in ("+", "+", "+", "-", "-", "-") * 3:
        await page.keyboard.press(key)
        await page.wait_for_timeout(30)


async def _pan(page: Any) -> None:
    for _ in range(4):
        await page.keyboard.press("+")
    for k in range(30):
        await page.evaluate(f"document.querySelector('[data-map]').scrollTop = {k * 37}")
        await page.wait_for_timeout(20)


_ACTS: dict[str, Callable[[Any], Awaitable[None]]] = {"zoom": _zoom, "pan": _pan}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--tenants", type=int, default=20)
    parser.add_argument("--viewers", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--no-map", action="store_true", help="start no browser")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found: dict[str, object] = {
        "bench": "console",
        "nodes": asked.nodes,
        "tenants": asked.tenants,
        "viewers": asked.viewers,
    }
    found |= costs(asked.nodes, asked.tenants)
    found |= asyncio.run(viewing(asked.nodes, asked.tenants, asked.viewers, asked.seconds))
    of_map: Mapping[str, object] | None = None if asked.no_map else asyncio.run(frames(asked.nodes, asked.tenants))
    found |= of_map or {"map": "not measured: no Chromium, no Playwright, or --no-map"}
    shown = {key: round(value, 3) if isinstance(value, float) else value for key, value in found.items()}
    name = shown.pop("bench")
    print(
        json.dumps({"bench": name, "rows": [shown]})
        if asked.json
        else "\n".join(f"{key:28} {value}" for key, value in shown.items())
    )


if __name__ == "__main__":
    main()
