"""Soak: a cluster under churn, gangs, quotas, node failures and reports for a stated time; it fails where something
grows, stalls or changes hands.

    python -m bench.soak --minutes 120          the processes of `cotenant up`, in real time
    python -m bench.soak --draw FILE.csv --out FILE.svg     the picture of a run's --samples
    python -m bench.soak --day                  24 simulated hours of the scheduling engine, as fast as it goes

A leak of a few bytes a pod is found after days, in production. `bench/churn` makes the load and fits the slope; here
gangs, quotas and failing nodes join it, and each process is sampled: resident set, open files, and the longest of a few
answers of /healthz, which waits for the event loop as everything in that process does. Leadership is the Lease's number
of transitions. A process grows where the whole 95 % interval of a slope is above `--max-mib-hour` (`--max-files-hour`):
of its C heap in use (`cotenant_heap_bytes`) over the whole time, and of its resident set over the last half, because a
heap that fragments settles within an hour or two while what is in use stays the same. Bounded parts that are not full
yet (50,000 events, 300 s of watch history) grow honestly: `--warm-minutes` are not measured. `--day` has the engine's
own tables besides, and compares its sums with its residents each hour.
Limits: one machine, simulated nodes; slopes of short runs have wide intervals and prove nothing. The nodes' reports are
those of `cotenant up`. The day has no API server, no clock but its own, and no gangs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import re
import sys
import tempfile
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import aiohttp
import msgspec
import numpy as np

from bench.churn import HEAP_IN_USE, SPANS, Churn, Cluster, a_pod, slope
from bench.kube.load import session
from bench.kube.processes import usage
from bench.machine import show
from bench.soak_chart import chart
from cotenant.engine.cluster import Cluster as Engine
from cotenant.engine.framework.instructions import Bind
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

MIB = 2**20
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups"
QUOTAS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/elasticquotas"
LEASES = "/apis/coordination.k8s.io/v1/leases"
NODES = "/api/v1/nodes"
MEMBERS, TEAMS = 4, ("red", "blue")
PROBES = 3  # answers of /healthz a sample
PROGRESS_S = 300.0
HEADER = "hours,process,rss_mib,heap_mib,files,answer_ms"
_LISTEN = re.compile(r"127\.0\.0\.1:(\d+)")


@dataclass(slots=True)
class Samples:
    """What was read of one process at each sample."""

    pid: int
    rss_mib: list[float] = field(default_factory=list)
    heap_mib: list[float] = field(default_factory=list)  # of the C heap, in use; NaN where the process did not tell
    files: list[float] = field(default_factory=list)
    answer_ms: list[float] = field(default_factory=list)

    def line(self, name: str, hours: float) -> str:
        """The last sample as a line of `--samples`."""
        memory = f"{self.rss_mib[-1]:.3f},{self.heap_mib[-1]:.3f}"
        return f"{hours:.5f},{name},{memory},{self.files[-1]:.0f},{self.answer_ms[-1]:.2f}"


def health_url(name: str, pid: int, server: str) -> str:
    """Where a process answers /healthz; "" where its arguments do not say."""
    if name == "apiserver":
        return f"{server}/healthz"
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    at = next((words[i + 1] for i, word in enumerate(words[:-1]) if word == "--listen"), "")
    found = _LISTEN.fullmatch(at) or next(
        (m for w in words if (m := re.fullmatch(r"--listen=127\.0\.0\.1:(\d+)", w))), None
    )
    return f"http://127.0.0.1:{found[1]}/healthz" if found else ""


class Others:
    """What happens beside the churn: gangs, pods of quotas, and nodes that fail and return."""

    def __init__(self, http: aiohttp.ClientSession, options: argparse.Namespace) -> None:
        self._http, self._options = http, options
        self._rng = random.Random(options.seed)
        self.gangs = self.incomplete = self.quota_pods = self.failures = self.refused = 0

    async def prepare(self) -> None:
        """The teams' quotas."""
        for team in TEAMS:
            amounts = {"min": {"cpu": "10", "memory": "64Gi"}, "max": {"cpu": "40", "memory": "256Gi"}}
            body = {"metadata": {"name": team}, "spec": amounts}
            await self._send(
                "POST", QUOTAS, {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", **body}
            )

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat(self._options.gang_every_s, self._gang))
            group.create_task(self._repeat(1.0, self._of_quota))
            group.create_task(self._repeat(self._options.fail_every_s, self._fail))

    async def _repeat(self, every_s: float, act: Any) -> None:
        number = 0
        while True:
            await asyncio.sleep(every_s)
            await act(number)
            number += 1

    async def _gang(self, number: int) -> None:
        """A gang that runs for a while; incomplete where it was not placed whole by its end."""
        name = f"gang-{number}"
        group = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": name}}
        await self._send("POST", GROUPS, {**group, "spec": {"minMember": MEMBERS}})
        pods = [f"{name}-{i}" for i in range(MEMBERS)]
        for pod in pods:
            await self._pod(pod, {"pod-group.scheduling.sigs.k8s.io": name})
        await asyncio.sleep(self._options.life_s)
        placed = [await self._node_of(pod) for pod in pods]
        self.gangs += 1
        self.incomplete += not all(placed)
        for pod in pods:
            await self._send("DELETE", f"{PODS}/{pod}")
        await self._send("DELETE", f"{GROUPS}/{name}")

    async def _of_quota(self, number: int) -> None:
        name, team = f"team-{number}", TEAMS[number % len(TEAMS)]
        await self._pod(name, {"quota.scheduling.koordinator.sh/name": team})
        self.quota_pods += 1
        if number >= 8:
            await self._send("DELETE", f"{PODS}/team-{number - 8}")

    async def _fail(self, _: int) -> None:
        """A node stops its heartbeat and returns later."""
        path = f"{NODES}/{self._rng.choice(await self._names())}"
        await self._send("PATCH", path, {"metadata": {"annotations": {"cotenant.io/fail": "true"}}})
        self.failures += 1
        await asyncio.sleep(self._options.fail_for_s)
        await self._send("PATCH", path, {"metadata": {"annotations": {"cotenant.io/fail": None}}})

    async def _names(self) -> list[str]:
        async with self._http.get(NODES) as answer:
            return [entry["metadata"]["name"] for entry in msgspec.json.decode(await answer.read())["items"]]

    async def _pod(self, name: str, labels: dict[str, str]) -> None:
        body = msgspec.json.decode(a_pod(name))
        body["metadata"]["labels"] = labels
        await self._send("POST", PODS, body)

    async def _node_of(self, name: str) -> str:
        async with self._http.get(f"{PODS}/{name}") as answer:
            found = msgspec.json.decode(await answer.read())
        return str(found.get("spec", {}).get("nodeName", ""))

    async def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> None:
        kind = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
        data = msgspec.json.encode(body) if body is not None else b""
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            async with self._http.request(method, path, data=data, headers=kind) as answer:
                await answer.read()
                self.refused += answer.status >= 300 and not (method == "DELETE" and answer.status == 404)


