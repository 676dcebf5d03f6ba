"""Schedulers that all act, live: binds per second with 1, 2 and 4 of them, beside what the server takes from a client
that decides nothing.

    python -m bench.kube.shards [--programs FOLDER] [--nodes 5000] [--pods 5000] [--schedulers 1 2 4]

`--programs`: a folder with etcd and kube-apiserver; without it the local server. Each line is a fresh server. The
schedulers list the nodes and agree, and are stopped (SIGSTOP) while the pods are created; then all go on at once, so
the clock counts no start: `bound_per_s` is from then to the last bind, `bound_per_s_middle` without the first and last
tenth. 0 schedulers: this client binds what exists, `--binds-in-flight` at a time.

Which of them is the limit is in the cores used meanwhile: `busiest_cores` near 1 says that a scheduler is, since it
decides on one core; `machine_cores` near the number of cores with `busiest_cores` below 1 says that the machine is,
which server and schedulers share here. `server_ms_a_pod` is the server's own price of a bind with all that watches make
of it. With a machine for each process the server's limit is its cores over that price, and that of n schedulers n over
`busiest_ms_a_pod`.

`bound_twice`: pods that were seen on two nodes, which must be none.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import aiohttp
import msgspec

from bench.kube.children import child, local_server
from bench.kube.control_plane import control_plane
from bench.kube.load import Bindings, Server, create, node, pod, session, watch
from bench.kube.measuring import PODS, all_bound, bind_plainly, rates
from bench.kube.processes import usage
from bench.machine import show

TABLE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/cotenant-scheduler-shards"
AGREED_S = 300.0
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
# They are stopped for as long as creating the pods takes: no Lease runs out meanwhile.
ELECTION = (
    *("--leader-elect-lease-s", "900", "--leader-elect-renew-deadline-s", "800"),
    *("--leader-elect-retry-s", "1"),
)


@contextmanager
def _server(programs: Path | None, folder: Path) -> Iterator[tuple[Path, dict[str, int]]]:
    """A kubeconfig, and the server's processes (name -> pid)."""
    if programs is not None:
        with control_plane(programs, folder) as found:
            yield found
        return
    with local_server(folder) as (kubeconfig, pid):
        yield kubeconfig, {"apiserver": pid}


def _command(kubeconfig: Path, count: int, given: argparse.Namespace) -> list[str]:
    sharing = ("--no-leader-elect",) if count == 1 else ("--shards", str(count), *ELECTION)
    return [
        *(sys.executable, "-m", "cotenant", "scheduler", "--kubeconfig", str(kubeconfig), "--state-dir", ""),
        *("--profile", given.profile, "--qps", str(given.qps), "--burst", str(given.qps)),
        *("--listen", "127.0.0.1:0", "--binds-in-flight", str(given.binds_in_flight), *sharing),
    ]


async def _ready(http: aiohttp.ClientSession, logs: list[Path]) -> None:
    """Until all have listed and, where they are several, agree."""
    end = perf_counter() + AGREED_S
    while not (
        all(b" leads" in log.read_bytes() for log in logs) and (len(logs) == 1 or await _agree(http, len(logs)))
    ):
        if perf_counter() > end:
            raise SystemExit(f"bench.kube.shards: no agreement after {AGREED_S:g} s\n{logs[0].read_text()[-2000:]}")
        await asyncio.sleep(0.1)


async def _agree(http: aiohttp.ClientSession, count: int) -> bool:
    async with http.get(TABLE) as answer:
        if answer.status != 200:
            return False
        annotations = (await answer.json())["metadata"].get("annotations", {})
    table = msgspec.json.decode(annotations.get("cotenant.io/shards", "{}"))
    members, rings = table.get("members", []), table.get("rings", [])
    return len(members) == count and len(rings) == 1 and all(member[3] == rings[-1][0] for member in members)


