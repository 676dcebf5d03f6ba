"""Pods that a real kubelet resizes in place, in this scheduler's books, and a RightSizing that acts on one.

Needs a real API server (COTENANT_TEST_KUBECONFIG) with a node whose kubelet resizes pods (1.33 or later) and has the
image of COTENANT_TEST_IMAGE, or can pull it. Its container has to run for as long as a case does.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fakes.waiting import soon
from tests.kube import definitions
from tests.kube.conftest import REAL, STRATEGIC, Kube

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.kinds.pod.on_node import NodePodObject, declared
from cotenant.drivers.kube.kinds.pod.sized import SizedPodObject, read_sized_pod
from cotenant.policy.placement.profiles import profile
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.manager.manager_process import ManagerOptions, ManagerProcess
from cotenant.services.scheduler.scheduler_process import SchedulerProcess
from cotenant.services.scheduling.options import Options

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not REAL, reason="COTENANT_TEST_KUBECONFIG names no server"),
]
IMAGE = os.environ.get("COTENANT_TEST_IMAGE", "registry.k8s.io/pause:3.10")
NAME = "cotenant-resizes"  # of the scheduler
WITHIN_S = 60.0
SLO = "/apis/slo.cotenant.io/v1alpha1"
Obj = dict[str, Any]


@pytest.fixture(scope="module")
def kube() -> Kube:
    return Kube(Path(REAL), is_local=False)


@pytest.fixture(scope="module")
def node(kube: Kube) -> str:
    """A node that runs pods and resizes them."""
    for found in kube.get("/api/v1/nodes")["items"]:
        version = found["status"].get("nodeInfo", {}).get("kubeletVersion", "v0.0").removeprefix("v").split(".")
        is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in found["status"].get("conditions", ()))
        if is_ready and (int(version[0]), int(version[1])) >= (1, 33):
            return str(found["metadata"]["name"])
    pytest.skip("no node of the server has a kubelet that resizes pods in place (1.33)")


@pytest.fixture(scope="module")
def kinds(kube: Kube) -> Iterator[None]:
    with definitions.installed(kube):
        yield


@pytest.fixture
def important(kube: Kube) -> Iterator[str]:
    made = kube.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": NAME}, "value": 1000})
    yield made["metadata"]["name"]
    kube.request("DELETE", f"/apis/scheduling.k8s.io/v1/priorityclasses/{NAME}")


def spec(node: str, cpu: str, limit: str = "", **more: Any) -> Obj:
    amounts: Obj = {"requests": {"cpu": cpu, "memory": "16Mi"}}
    if limit:
        amounts["limits"] = {"cpu": limit, "memory": "64Mi"}
    container = {"name": "c", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "resources": amounts}
    return {
        "schedulerName": NAME,
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [container],
        **more,
    }


class Pods:
    """Those of one namespace."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self.kube, self.path, self.namespace = kube, f"/api/v1/namespaces/{namespace}/pods", namespace
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        kube.request("POST", accounts, {"metadata": {"name": "default"}})  # made here where no controller makes it

    def create(self, name: str, of: Obj) -> None:
        self.kube.create(self.path, {"metadata": {"name": name}, "spec": of})

    def get(self, name: str) -> Obj:
        found: Obj = self.kube.get(f"{self.path}/{name}")
        return found

    def resize(self, name: str, cpu: str, limit: str = "") -> int:
        amounts: Obj = {"requests": {"cpu": cpu}} | ({"limits": {"cpu": limit}} if limit else {})
        body = {"spec": {"containers": [{"name": "c", "resources": amounts}]}}
        path = f"{self.path}/{name}/resize"
        return self.kube.request("PATCH", path, body, content_type=STRATEGIC).code

    async def until(self, name: str, what: str, holds: Callable[[Obj], bool]) -> Obj:
        def found() -> Obj | None:
            pod = self.get(name)
            return pod if holds(pod) else None

        return (await soon(f"{name}: {what}", found, WITHIN_S)) or {}


def in_place(cpu: str) -> Callable[[Obj], bool]:
    """Whether the kubelet says that the container has it."""

    def holds(pod: Obj) -> bool:
        (status,) = pod["status"].get("containerStatuses") or [{}]
        return bool(status.get("resources", {}).get("requests", {}).get("cpu") == cpu)

    return holds


