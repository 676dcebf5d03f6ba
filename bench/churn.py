"""Memory under churn: what the processes of `cotenant up` keep of pods that came and went.

Pods are created at a steady rate over HTTP, scheduled, run by simulated nodes and deleted some seconds later.
Everything bounded is filled before the measurement: the stored events by writing as many as the server keeps, the watch
history (300 s) by the warm-up. Then the resident set of each process is sampled; the slope over the pods created, in
bytes a pod, is that of a line through the means of equal spans, with its 95 % interval (Student's t over the spans,
since single samples depend on one another). A process that keeps nothing has an interval that holds zero. Limits:
allocators return memory late, and a heap reaches its size only when what is bounded has been replaced about twice
(50,000 events: 25,000 pods); until then a slope is positive although the number of objects stays the same. The spans'
means are treated as independent.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import aiohttp
import msgspec

from bench.kube.load import Server, session
from bench.kube.processes import usage
from bench.machine import show

SPANS = 8
_T95 = 2.447  # Student's t for SPANS - 2 degrees of freedom, two-sided
KEPT_EVENTS = 50_000  # that the server keeps (cotenant_local/apiserver/kinds/events.py)
SAMPLE_S = 5.0
START_S = 240.0
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"


def slope(at: Sequence[float], values: Sequence[float]) -> tuple[float, float, float]:
    """The slope of a line through the means of `SPANS` spans, and its 95 % interval, in units of `values` (here
    bytes) by units of `at` (here pods).
    """
    size = len(at) // SPANS
    if not size:
        raise SystemExit(f"bench.churn: {len(at)} samples are too few for {SPANS} spans")
    spans = [slice(i * size, (i + 1) * size) for i in range(SPANS)]
    x = [statistics.fmean(at[span]) for span in spans]
    y = [statistics.fmean(values[span]) for span in spans]
    fit = statistics.linear_regression(x, y)
    left = sum((v - fit.slope * u - fit.intercept) ** 2 for u, v in zip(x, y, strict=True))
    mean = statistics.fmean(x)
    half = _T95 * sqrt(left / (SPANS - 2) / sum((u - mean) ** 2 for u in x))
    return fit.slope, fit.slope - half, fit.slope + half


HEAP_IN_USE = re.compile(r'^cotenant_heap_bytes\{state="in_use"\} (\S+)$', re.MULTILINE)
_BLOCKS = re.compile(r"^cotenant_python_blocks (\S+)$", re.MULTILINE)


class Cluster:
    """`cotenant up` in a folder of its own, and its processes by name."""

    def __init__(self, folder: Path, nodes: int, *more: str) -> None:
        """`more`: further arguments of `cotenant up`."""
        arguments = ("up", "--dir", str(folder), "--nodes", str(nodes), "--port", "0", *more)
        self._log = folder / "out"
        with self._log.open("wb") as out:
            self.process = subprocess.Popen([sys.executable, "-m", "cotenant", *arguments], stdout=out, stderr=out)
        until = monotonic() + START_S
        while "Ctrl-C" not in self._log.read_text():
            if self.process.poll() is not None or monotonic() > until:
                self.stop()
                raise SystemExit(f"bench.churn: the cluster did not start:\n{self._log.read_text()}")
            sleep(0.2)
        self.server = Server.of(folder / "kubeconfig")
        self.metrics = {"apiserver": f"{self.server.url}/metrics"}
        for name, found in re.findall(
            r"^  (extender|metrics): (http://127\.0\.0\.1:\d+)", self._log.read_text(), re.MULTILINE
        ):
            self.metrics["scheduler" if name == "metrics" else name] = f"{found}/metrics"
        self.pids = {"apiserver": self.process.pid}
        for text in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            words = Path(f"/proc/{text}/cmdline").read_bytes().decode().split("\0")
            for name in ("scheduler", "extender", "manager"):
                if name in words[:4]:
                    self.pids[name] = int(text)

    def stop(self) -> None:
        """End it as Ctrl-C does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)


def a_pod(name: str) -> bytes:
    """A pod without an owner, of a tenth of a core."""
    amounts = {"cpu": "100m", "memory": "64Mi"}
    containers = [{"name": "c", "image": "registry.example.com/work:1", "resources": {"requests": amounts}}]
    metadata = {"name": name, "labels": {"app": "churn"}}
    spec = {"schedulerName": "cotenant", "containers": containers, "terminationGracePeriodSeconds": 1}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def an_event(like: dict[str, Any], number: int) -> bytes:
    """An event like one that the cluster wrote: the measured events replace them one by one and must not be larger."""
    name = f"{like['metadata']['name'].rsplit('.', 1)[0]}.{number:016x}"
    metadata = {"name": name, "namespace": "default"}
    kept = {key: value for key, value in like.items() if key != "metadata"}
    return msgspec.json.encode({**kept, "metadata": metadata})


