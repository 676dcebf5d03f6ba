"""The API server's core without HTTP: writes per second, CPU per write, memory when full, and watch fan-out, in one
process.

Pods of about 3 KB take the whole write path (schemas, defaults, admission, managed fields, history, SQLite) from their
decoded JSON; each figure is one phase of one run: create the nodes, create the pods, bind them, then more creates with
watchers attached. CPU is that of the process (commits included), memory the growth of its resident set and its peak.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bench.machine import peak_memory_mib, show
from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.assembly import assemble
from cotenant_local.apiserver.contract import ListOptions, RequestTarget, WriteOptions
from cotenant_local.apiserver.storage.sqlite import Database
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.verbs.api import WatchStream

IN_FLIGHT = 32
MANAGER = WriteOptions(manager="bench")


def a_pod(name: str) -> bytes:
    """A pod as created by a Deployment, 2 to 3 KB with defaults and managed fields."""
    containers = [
        {
            "name": f"c{at}",
            "image": "registry.example.com/team/service:1.2.3",
            "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}, "limits": {"memory": "500Mi"}},
            "env": [{"name": f"SETTING_{setting}", "value": "x" * 16} for setting in range(4)],
            "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        }
        for at in range(2)
    ]
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "service", "pod-template-hash": "5d4f8c7b9"}},
            "spec": {"containers": containers, "schedulerName": "cotenant"},
        }
    )


def a_node(name: str) -> bytes:
    """A minimal node."""
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "z1"}},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
    )


async def in_flight(calls: Iterator[Callable[[], Awaitable[Any]]]) -> None:
    """Run calls, `IN_FLIGHT` at a time."""

    async def worker() -> None:
        for call in calls:
            await call()

    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))


async def phase(count: int, calls: Iterator[Callable[[], Awaitable[Any]]]) -> dict[str, float]:
    """Writes per second and CPU per write."""
    wall, cpu = time.perf_counter(), time.process_time()
    await in_flight(calls)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"per_s": round(count / wall), "cpu_us": round(cpu / count * 1e6, 1)}


def resident_mib() -> float:
    """The current resident set."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


async def read_all(watch: WatchStream, wanted: int) -> int:
    """Read until `wanted` events have come; returns their bytes."""
    events = size = 0
    while events < wanted:
        chunk = await watch.chunk()
        events += chunk.count(b"\n")
        size += len(chunk)
    return size


async def measure(directory: Path | None, nodes: int, pods: int, watchers: int, fsync: bool) -> dict[str, Any]:
    store = Store(None if directory is None else Database(directory, fsync=fsync))
    api = assemble(store, rng=random.Random(1))
    await api.bootstrap()
    before = resident_mib()
    at_pods, at_nodes = api.target("", "pods", "default"), api.target("", "nodes")

    async def post(target: RequestTarget, raw: bytes) -> None:
        await api.create(target, msgspec.json.decode(raw), MANAGER)

    def creates(first: int, count: int) -> Iterator[Callable[[], Awaitable[Any]]]:
        for at in range(first, first + count):
            raw = a_pod(f"service-5d4f8c7b9-{at:06d}")
            yield partial(post, at_pods, raw)

    def binds() -> Iterator[Callable[[], Awaitable[Any]]]:
        for at in range(pods):
            name = f"service-5d4f8c7b9-{at:06d}"
            target = api.target("", "pods", "default", name, "binding")
            body: Manifest = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": {"kind": "Node", "name": f"n{at % max(1, nodes)}"},
            }
            yield partial(api.create, target, body, MANAGER)

    made = await phase(nodes, (partial(post, at_nodes, a_node(f"n{at}")) for at in range(nodes)))
    created = await phase(pods, creates(0, pods))
    bound = await phase(pods, binds())
    full = resident_mib()
    listed = time.process_time()
    page = await api.list(at_pods)
    size = sum(len(item.raw) for item in page.items)
    listed = time.process_time() - listed
    some = min(pods, 2_000)
    options = ListOptions(resource_version=str(store.revision), labels="app=service")
    watches = [api.watch(at_pods, options) for _ in range(watchers)]
    reading = asyncio.gather(*(read_all(watch, some) for watch in watches))
    fanned = await phase(some, creates(pods, some))
    cpu = time.process_time()
    sent = await reading
    fanned["drain_cpu_us"] = round((time.process_time() - cpu) / some * 1e6, 1)
    slow = sum(watch.was_slow for watch in watches)
    del page
    await api.close()
    return {
        "nodes": nodes,
        "pods": pods,
        "pod_bytes": round(size / max(1, pods)),
        "storage": "memory" if directory is None else "sqlite, fsync" if fsync else "sqlite",
        "node_creates": made,
        "pod_creates": created,
        "binds": bound,
        "list_us_per_pod": round(listed / max(1, pods) * 1e6, 2),
        "resident_mib": round(full),
        "growth_mib": round(full - before),
        "peak_mib": round(peak_memory_mib()),
        "watchers": watchers,
        "creates_watched": fanned,
        "watched_mib": round(sum(sent) / 2**20),
        "cut_off": slow,
    }


def reopen(directory: Path) -> dict[str, float]:
    """Time to open a full directory."""
    wall = time.perf_counter()

    async def main() -> float:
        store = Store(Database(directory))
        took = time.perf_counter() - wall
        await store.close()
        return took

    return {"reopen_s": round(asyncio.run(main()), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--watchers", type=int, default=50)
    parser.add_argument("--storage", choices=("sqlite", "fsync", "memory"), default="sqlite")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as at:
        directory = None if given.storage == "memory" else Path(at)
        row = asyncio.run(measure(directory, given.nodes, given.pods, given.watchers, given.storage == "fsync"))
        if directory is not None:
            row |= reopen(directory)
    show([row], given.json)


if __name__ == "__main__":
    main()