def pending(reason: str) -> Callable[[Obj], bool]:
    return lambda pod: any(
        c["type"] == "PodResizePending" and c.get("reason") == reason for c in pod["status"].get("conditions", ())
    )


@asynccontextmanager
async def scheduling() -> AsyncIterator[SchedulerProcess]:
    options = Options(schedulers=(NAME,), listen=Address("127.0.0.1", 0), preempts_for_resizes=True)
    process = SchedulerProcess(load_access(REAL), profile("cotenant-requests"), options, "test", lambda client: Alone())
    stop = asyncio.Event()
    running = asyncio.create_task(process.run(stop))
    try:
        yield process
        process.cluster.validate()
    finally:
        stop.set()
        await running


def books(process: SchedulerProcess, key: str) -> int:
    """Milli-CPU of a pod that count."""
    entry = process.cluster.find(key)
    return -1 if entry is None else entry.seen.pod.requests.get("cpu")


def on_node(process: SchedulerProcess, node: str) -> tuple[int, int]:
    """Milli-CPU that the node has, and that pods have of it."""
    names, resources, capacity, requested = process.cluster.requested()
    row, column = names.index(node), resources.index("cpu")
    return int(capacity[row, column]), int(requested[row, column])


def seen_by_agent(pod: Obj) -> tuple[int | None, int | None]:
    """CPU request and limit by which the node's agent goes."""
    (container,) = declared(msgspec.json.decode(msgspec.json.encode(pod), type=NodePodObject)).containers
    return container.cpu_request_m, container.cpu_limit_m


def test_up_down_deferred_until_the_scheduler_makes_room_and_refused(
    kube: Kube, node: str, namespace: str, important: str
) -> None:
    pods = Pods(kube, namespace)
    web, small = f"{namespace}/web", f"{namespace}/small"

    async def scenario() -> None:
        async with scheduling() as process:
            pods.create("web", spec(node, "100m", "200m", priorityClassName=important))
            await pods.until("web", "runs", in_place("100m"))
            await soon("it counts", lambda: books(process, web) == 100, WITHIN_S)

            assert pods.resize("web", "200m", "400m") == 200
            pod = await pods.until("web", "was given more", in_place("200m"))
            await soon("the books follow up", lambda: books(process, web) == 200, WITHIN_S)
            assert seen_by_agent(pod) == (200, 400)

            assert pods.resize("web", "150m", "300m") == 200
            await pods.until("web", "was given less", in_place("150m"))
            await soon("the books follow down", lambda: books(process, web) == 150, WITHIN_S)

            has_m, taken_m = on_node(process, node)
            free_m = has_m - taken_m
            assert free_m > 300, "the node is too full for this case"
            pods.create("small", spec(node, f"{free_m - 100}m"))
            await pods.until("small", "runs", in_place(f"{free_m - 100}m"))
            await soon("it counts", lambda: books(process, small) == free_m - 100, WITHIN_S)

            wanted_m = free_m  # fits once `small` has gone
            assert pods.resize("web", f"{wanted_m}m", f"{wanted_m}m") == 200
            pod = await pods.until(
                "web", "is deferred, or was given it", lambda p: pending("Deferred")(p) or in_place(f"{wanted_m}m")(p)
            )
            if pending("Deferred")(pod):
                assert seen_by_agent(pod) == (150, 300), "the agent goes by what is in place"
            pod = await pods.until("web", "was given it once there was room", in_place(f"{wanted_m}m"))
            assert kube.request("GET", f"{pods.path}/small").code == 404
            await soon("the books have it", lambda: books(process, web) == wanted_m, WITHIN_S)
            await soon("and not the other", lambda: books(process, small) == -1, WITHIN_S)
            assert on_node(process, node)[1] == taken_m - 150 + wanted_m

            code = pods.resize("web", f"{2 * has_m}m", f"{2 * has_m}m")
            if code == 200:  # before Kubernetes 1.36 the server takes it, and the kubelet does not
                await pods.until("web", "is infeasible", pending("Infeasible"))
            await soon("what is infeasible does not count", lambda: books(process, web) == wanted_m, WITHIN_S)
            sized = read_sized_pod(msgspec.json.decode(msgspec.json.encode(pods.get("web")), type=SizedPodObject))
            assert sized.resized_by_others_s > 0, "the server notes who resized it"
            kube.delete(f"{pods.path}/web")
            await soon("the node is as it was", lambda: on_node(process, node)[1] <= taken_m - 150, WITHIN_S)

    asyncio.run(scenario())


