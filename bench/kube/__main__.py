"""A scheduler and an API server under load: pods bound per second, CPU per pod of each process, and the time from
created to bound.

    python -m bench.kube prefilled|live|creates|binds|fanout|memory [options]

Without `--kubeconfig` it starts a local server (in memory), with it it uses the given server; then `--processes` names
the processes whose CPU is counted. `prefilled`: nodes and pods exist before the scheduler starts. `live`: pods are
created at `--rate` per second with the scheduler running. `creates`, `binds`, `fanout` and `memory` load the server
only. The creator, the watcher and the server share this machine's cores, so ratios within one run are more meaningful
than absolute figures.

Reference, the same machine kind, kube-scheduler v1.36 on a real server, qps 5000: 417-435 pods/s and 2.3-3.1 ms of
scheduler CPU per pod at 5,000 nodes and 5,000 pods. Goals: 1,000 pods/s and 0.6 ms; p99 of created to bound 200 ms at
300/s; 2,000 creates/s and 1,000 binds/s.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from bench.kube.children import child, local_server
from bench.kube.load import Bindings, Server, create, node, pod, session, watch
from bench.kube.measuring import PODS, STALLED_S, Meter, all_bound, bind_plainly, rates
from bench.kube.processes import find, usage
from bench.machine import show

CASES = ("prefilled", "live", "creates", "binds", "fanout", "memory")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.kube", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", nargs="?", choices=CASES, default="prefilled")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--rate", type=float, default=300.0, help="pods created per second (live)")
    parser.add_argument("--watchers", type=int, default=50, help="watches of all pods (fanout)")
    parser.add_argument("--profile", default="cotenant-requests")
    parser.add_argument("--qps", type=float, default=5000.0)
    parser.add_argument("--binds-in-flight", type=int, default=16)
    parser.add_argument("--kubeconfig", type=Path, help="a running API server, which should be empty")
    parser.add_argument("--processes", default="", help="comma-separated names of processes whose CPU is counted too")
    parser.add_argument("--scheduler-name", default="cotenant", help="schedulerName of the pods")
    parser.add_argument(
        "--scheduler-command", default="", help="another scheduler to run: its command, which must not fork"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, _server(given, Path(folder)) as (kubeconfig, watched):
        row = asyncio.run(_CASE[given.case](given, kubeconfig, watched, Path(folder)))
    show(
        [{"case": given.case, "nodes": given.nodes, "pods": given.pods} | row], given.json, (f"{os.cpu_count()} cores",)
    )


@contextmanager
def _server(given: argparse.Namespace, folder: Path) -> Iterator[tuple[Path, dict[str, int]]]:
    """A kubeconfig, and the server's processes (name -> pid)."""
    named = {name: find(name) for name in given.processes.split(",") if name}
    if given.kubeconfig is not None:
        yield given.kubeconfig, named
        return
    with local_server(folder) as (kubeconfig, pid):
        yield kubeconfig, named | {"apiserver": pid}


@contextmanager
def _scheduler(given: argparse.Namespace, kubeconfig: Path, folder: Path) -> Iterator[dict[str, int]]:
    command = shlex.split(given.scheduler_command) or [
        *(sys.executable, "-m", "cotenant", "scheduler", "--kubeconfig", str(kubeconfig), "--profile", given.profile),
        *("--no-leader-elect", "--qps", str(given.qps), "--burst", str(given.qps), "--listen", "127.0.0.1:0"),
        *("--binds-in-flight", str(given.binds_in_flight)),
    ]
    with child(command, folder / "scheduler.log") as process:
        yield {"scheduler": process.pid}


async def _prefilled(
    given: argparse.Namespace, kubeconfig: Path, watched: dict[str, int], folder: Path
) -> dict[str, Any]:
    async with session(Server.of(kubeconfig)) as http:
        await create(http, "/api/v1/nodes", node, range(given.nodes))
        await create(http, PODS, lambda n: pod(n, given.scheduler_name), range(given.pods))
        bindings = Bindings()
        watcher = asyncio.create_task(watch(http, bindings, PODS))
        await asyncio.sleep(0.5)
        meter = Meter(watched)
        with _scheduler(given, kubeconfig, folder) as scheduler:
            await all_bound(bindings, 1, folder / "scheduler.log")
            bound, binding = len(bindings.at), Meter(scheduler)
            await all_bound(bindings, given.pods, folder / "scheduler.log")
            # The whole run (imports, the lists), and from the first binding on.
            cost = {f"{name}_cpu_s_in_all": round(usage(pid).cpu_s, 2) for name, pid in scheduler.items()}
            figures = binding.read(given.pods - bound) | meter.read(given.pods)
        watcher.cancel()
    return rates(bindings) | cost | figures | {"qps": given.qps, "in_flight": given.binds_in_flight}


