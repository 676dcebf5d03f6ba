"""What each process of an installation needs at a size of cluster: CPU to start, memory, CPU for a pod, and CPU for the
nodes' measurements.

    nice python -m bench.capacity [--sizes 100x1000,1000x10000,5000x50000] [--seconds 30] [--json]

The requests of a deployment are a guess unless somebody measured. All processes run at once against a local API server
that has the nodes and pods already, as after an upgrade. `start_cpu_s` is what they used until nothing was left to do;
`rss_mib` and `peak_mib` are resident memory then and at its highest, `heap_mib` the C heap in use where the process
tells it. Then pods are created for the scheduler (`cpu_ms_pod`, of every process that watches them; the webhook reviews
them), and for `--seconds` each node's NodeMetric is written as often as agents do, once a minute (`metrics_cores`,
without what an idle process uses: `idle_cores`). CPU time and memory are little changed by other load on the machine;
`request_mib` is the peak and a quarter, in steps of 32.
Limits: pods of one container without volumes or affinity; pods that run are bound and have no status; no questions to
console and traces, no reports, no spans; for agents see `bench.agent`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from bench.churn import HEAP_IN_USE
from bench.kube.children import child, local_server
from bench.kube.load import Bindings, Server, create, node, pod, session, watch
from bench.kube.processes import usage
from bench.machine import show
from cotenant.drivers.http.ports import free_port
from cotenant.drivers.kube.kinds.custom.definitions import manifests

PODS = "/api/v1/namespaces/default/pods"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
CREATED = 1000  # pods that are created with the processes running
SAMPLES = 20  # by which a process is said to wait
SETTLED_S = 600.0
STEP_MIB = 32
PARTS = {
    "scheduler": ("scheduler", "--state-dir=", "--no-leader-elect", "--qps=5000", "--burst=5000"),
    "manager": ("manager", "--state-dir=", "--no-leader-elect"),
    "rebalancer": ("rebalancer", "run", "--state-dir=", "--no-leader-elect", "--interval-s=30"),
    "webhook": ("webhook", "--namespace=default", "--register"),
    "extender": ("extender", "--cluster"),
    "console": ("console", "--login-file={folder}/login"),
    "credit": ("credit", "serve", "--store={folder}/credit.db", "--state-dir=", "--no-leader-elect"),
    "traces": ("traces", "--cluster", "--grpc="),
}


@dataclass(frozen=True, slots=True)
class Part:
    """A running process."""

    name: str
    pid: int
    url: str
    log: Path

    def peak_mib(self) -> float:
        """The largest resident size so far."""
        found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text(), re.MULTILINE)
        return int(found[1]) / 1024 if found else 0.0

    def is_waiting(self) -> bool:
        """Whether no thread runs or wants to: on a busy machine a process that waits for a processor is not done."""
        threads = Path(f"/proc/{self.pid}/task").iterdir()
        return all((thread / "stat").read_text().rpartition(")")[2].split()[0] == "S" for thread in threads)


@contextmanager
def running(name: str, kubeconfig: Path, folder: Path) -> Iterator[Part]:
    """A process of ours that is ready."""
    port, log = free_port(), folder / f"{name}.log"
    listen = "--http" if name == "traces" else "--listen"
    words = [entry.format(folder=folder) for entry in PARTS[name]]
    command = [sys.executable, "-m", "cotenant", *words, f"--kubeconfig={kubeconfig}", f"{listen}=127.0.0.1:{port}"]
    with child(command, log) as process:
        yield Part(name, process.pid, f"{'https' if name == 'webhook' else 'http'}://127.0.0.1:{port}", log)


async def _page(http: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    try:
        async with http.get(url) as answer:
            return answer.status, await answer.text()
    except aiohttp.ClientError:
        return 0, ""


def _bound(number: int, nodes: int) -> bytes:
    """A pod of the cluster as it was: on a node, by another scheduler."""
    made = json.loads(pod(number, "default-scheduler"))
    made["metadata"]["name"] = f"old-{number}"
    made["spec"]["nodeName"] = f"node-{number % nodes:05d}"
    return json.dumps(made).encode()


def _status(number: int) -> bytes:
    """A node's measurement: half a core more or less of its 32, and 64 GiB."""
    cpu = {"cpu": f"{8000 + number * 37 % 500}m", "memory": "64Gi"}
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    status = {"updateTime": now, "nodeMetric": {"nodeUsage": {"resources": cpu}}, "podsMetric": []}
    return json.dumps({"status": status}).encode()