def write(path: Path, line: str) -> None:
    """Append a line at once, so that an interrupted run leaves its samples."""
    begins = not path.exists()
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{HEADER}\n{line}\n" if begins else f"{line}\n")


async def transitions(http: aiohttp.ClientSession) -> int:
    """How often Leases of our processes changed hands."""
    async with http.get(LEASES) as answer:
        items = msgspec.json.decode(await answer.read())["items"]
    ours = [entry for entry in items if entry["metadata"]["name"].startswith("cotenant")]
    return sum(int(our["spec"].get("leaseTransitions") or 0) for our in ours)


async def _answer_ms(http: aiohttp.ClientSession, url: str) -> float:
    worst = 0.0
    for _ in range(PROBES):
        began = perf_counter()
        try:
            async with http.get(url, timeout=aiohttp.ClientTimeout(total=30)) as answer:
                await answer.read()
        except (aiohttp.ClientError, TimeoutError):
            return 30_000.0
        worst = max(worst, perf_counter() - began)
    return worst * 1000


async def _heap_mib(http: aiohttp.ClientSession, health: str) -> float:
    try:
        async with http.get(health.removesuffix("/healthz") + "/metrics") as answer:
            found = HEAP_IN_USE.search(await answer.text())
    except (aiohttp.ClientError, TimeoutError):
        return nan
    return float(found[1]) / MIB if found else nan