def _machine_cpu_s() -> float:
    """CPU seconds that this machine has worked."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    idle = int(fields[3]) + int(fields[4])
    return (sum(map(int, fields)) - idle) * _TICK_S


async def _placed(http: aiohttp.ClientSession) -> Counter[str]:
    """Pods by node."""
    async with http.get(PODS) as answer:
        items = msgspec.json.decode(await answer.read())["items"]
    return Counter(item["spec"].get("nodeName", "") for item in items)


def _measure(count: int, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    with _server(given.programs, folder) as (kubeconfig, watched):
        return asyncio.run(_measure_on(kubeconfig, watched, count, given, folder))


async def _measure_on(
    kubeconfig: Path, watched: dict[str, int], count: int, given: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    async with session(Server.of(kubeconfig)) as http:
        await create(http, "/api/v1/nodes", node, range(given.nodes))
        if given.programs is not None:  # no controller takes the taint of a new node away
            await _untaint(http, given.nodes)
        figures = await (_plain if count == 0 else _scheduled)(http, count, given, kubeconfig, watched, folder)
        placed = await _placed(http)
    assert not placed[""], f"{placed['']} pods have no node"
    assert max(placed.values()) <= 110, "a node has more pods than it takes"
    return {"schedulers": count, "nodes": given.nodes, "pods": given.pods} | figures


async def _untaint(http: aiohttp.ClientSession, nodes: int) -> None:
    gate = asyncio.Semaphore(32)

    async def one(number: int) -> None:
        headers = {"Content-Type": "application/merge-patch+json"}
        path = f"/api/v1/nodes/node-{number:05d}"
        async with gate, http.patch(path, data=b'{"spec":{"taints":null}}', headers=headers) as answer:
            await answer.read()
            if answer.status >= 300:
                raise SystemExit(f"bench.kube.shards: PATCH {path}: {answer.status}")

    async with asyncio.TaskGroup() as group:
        for number in range(nodes):
            group.create_task(one(number))


async def _plain(
    http: aiohttp.ClientSession, _: int, given: argparse.Namespace, kubeconfig: Path, watched: dict[str, int], to: Path
) -> dict[str, Any]:
    await create(http, PODS, pod, range(given.pods))
    cpu_s, meter = _machine_cpu_s(), _Server(watched)
    elapsed_s = await bind_plainly(http, given.pods, given.nodes, given.binds_in_flight)
    return {"bound_per_s": round(given.pods / elapsed_s)} | meter.read(given.pods, elapsed_s, cpu_s)


class _Server:
    """The CPU of the server's processes together."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids
        self._before_s = self._now_s()

    def _now_s(self) -> float:
        return sum(usage(pid).cpu_s for pid in self._pids.values())

    def read(self, pods: int, elapsed_s: float, machine_before_s: float) -> dict[str, float]:
        used_s = self._now_s() - self._before_s
        return {
            "server_ms_a_pod": round(1000 * used_s / pods, 2),
            "server_cores": round(used_s / elapsed_s, 2),
            "machine_cores": round((_machine_cpu_s() - machine_before_s) / elapsed_s, 2),
        }


async def _scheduled(
    http: aiohttp.ClientSession,
    count: int,
    given: argparse.Namespace,
    kubeconfig: Path,
    watched: dict[str, int],
    folder: Path,
) -> dict[str, Any]:
    logs = [folder / f"scheduler-{number}.log" for number in range(count)]
    bindings = Bindings()
    with ExitStack() as stack:
        command = _command(kubeconfig, count, given)
        pids = [stack.enter_context(child(command, log)).pid for log in logs]
        await _ready(http, logs)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            await create(http, PODS, pod, range(given.pods))
            watcher = asyncio.create_task(watch(http, bindings, PODS))
            await asyncio.sleep(0.5)  # it watches from here on
            cpu_s, server = _machine_cpu_s(), _Server(watched)
            before = [usage(pid).cpu_s for pid in pids]
            begun = perf_counter()
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        await all_bound(bindings, given.pods, logs[0])
        elapsed_s = perf_counter() - begun
        used_s = [usage(pid).cpu_s - at for pid, at in zip(pids, before, strict=True)]
        figures = server.read(given.pods, elapsed_s, cpu_s)
        watcher.cancel()
    return {
        "bound_per_s": round(given.pods / elapsed_s),
        "bound_per_s_middle": rates(bindings)["bound_per_s_middle"],
        **figures,
        "busiest_cores": round(max(used_s) / elapsed_s, 2),
        "busiest_ms_a_pod": round(1000 * max(used_s) / given.pods, 2),
        "all_ms_a_pod": round(1000 * sum(used_s) / given.pods, 2),
        "bound_twice": bindings.moved,
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.kube.shards", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=Path, help="a folder with etcd and kube-apiserver")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--schedulers", type=int, nargs="+", default=[0, 1, 2, 4])
    parser.add_argument("--profile", default="cotenant-requests")
    parser.add_argument("--qps", type=float, default=5000.0)
    parser.add_argument("--binds-in-flight", type=int, default=16)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    rows = []
    for count in given.schedulers:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(_measure(count, given, Path(folder)))
    show(rows, given.json, (f"{os.cpu_count()} cores", "real server" if given.programs else "local server"))


if __name__ == "__main__":
    main()