async def _fill(http: aiohttp.ClientSession, nodes: int, pods: int) -> None:
    """Kinds, nodes, pods that run, and a manager's ConfigMap that lends."""
    for _, text in manifests():
        async with http.post(CRDS, data=msgspec.json.encode(msgspec.yaml.decode(text))) as answer:
            assert answer.status < 300, await answer.text()
    await asyncio.sleep(1.0)
    async with http.post("/api/v1/namespaces", data=b'{"metadata": {"name": "koordinator-system"}}'):
        pass
    data = {"colocation-config": json.dumps({"enable": True})}
    config = {"metadata": {"name": "slo-controller-config"}, "data": data}
    async with http.post("/api/v1/namespaces/koordinator-system/configmaps", data=json.dumps(config).encode()):
        pass
    await create(http, "/api/v1/nodes", node, range(nodes))
    await create(http, PODS, lambda n: _bound(n, nodes), range(pods - CREATED))


async def _settled(parts: list[Part]) -> None:
    """Until each process has waited in most of the last samples: work of its own period may be under way in some."""
    seen: dict[str, deque[bool]] = {entry.name: deque(maxlen=SAMPLES) for entry in parts}
    end = time.monotonic() + SETTLED_S
    while not all(sum(entry) > SAMPLES / 2 for entry in seen.values()):
        if time.monotonic() > end:
            busy = [name for name, entry in seen.items() if sum(entry) <= SAMPLES / 2]
            raise SystemExit(f"bench.capacity: not settled after {SETTLED_S:g} s: {', '.join(busy)}")
        for part in parts:
            seen[part.name].append(part.is_waiting())
        await asyncio.sleep(0.1)


def _cpu(parts: list[Part]) -> dict[str, float]:
    return {part.name: usage(part.pid).cpu_s for part in parts}


async def _measure_nodes(http: aiohttp.ClientSession, nodes: int, seconds: float) -> None:
    """Write statuses of NodeMetrics at the rate of agents."""
    begin, headers = time.monotonic(), {"Content-Type": "application/merge-patch+json"}
    for number in range(int(nodes * seconds / 60)):
        await asyncio.sleep(max(0.0, begin + number * 60 / nodes - time.monotonic()))
        path = f"{METRICS}/node-{number % nodes:05d}/status"
        async with http.patch(path, data=_status(number), headers=headers) as answer:
            if answer.status >= 300:
                raise SystemExit(f"bench.capacity: {path}: {answer.status} {(await answer.text())[:300]}")
    await asyncio.sleep(max(0.0, begin + seconds - time.monotonic()))


async def _all_measured(http: aiohttp.ClientSession, nodes: int) -> None:
    """Until the manager, which writes at a limited rate, has made the NodeMetric of each node."""
    end = time.monotonic() + SETTLED_S
    found = -1
    while found < nodes:
        if time.monotonic() > end:
            raise SystemExit(f"bench.capacity: {found} of {nodes} NodeMetrics after {SETTLED_S:g} s")
        await asyncio.sleep(1.0)
        async with http.get(METRICS) as answer:
            found = len((await answer.json())["items"])