async def measure(cluster: Cluster, options: argparse.Namespace) -> tuple[list[dict[str, Any]], list[str]]:
    """Load, warm up, sample. One row a process, and what failed in words."""
    found = {name: Samples(pid) for name, pid in cluster.pids.items()}
    urls = {name: health_url(name, samples.pid, cluster.server.url) for name, samples in found.items()}
    hours: list[float] = []
    async with session(cluster.server, 100) as http:
        churn, others = Churn(http, options.rate, options.life_s), Others(http, options)
        await others.prepare()
        if options.events:
            await churn.fill_events(options.events)
        beside = asyncio.create_task(others.run())
        await churn.run(options.warm_minutes * 60)
        led, began = await transitions(http), monotonic()
        first = churn.created
        running = asyncio.create_task(churn.run(options.minutes * 60))
        told = began
        while not running.done():
            await asyncio.wait({running}, timeout=options.sample_s)
            if monotonic() - told >= PROGRESS_S:
                told = monotonic()
                print(
                    f"{(told - began) / 60:.0f} of {options.minutes:g} minutes, {churn.created - first} pods",
                    file=sys.stderr,
                )
            if beside.done():
                beside.result()
            hours.append((monotonic() - began) / 3600)
            for name, samples in found.items():
                samples.rss_mib.append(usage(samples.pid).rss_mib)
                samples.heap_mib.append(await _heap_mib(http, urls[name]) if urls[name] else nan)
                samples.files.append(len(os.listdir(f"/proc/{samples.pid}/fd")))
                samples.answer_ms.append(await _answer_ms(http, urls[name]) if urls[name] else 0.0)
                if options.samples is not None:
                    write(options.samples, samples.line(name, hours[-1]))
        await running
        changed = await transitions(http) - led
        waiting = await churn.unscheduled()
        beside.cancel()
    rows = [row(name, hours, samples) for name, samples in found.items()]
    wrong = growth(rows, options)
    for what, count in (
        ("leadership changes", changed),
        ("pods without a node at the end", waiting),
        ("requests of the churn that failed", churn.failed),
        ("other requests that were refused", others.refused),
        ("gangs that were not placed whole", others.incomplete),
    ):
        wrong += [f"{count} {what}"] if count else []
    print(
        f"{churn.created - first} pods in {options.minutes:g} minutes, {others.gangs} gangs, {others.quota_pods} pods "
        f"of quotas, {others.failures} node failures"
    )
    return rows, wrong


def row(name: str, hours: list[float], samples: Samples) -> dict[str, Any]:
    """The figures of one process: slopes an hour with their 95 % intervals."""
    rss, files = slope(hours, samples.rss_mib), slope(hours, samples.files)
    half = len(hours) // 2
    settled = slope(hours[half:], samples.rss_mib[half:])
    told = [i for i, mib in enumerate(samples.heap_mib) if not isnan(mib)]
    heap = (
        slope([hours[i] for i in told], [samples.heap_mib[i] for i in told]) if len(told) >= SPANS else (nan, nan, nan)
    )
    return {
        "process": name,
        "samples": len(hours),
        "first_mib": samples.rss_mib[0],
        "last_mib": samples.rss_mib[-1],
        "mib_hour": rss[0],
        "mib_hour_low": rss[1],
        "mib_hour_high": rss[2],
        "settled_mib_hour": settled[0],
        "settled_mib_hour_low": settled[1],
        "in_use_mib_hour": heap[0],
        "in_use_mib_hour_low": heap[1],
        "files": samples.files[-1],
        "files_hour": files[0],
        "files_hour_low": files[1],
        "answer_p50_ms": float(np.percentile(samples.answer_ms, 50)),
        "answer_max_ms": max(samples.answer_ms),
    }


def growth(rows: list[dict[str, Any]], options: argparse.Namespace) -> list[str]:
    """What grows: the whole interval of the slope is above the bound. And what does not answer."""
    wrong = []
    for row in rows:
        settled = row.get("settled_mib_hour_low", row["mib_hour_low"])
        if settled > options.max_mib_hour:
            wrong.append(f"{row['process']} grows by {settled:.1f} MiB an hour or more")
        if row.get("in_use_mib_hour_low", nan) > options.max_mib_hour:
            wrong.append(
                f"{row['process']} has {row['in_use_mib_hour_low']:.1f} MiB an hour or more in use than before"
            )
        if row.get("files_hour_low", 0.0) > options.max_files_hour:
            wrong.append(f"{row['process']} opens {row['files_hour_low']:.1f} files an hour or more")
        if row.get("answer_max_ms", 0.0) > options.max_answer_ms:
            wrong.append(f"{row['process']} answered /healthz after {row['answer_max_ms']:.0f} ms")
    return wrong


