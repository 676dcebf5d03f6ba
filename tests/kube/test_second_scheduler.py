"""A second scheduler binds onto the same nodes: no node is over capacity, and what a kubelet refuses is counted,
explained and made again.

Schedulers place optimistically: each decides by what it has seen, and the kubelet refuses what does not fit any more
(OutOfcpu). Here `Kubelets` does that by arithmetic of its own, in the order of the binds, and `ReplicaSets` makes a new
pod for each that was refused, as a controller would.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fakes.processes.real_control_plane import MISSING, control_plane
from tests.fakes.waiting import soon
from tests.kube.test_scheduler import Cluster, run

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Conflict, NotFound
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.policy.placement.profiles import profile
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.scheduler.scheduler_process import SchedulerProcess
from cotenant.services.scheduling.options import Options

pytestmark = pytest.mark.slow  # a server, a scheduler and hundreds of pods

NODES, CORES = 20, 16
EACH = 150  # pods of one core for each scheduler: together 300 on 320 cores
PER_S = 150.0  # each
REFUSED = "its node's kubelet refused a pod: OutOfcpu"


class World:
    """The nodes' kubelets, the pods' controllers and the second scheduler of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.client = cluster, cluster.client
        self.refused: Counter[str] = Counter()  # by scheduler
        self.most = 0  # cores in use on a node at a time
        self._judged: set[str] = set()
        self._admitted: dict[str, set[str]] = {}  # UIDs by node
        self._made = 0

    async def pods(self) -> list[dict[str, Any]]:
        return list(msgspec.json.decode(await self.client.request("GET", PODS.path("default")))["items"])

    async def make(self, scheduler: str) -> None:
        self._made += 1
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}
        spec = {"schedulerName": scheduler, "containers": [container]}
        meta = {"name": f"p{self._made}"}
        await self.client.create(PODS, "default", {"metadata": meta, "spec": spec})

    async def make_all(self, scheduler: str) -> None:
        for _ in range(EACH):
            await self.make(scheduler)
            await asyncio.sleep(1.0 / PER_S)

    async def kubelets(self) -> None:
        """Admit bound pods in the order of their binds; make another for each that is refused."""
        while True:
            bound = [pod for pod in await self.pods() if pod["spec"].get("nodeName")]
            for pod in sorted(bound, key=lambda one: int(one["metadata"]["resourceVersion"])):
                uid = pod["metadata"]["uid"]
                if uid in self._judged:
                    continue
                self._judged.add(uid)
                here = self._admitted.setdefault(pod["spec"]["nodeName"], set())
                if len(here) < CORES:
                    here.add(uid)
                    self.most = max(self.most, len(here))
                    status: dict[str, Any] = {"phase": "Running"}
                else:
                    words = f"Node didn't have enough resource: cpu, requested: 1000, used: {CORES * 1000}"
                    status = {"phase": "Failed", "reason": "OutOfcpu", "message": words}
                    self.refused[pod["spec"]["schedulerName"]] += 1
                    await self.make(pod["spec"]["schedulerName"])
                await self.client.patch_status(PODS, "default", pod["metadata"]["name"], {"status": status})
            await asyncio.sleep(0.02)

    async def other_scheduler(self) -> None:
        """First fit by what a list showed, several binds for each list: as far behind as a watch may be."""
        while True:
            pods = [pod for pod in await self.pods() if pod["status"].get("phase") != "Failed"]
            used = Counter(pod["spec"].get("nodeName") for pod in pods)
            waiting = [
                pod for pod in pods if not pod["spec"].get("nodeName") and pod["spec"]["schedulerName"] == "other"
            ]
            for pod in waiting:
                node = next((name for i in range(NODES) if used[name := f"n{i}"] < CORES), "")
                if not node:
                    break
                used[node] += 1
                meta = pod["metadata"]
                try:
                    await self.client.bind("default", meta["name"], meta["uid"], node, {})
                except (Conflict, NotFound):
                    continue
            await asyncio.sleep(0.05)

    async def settled(self) -> bool:
        live = [pod for pod in await self.pods() if pod["status"].get("phase") != "Failed"]
        return len(live) == 2 * EACH and all(pod["status"].get("phase") == "Running" for pod in live)


async def both_bind(cluster: Cluster, other: str) -> None:
    """Our scheduler and another one, whose name in pods this is, place as many pods at the same time."""
    for i in range(NODES):
        await cluster.node(f"n{i}", cpu=str(CORES))
    world = World(cluster)
    background = [asyncio.create_task(world.kubelets())]
    if other == "other":
        background.append(asyncio.create_task(world.other_scheduler()))
    try:
        await asyncio.gather(world.make_all("cotenant"), world.make_all(other))
        await soon("every replica runs", world.settled, 120.0)
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
    pods = await world.pods()
    live = Counter(pod["spec"]["nodeName"] for pod in pods if pod["status"]["phase"] == "Running")
    assert max(live.values()) <= CORES
    assert world.most <= CORES
    by_scheduler = Counter(pod["spec"]["schedulerName"] for pod in pods if pod["status"]["phase"] == "Running")
    assert by_scheduler == {"cotenant": EACH, other: EACH}
    assert cluster.scheduler is not None
    counts, refused = cluster.scheduler.cluster.counts, world.refused["cotenant"]
    await soon(f"it has counted {refused}", lambda: counts.get(REFUSED, 0) == refused)


def test_two_schedulers_at_three_hundred_pods_a_second() -> None:
    run(lambda cluster: both_bind(cluster, "other"))


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_beside_kube_scheduler_on_a_real_api_server(tmp_path: Path) -> None:
    async def case() -> None:
        async with control_plane(tmp_path) as kubeconfig:
            access, stop = load_access(kubeconfig), asyncio.Event()
            options = Options(listen=Address("127.0.0.1", 0))
            process = SchedulerProcess(access, profile("cotenant-requests"), options, "test", lambda client: Alone())
            scheduling = asyncio.create_task(process.run(stop))
            try:
                async with Client(access, qps=float("inf"), burst=100, in_flight=16) as client:
                    cluster = Cluster(client)
                    cluster.scheduler = process
                    await both_bind(cluster, "default-scheduler")
                process.cluster.validate()
            finally:
                stop.set()
                await scheduling

    asyncio.run(case())


def test_a_pod_that_its_kubelet_refuses_is_counted_and_its_room_is_free_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.node("n0", cpu="1")
        world = World(cluster)
        await world.make("cotenant")
        assert await cluster.placed("p1") == "n0"
        words = "Node didn't have enough resource: cpu, requested: 1000, used: 1000, capacity: 1000"
        status = {"status": {"phase": "Failed", "reason": "OutOfcpu", "message": words}}
        await cluster.client.patch_status(PODS, "default", "p1", status)
        await world.make("cotenant")
        assert await cluster.placed("p2") == "n0"
        assert cluster.scheduler is not None
        assert cluster.scheduler.cluster.counts[REFUSED] == 1

    run(scenario)
