"""Memory under churn: what the processes of `cotenant up` keep of pods that came and went.

Pods are created at a steady rate over HTTP, scheduled, run by simulated nodes and deleted some seconds later. Everything bounded is filled
before the measurement: the stored events by writing as many as the server keeps, the watch history (300 s) by the warm-up. Then the
resident set of each process is sampled; the slope over the pods created, in bytes a pod, is that of a line through the means of equal spans,
with its 95 % interval (Student's t over the spans, since single samples depend on one another). A process that keeps nothing has an interval
that holds zero. Limits: allocators return memory late, and a heap reaches its size only when what is bounded has been replaced about twice (50,000 events: 25,000 pods);
until then a slope is positive although the number of objects stays the same. The spans' means are treated as independent.
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
KEPT_EVENTS = 50_000  # that the server keeps (local/apiserver/kinds/events.py)
SAMPLE_S = 2.0
START_S = 240.0
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"


def slope(at: list[int], bytes_: list[float]) -> tuple[float, float, float]:
    """Bytes a pod: the slope of a line through the means of `SPANS` spans, and its 95 % interval."""
    size = len(at) // SPANS
    if not size:
        raise SystemExit(f"bench.churn: {len(at)} samples are too few for {SPANS} spans")
    spans = [slice(i * size, (i + 1) * size) for i in range(SPANS)]
    x = [statistics.fmean(at[each]) for each in spans]
    y = [statistics.fmean(bytes_[each]) for each in spans]
    fit = statistics.linear_regression(x, y)
    left = sum((v - fit.slope * u - fit.intercept) ** 2 for u, v in zip(x, y, strict=True))
    mean = statistics.fmean(x)
    half = _T95 * sqrt(left / (SPANS - 2) / sum((u - mean) ** 2 for u in x))
    return fit.slope, fit.slope - half, fit.slope + half


class Cluster:
    """`cotenant up` in a folder of its own, and its processes by name."""

    def __init__(self, folder: Path, nodes: int) -> None:
        arguments = ("up", "--dir", str(folder), "--nodes", str(nodes), "--port", "0")
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
        self.pids = {"apiserver": self.process.pid}
        for text in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            words = Path(f"/proc/{text}/cmdline").read_bytes().decode().split("\0")
            for name in ("scheduler", "extender"):
                if name in words:
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


async def measure(cluster: Cluster, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Fill, warm up, sample. One row a process."""
    samples: dict[str, list[float]] = {name: [] for name in cluster.pids}
    at: list[int] = []
    async with session(cluster.server, 100) as http:
        churn = Churn(http, options.rate, options.life_s)
        await churn.fill_events(options.events)
        await churn.run(options.warm_s)
        first = churn.created
        running = asyncio.create_task(churn.run(options.measure_s))
        while not running.done():
            await asyncio.sleep(SAMPLE_S)
            at.append(churn.created)
            for name, pid in cluster.pids.items():
                samples[name].append(usage(pid).rss_mib * 2**20)
        await running
        waiting = await churn.unscheduled()
    rows = []
    for name, sizes in samples.items():
        value, low, high = slope(at, sizes)
        rows.append(
            {
                "process": name,
                "pods": churn.created - first,
                "pods_s": (churn.created - first) / options.measure_s,
                "first_mib": sizes[0] / 2**20,
                "last_mib": sizes[-1] / 2**20,
                "bytes_pod": value,
                "low": low,
                "high": high,
                "holds_zero": low <= 0.0 <= high,
                "failed": churn.failed,
                "unscheduled": waiting,
            }
        )
    return rows


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
            rows = asyncio.run(measure(cluster, options))
        finally:
            cluster.stop()
    show(rows, options.json, [f"{options.nodes} nodes, pods live {options.life_s:g} s, warm-up {options.warm_s:g} s"])


if __name__ == "__main__":
    main()