async def _rows(http: aiohttp.ClientSession, parts: list[Part], nodes: int, seconds: float) -> list[dict[str, Any]]:
    await _all_measured(http, nodes)
    await _settled(parts)
    started = _cpu(parts)
    begin = time.monotonic()
    await asyncio.sleep(seconds)
    idle = {name: (used - started[name]) / (time.monotonic() - begin) for name, used in _cpu(parts).items()}
    bindings = Bindings()
    watcher = asyncio.create_task(watch(http, bindings, PODS))
    await asyncio.sleep(0.5)
    before, begin = _cpu(parts), time.monotonic()
    await create(http, PODS, pod, range(CREATED), per_s=50.0)
    while len(bindings.at) < CREATED:
        await asyncio.sleep(0.1)
        if time.monotonic() > begin + SETTLED_S:
            raise SystemExit(f"bench.capacity: {len(bindings.at)} of {CREATED} pods bound after {SETTLED_S:g} s")
    await _settled(parts)
    took = time.monotonic() - begin
    bound = {name: used - before[name] - idle[name] * took for name, used in _cpu(parts).items()}
    watcher.cancel()
    before, begin = _cpu(parts), time.monotonic()
    await _measure_nodes(http, nodes, seconds)
    await _settled(parts)
    took = time.monotonic() - begin
    measured = {name: (used - before[name] - idle[name] * took) / seconds for name, used in _cpu(parts).items()}
    rows = []
    for part in parts:
        _, text = await _page(http, f"{part.url}/metrics")
        heap, peak = HEAP_IN_USE.search(text), part.peak_mib()
        rows.append(
            {
                "part": part.name,
                "start_cpu_s": round(started[part.name], 1),
                "rss_mib": round(usage(part.pid).rss_mib),
                "peak_mib": round(peak),
                "heap_mib": round(float(heap[1]) / 2**20) if heap else "",
                "idle_cores": round(idle[part.name], 4),
                "cpu_ms_pod": round(max(0.0, bound[part.name]) * 1000 / CREATED, 2),
                "metrics_cores": round(max(0.0, measured[part.name]), 4),
                "request_mib": ceil(peak * 1.25 / STEP_MIB) * STEP_MIB,
            }
        )
    return rows


def size(nodes: int, pods: int, names: list[str], seconds: float, folder: Path) -> list[dict[str, Any]]:
    """The rows of one size of cluster."""

    async def fill() -> None:
        async with session(server) as http:
            await _fill(http, nodes, pods)

    async def ready(part: Part) -> None:
        end = time.monotonic() + SETTLED_S
        async with session(server) as http:
            while (await _page(http, f"{part.url}/readyz"))[0] != 200:
                if time.monotonic() > end:
                    raise SystemExit(f"bench.capacity: {part.name} is not ready:\n{part.log.read_text()[-2000:]}")
                await asyncio.sleep(0.2)

    async def measure() -> list[dict[str, Any]]:
        async with session(server) as http:
            return await _rows(http, parts, nodes, seconds)

    with local_server(folder) as (kubeconfig, _), ExitStack() as stack:
        server = Server.of(kubeconfig)
        asyncio.run(fill())
        parts = [stack.enter_context(running(name, kubeconfig, folder)) for name in names]
        for part in parts:
            asyncio.run(ready(part))
        return [{"nodes": nodes, "pods": pods} | row for row in asyncio.run(measure())]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.capacity", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="100x1000,1000x10000,5000x50000", help="NODESxPODS, separated by commas")
    parser.add_argument("--parts", default=",".join(PARTS), help="processes to run, separated by commas")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds of each window")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    rows = []
    for entry in given.sizes.split(","):
        nodes, _, pods = entry.partition("x")
        if "manager" not in given.parts.split(","):
            parser.error("--parts: without the manager, which makes the NodeMetrics")
        if not (nodes.isdigit() and pods.isdigit() and int(pods) >= CREATED):
            parser.error(f"--sizes: {entry!r}; expected NODESxPODS with at least {CREATED} pods")
        with tempfile.TemporaryDirectory(prefix="cotenant-bench-") as folder:
            rows += size(int(nodes), int(pods), given.parts.split(","), given.seconds, Path(folder))
    show(rows, given.json, (f"{os.cpu_count()} cores",))


if __name__ == "__main__":
    main()