def test_a_right_sizing_acts_proves_and_undoes(kube: Kube, node: str, namespace: str, kinds: None) -> None:
    pods = Pods(kube, namespace)
    template = {"metadata": {"labels": {"app": "wide"}}, "spec": spec(node, "300m", schedulerName="", nodeName=node)}
    del template["spec"]["schedulerName"], template["spec"]["nodeSelector"]
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    kube.create(
        deployments,
        {
            "metadata": {"name": "wide"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "wide"}}, "template": template},
        },
    )
    sizing = f"{SLO}/namespaces/{namespace}/rightsizings/wide"
    kube.create(
        sizing.removesuffix("/wide"),
        {
            "apiVersion": "slo.cotenant.io/v1alpha1",
            "kind": "RightSizing",
            "metadata": {"name": "wide"},
            "spec": {
                "workload": {"kind": "Deployment", "name": "wide"},
                "mode": "act",
                "minHistory": "2s",
                "proof": "3s",
                "patience": "10m",
            },
        },
    )

    def replicas() -> list[Obj]:
        found = kube.get(pods.path, labelSelector="app=wide")["items"]
        return [pod for pod in found if pod["status"].get("phase") != "Failed"]  # refused by the node's kubelet

    def report() -> None:
        """What an agent would: 50m and 10 MiB of each."""
        metrics = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
        use = {"resources": {"cpu": "50m", "memory": "10Mi"}}
        measured = [{"name": pod["metadata"]["name"], "namespace": namespace, "podUsage": use} for pod in replicas()]
        body: Obj = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": node}}
        kube.request("POST", metrics, body)
        status = {"updateTime": kube.now(), "nodeMetric": {"nodeUsage": use}, "podsMetric": measured}
        kube.patch(f"{metrics}/{node}/status", {"status": status})

    async def scenario() -> None:
        await soon("both run", lambda: len(replicas()) == 2 and all(map(in_place("300m"), replicas())), WITHIN_S)
        options = ManagerOptions(listen=Address("127.0.0.1", 0), right_sizing=True)
        process = ManagerProcess(load_access(REAL), options, "test", lambda client: Alone())
        stop = asyncio.Event()
        running = asyncio.create_task(process.run(stop))

        def receipts() -> list[Obj]:
            report()
            found: list[Obj] = kube.get(sizing).get("status", {}).get("receipts", [])
            return found

        def have(cpu: str) -> bool:
            return all(map(in_place(cpu), replicas()))

        try:
            (receipt,) = await soon("a change is proven", receipts, 5 * WITHIN_S)
            assert receipt["outcome"] == "done", receipt
            goal_m = receipt["after"]["cpuRequestM"]
            assert 50 <= goal_m < 150
            assert have(f"{goal_m}m"), "the kubelet says what the receipt does"
            assert not any(pod["status"]["containerStatuses"][0]["restartCount"] for pod in replicas())
            sized = [
                read_sized_pod(msgspec.json.decode(msgspec.json.encode(pod), type=SizedPodObject)) for pod in replicas()
            ]
            assert not any(pod.resized_by_others_s > 0 for pod in sized), "its own resizes are nobody else's"
            kube.patch(sizing, {"spec": {"undo": receipt["id"]}})
            await soon("and taken back", lambda: receipts()[0]["outcome"] == "undone", 5 * WITHIN_S)
            assert have("300m")
        finally:
            stop.set()
            await running

    try:
        asyncio.run(scenario())
    finally:
        kube.request("DELETE", f"/apis/slo.koordinator.sh/v1alpha1/nodemetrics/{node}")
        kube.request("DELETE", f"{deployments}/wide", propagationPolicy="Background")