class Churn:
    """Creates pods at a rate and deletes each after its life."""

    def __init__(self, http: aiohttp.ClientSession, rate: float, life_s: float) -> None:
        self._http, self._rate, self._life_s = http, rate, life_s
        self._alive: deque[tuple[float, str]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self.created = self.failed = 0

    async def fill_events(self, count: int) -> None:
        """Write events like those of the first pods, 32 in flight."""
        await self.run(self._life_s)
        async with self._http.get(EVENTS) as answer:
            like = max(msgspec.json.decode(await answer.read())["items"], key=lambda event: len(str(event)))
        numbers = iter(range(count))

        async def write() -> None:
            for number in numbers:
                await self._send("POST", EVENTS, an_event(like, number))

        await asyncio.gather(*(write() for _ in range(32)))

    async def run(self, seconds: float) -> None:
        """Keep the rate for some time; returns with the pods that are alive left alone."""
        began, first = monotonic(), self.created
        while (now := monotonic()) < began + seconds:
            while self.created - first < (now - began) * self._rate and len(self._tasks) < 500:
                name = f"churn-{self.created}"
                self.created += 1
                self._alive.append((now + self._life_s, name))
                self._spawn("POST", PODS, a_pod(name))
            while self._alive and self._alive[0][0] <= now:
                self._spawn("DELETE", f"{PODS}/{self._alive.popleft()[1]}", b"")
            await asyncio.sleep(0.02)

    def _spawn(self, method: str, path: str, body: bytes) -> None:
        task = asyncio.create_task(self._send(method, path, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, method: str, path: str, body: bytes) -> None:
        try:
            async with self._http.request(method, path, data=body) as answer:
                await answer.read()
                self.failed += answer.status >= 300
        except (aiohttp.ClientError, TimeoutError):
            self.failed += 1

    async def unscheduled(self) -> int:
        """Pods that are present and have no node."""
        async with self._http.get(PODS) as answer:
            return len(re.findall(rb'"reason":"Unschedulable"', await answer.read()))


class Samples:
    """Of one measure of one process: values, each with the number of pods created by then."""

    def __init__(self, process: str, measure: str, unit: str) -> None:
        self.process, self.measure, self.unit = process, measure, unit
        self._at: list[int] = []
        self._values: list[float] = []

    def add(self, created: int, value: float) -> None:
        """One sample."""
        self._at.append(created)
        self._values.append(value)

    def row(self) -> dict[str, Any]:
        """The slope with its interval, in units a pod."""
        value, low, high = slope(self._at, self._values)
        scale = 2**20 if self.unit == "MiB" else 1
        return {
            "process": self.process,
            "measure": self.measure,
            "unit": self.unit,
            "first": self._values[0] / scale,
            "last": self._values[-1] / scale,
            "a_pod": value,
            "low": low,
            "high": high,
            "holds_zero": low <= 0.0 <= high,
        }


async def measure(cluster: Cluster, options: argparse.Namespace) -> tuple[list[dict[str, Any]], str]:
    """Fill, warm up, sample. A row a process and measure, and a line about the pods."""
    resident = {name: Samples(name, "resident", "MiB") for name in cluster.pids}
    heap = {name: Samples(name, "C heap in use", "MiB") for name in cluster.metrics}
    blocks = {name: Samples(name, "Python blocks", "blocks") for name in cluster.metrics}
    async with session(cluster.server, 100) as http:
        churn = Churn(http, options.rate, options.life_s)
        await churn.fill_events(options.events)
        await churn.run(options.warm_s)
        first = churn.created
        running = asyncio.create_task(churn.run(options.measure_s))
        while not running.done():
            await asyncio.sleep(SAMPLE_S)
            for name, pid in cluster.pids.items():
                resident[name].add(churn.created, usage(pid).rss_mib * 2**20)
            for name, url in cluster.metrics.items():
                async with http.get(url) as answer:
                    page = await answer.text()
                for samples, pattern in ((heap[name], HEAP_IN_USE), (blocks[name], _BLOCKS)):
                    if found := pattern.search(page):
                        samples.add(churn.created, float(found[1]))
        await running
        waiting = await churn.unscheduled()
    rows = [samples.row() for by_process in (resident, heap, blocks) for samples in by_process.values()]
    pods = churn.created - first
    return (
        rows,
        f"{pods} pods, {pods / options.measure_s:.1f} a second; {churn.failed} requests failed, {waiting} pods "
        "unscheduled",
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--rate", type=float, default=50.0, help="pods a second")
    parser.add_argument("--life-s", type=float, default=4.0)
    parser.add_argument("--events", type=int, default=KEPT_EVENTS, help="events written first")
    parser.add_argument("--warm-s", type=float, default=360.0)
    parser.add_argument("--measure-s", type=float, default=480.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder), options.nodes)
        try:
            rows, pods = asyncio.run(measure(cluster, options))
        finally:
            cluster.stop()
    rows.sort(key=lambda row: row["process"])
    show(
        rows,
        options.json,
        [f"{options.nodes} nodes, pods live {options.life_s:g} s, warm-up {options.warm_s:g} s; {pods}"],
    )


if __name__ == "__main__":
    main()