def day(options: argparse.Namespace) -> tuple[list[dict[str, Any]], list[str]]:
    """24 simulated hours: pods arrive at `--day-rate` a second in 64 shapes and live a minute, and a node is
    replaced each ten minutes.
    """
    engine = Engine(profile("cotenant-requests"), np.random.default_rng(options.seed))
    size = Amounts.of({"cpu": 64_000, "memory": 1 << 40})
    for i in range(options.nodes):
        engine.node_seen(Node(f"n{i}", size, Labels.of({HOSTNAME: f"n{i}"})))
    element = Samples(os.getpid())
    hours: list[float] = []
    alive: list[list[str]] = []
    tables: list[float] = []
    began, made, bound, replaced = perf_counter(), 0, 0, 0
    for now in range(int(options.day_hours * 3600)):
        now_s = float(now)
        arrived = []
        for _ in range(options.day_rate):
            pod = Pod(f"p{made}", requests=Amounts.of({"cpu": 100 + 10 * (made % 64), "memory": 1 << 26}))
            engine.pod_seen(ObservedPod(pod, f"u{made}", "cotenant", now_s), now_s)
            arrived.append(f"u{made}")
            made += 1
        for decided in engine.decide(now_s):
            if isinstance(decided, Bind):
                engine.sending(decided.uid, now_s)
                engine.bound(decided.uid, now_s)
                bound += 1
        alive.append(arrived)
        if len(alive) > 60:
            for uid in alive.pop(0):
                engine.pod_gone(uid, now_s)
        if now % 600 == 599:
            name = f"n{replaced % options.nodes}"
            engine.node_gone(name, now_s)
            engine.node_seen(Node(name, size, Labels.of({HOSTNAME: name})))
            replaced += 1
        if now % 120 == 119:
            hours.append(now / 3600)
            element.rss_mib.append(usage(element.pid).rss_mib)
            tables.append(len(engine._components.assignments.ledger.row))
        if now % 3600 == 3599:
            engine.validate()
    skip = len(hours) // 6  # the warm-up
    rss, rows = slope(hours[skip:], element.rss_mib[skip:]), slope(hours[skip:], tables[skip:])
    figures = {
        "process": "engine",
        "simulated_hours": options.day_hours,
        "wall_s": perf_counter() - began,
        "pods": made,
        "bound": bound,
        "nodes_replaced": replaced,
        "first_mib": element.rss_mib[skip],
        "last_mib": element.rss_mib[-1],
        "mib_hour": rss[0],
        "mib_hour_low": rss[1],
        "mib_hour_high": rss[2],
        "rows": tables[-1],
        "rows_hour_low": rows[1],
    }
    wrong = growth([figures], options)
    wrong += [f"the ledger grows by {rows[1]:.2f} rows an hour or more"] if rows[1] > 1.0 else []
    wrong += [f"{made - bound} pods were not placed"] if bound < made else []
    return [figures], wrong


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120.0, help="measured time")
    parser.add_argument("--warm-minutes", type=float, default=10.0, help="load before it, not measured")
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--rate", type=float, default=50.0, help="pods a second")
    parser.add_argument("--life-s", type=float, default=4.0)
    parser.add_argument("--events", type=int, default=50_000, help="events written first, as many as the server keeps")
    parser.add_argument("--gang-every-s", type=float, default=5.0)
    parser.add_argument("--fail-every-s", type=float, default=120.0, help="between two failures of nodes")
    parser.add_argument("--fail-for-s", type=float, default=60.0)
    parser.add_argument("--sample-s", type=float, default=5.0)
    parser.add_argument("--max-mib-hour", type=float, default=8.0, help="growth of a process's memory that is too much")
    parser.add_argument("--max-files-hour", type=float, default=4.0)
    parser.add_argument("--max-answer-ms", type=float, default=5_000.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samples", type=Path, help="a new CSV file for every sample")
    parser.add_argument("--draw", type=Path, help="draw the samples of this file and do nothing else")
    parser.add_argument("--out", type=Path, default=Path("soak.svg"), help="of --draw")
    parser.add_argument("--day", action="store_true", help="24 simulated hours of the engine instead")
    parser.add_argument("--day-hours", type=float, default=24.0)
    parser.add_argument("--day-rate", type=int, default=2, help="pods a simulated second")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(words)


def main() -> int:
    """1 where something grew, stalled or failed."""
    options = parse()
    if options.draw is not None:
        options.out.write_text(chart(options.draw), encoding="utf-8")
        return 0
    if options.minutes * 60 / options.sample_s < SPANS and not options.day:
        raise SystemExit(f"bench.soak: --minutes {options.minutes:g} gives fewer than {SPANS} samples")
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    if options.day:
        rows, wrong = day(options)
    else:
        with tempfile.TemporaryDirectory() as folder:
            cluster = Cluster(Path(folder), options.nodes, "--manager")
            try:
                rows, wrong = asyncio.run(measure(cluster, options))
            finally:
                cluster.stop()
    show(rows, options.json)
    for name in wrong:
        print(f"FAILED: {name}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