async def _live(given: argparse.Namespace, kubeconfig: Path, watched: dict[str, int], folder: Path) -> dict[str, Any]:
    async with session(Server.of(kubeconfig)) as http:
        await create(http, "/api/v1/nodes", node, range(given.nodes))
        bindings = Bindings()
        watcher = asyncio.create_task(watch(http, bindings, PODS))
        with _scheduler(given, kubeconfig, folder) as scheduler:
            warm = 200  # the first pods arrive while the scheduler still starts; they are not counted
            await create(http, PODS, lambda n: pod(n, given.scheduler_name), range(warm))
            await all_bound(bindings, warm, folder / "scheduler.log")
            meter, created = Meter(watched | scheduler), dict[int, float]()
            numbers = range(warm, warm + given.pods)
            await create(http, PODS, lambda n: pod(n, given.scheduler_name), numbers, per_s=given.rate, created=created)
            await all_bound(bindings, warm + given.pods, folder / "scheduler.log")
            figures = meter.read(given.pods)
        watcher.cancel()
    waits = np.array([bindings.at[n] - created[n] for n in numbers]) * 1000
    return {
        "offered_per_s": given.rate,
        "created_to_bound_p50_ms": round(float(np.median(waits)), 1),
        "created_to_bound_p99_ms": round(float(np.quantile(waits, 0.99)), 1),
        "bound_per_s": rates(bindings)["bound_per_s"],
    } | figures


async def _creates(given: argparse.Namespace, kubeconfig: Path, watched: dict[str, int], _: Path) -> dict[str, Any]:
    async with session(Server.of(kubeconfig)) as http:
        await create(http, PODS, pod, range(200))
        meter = Meter(watched)
        elapsed_s = await create(http, PODS, pod, range(200, 200 + given.pods))
        return {"creates_per_s": round(given.pods / elapsed_s)} | meter.read(given.pods)


async def _binds(given: argparse.Namespace, kubeconfig: Path, watched: dict[str, int], _: Path) -> dict[str, Any]:
    """Binds sent by this client, `--binds-in-flight` at a time: the server's limit without the cost of a scheduler."""
    async with session(Server.of(kubeconfig)) as http:
        await create(http, "/api/v1/nodes", node, range(given.nodes))
        await create(http, PODS, pod, range(given.pods))
        meter = Meter(watched)
        elapsed_s = await bind_plainly(http, given.pods, given.nodes, given.binds_in_flight)
        return {"binds_per_s": round(given.pods / elapsed_s), "in_flight": given.binds_in_flight} | meter.read(
            given.pods
        )


async def _fanout(given: argparse.Namespace, kubeconfig: Path, watched: dict[str, int], _: Path) -> dict[str, Any]:
    """Every watcher must see every pod; delivery ends with the last."""
    async with session(Server.of(kubeconfig), connections=given.watchers + 64) as http:
        seen = [Bindings() for _ in range(given.watchers)]
        watchers = [asyncio.create_task(watch(http, bindings, PODS)) for bindings in seen]
        await asyncio.sleep(1.0)
        meter, begin = Meter(watched), perf_counter()
        elapsed_s = await create(http, PODS, pod, range(given.pods))
        while any(bindings.events < given.pods for bindings in seen):
            await asyncio.sleep(0.01)
            if perf_counter() - begin > elapsed_s + STALLED_S:
                raise SystemExit(f"bench.kube: a watcher saw {min(e.events for e in seen)} of {given.pods} events")
        delivered_s = perf_counter() - begin
        for task in watchers:
            task.cancel()
        return {
            "watchers": given.watchers,
            "creates_per_s": round(given.pods / elapsed_s),
            "events_per_s": round(given.watchers * given.pods / delivered_s),
            "last_event_behind_ms": round((delivered_s - elapsed_s) * 1000),
        } | meter.read(given.pods)


async def _memory(given: argparse.Namespace, kubeconfig: Path, watched: dict[str, int], _: Path) -> dict[str, Any]:
    async with session(Server.of(kubeconfig)) as http:
        meter = Meter(watched)
        nodes_s = await create(http, "/api/v1/nodes", node, range(given.nodes))
        pods_s = await create(http, PODS, pod, range(given.pods))
        begin = perf_counter()
        async with http.get(PODS, params={"limit": "500"}) as answer:
            size = len(await answer.read())
        page_ms = (perf_counter() - begin) * 1000
        return {
            "nodes_per_s": round(given.nodes / nodes_s),
            "creates_per_s": round(given.pods / pods_s),
            "page_of_500_ms": round(page_ms, 1),
            "bytes_per_pod": size // 500,
        } | meter.read(given.nodes + given.pods)


_CASE = {
    "prefilled": _prefilled,
    "live": _live,
    "creates": _creates,
    "binds": _binds,
    "fanout": _fanout,
    "memory": _memory,
}

if __name__ == "__main__":
    main()
