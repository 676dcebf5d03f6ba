"""`cotenant scheduler` on the local API server, over HTTP: scheduling directives are honoured end to end.

These cases create their own nodes, so they run against the local server only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.fakes.waiting import soon

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.policy.placement.profiles import profile
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.scheduler.scheduler_process import SchedulerProcess
from cotenant.services.scheduling.options import Options
from cotenant_local.apiserver import patching
from cotenant_local.apiserver.http.app import ApiServerApp
from cotenant_local.apiserver.http.auth import Credentials
from cotenant_local.apiserver.http.server import ApiServer
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.verbs.api import Api

pytestmark = pytest.mark.slow  # a server and a scheduler each

Obj = dict[str, Any]


class Cluster:
    """A local API server, a client, and a scheduler."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.scheduler: SchedulerProcess | None = None

    async def node(self, name: str, cpu: str = "4", taints: list[Obj] | None = None, **labels: str) -> None:
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        await self.client.create(
            NODES,
            "",
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
                "spec": {"taints": taints} if taints else {},
                "status": {
                    "capacity": amounts,
                    "allocatable": amounts,
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        )

    async def pod(self, name: str, cpu: str = "1", labels: dict[str, str] | None = None, **spec: Any) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
        await self.client.create(
            PODS,
            "default",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": labels or {}},
                "spec": {"schedulerName": "cotenant", "containers": [container], **spec},
            },
        )

    async def get(self, name: str) -> Obj:
        return msgspec.json.decode(await self.client.request("GET", PODS.path("default", name)))

    async def until(self, name: str, holds: Callable[[Obj], bool]) -> Obj:
        """Poll the pod; watches are what the scheduler under test uses."""

        async def found() -> Obj | None:
            pod = await self.get(name)
            return pod if holds(pod) else None

        pod = await soon(f"pod {name}", found)
        assert pod is not None
        return pod

    async def placed(self, name: str) -> str:
        return (await self.until(name, lambda pod: bool(pod["spec"].get("nodeName"))))["spec"]["nodeName"]

    async def refused(self, name: str) -> str:
        def told(pod: Obj) -> bool:
            return any(
                c["type"] == "PodScheduled" and c["status"] == "False" for c in pod["status"].get("conditions", ())
            )

        pod = await self.until(name, told)
        return next(c["message"] for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")


@asynccontextmanager
async def running() -> AsyncIterator[Cluster]:
    api = Api(Store(), patching=patching, taints_new_nodes=False)
    await api.bootstrap()
    server = ApiServer(ApiServerApp(api, Credentials("secret-of-the-test")))
    await server.start()
    access = Access(server.url, FixedCredential(Credential("Bearer secret-of-the-test")))
    stop = asyncio.Event()
    process = SchedulerProcess(
        access, profile("cotenant-requests"), Options(listen=Address("127.0.0.1", 0)), "test", lambda client: Alone()
    )
    scheduling = asyncio.create_task(process.run(stop))
    try:
        async with Client(access, qps=float("inf"), burst=100, in_flight=16) as client:
            cluster = Cluster(client)
            cluster.scheduler = process
            yield cluster
            process.cluster.validate()
    finally:
        stop.set()
        await scheduling
        await server.stop()
        await api.close()


def run(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        async with running() as cluster:
            await scenario(cluster)

    asyncio.run(main())


def test_the_decision_is_recorded_with_the_bind() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.node("a")
        await cluster.pod("x")
        assert await cluster.placed("x") == "a"
        pod = await cluster.get("x")
        decision = msgspec.json.decode(pod["metadata"]["annotations"]["cotenant.io/decision"])
        assert decision["policy"] == "cotenant-requests"
        assert {"type": "PodScheduled", "status": "True"}.items() <= next(
            c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"
        ).items()

    run(scenario)


def test_selectors_taints_and_gates() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.node("fast", disk="ssd")
        await cluster.node("slow")
        await cluster.node("own", taints=[{"key": "team", "value": "x", "effect": "NoSchedule"}])
        await cluster.pod("wants", nodeSelector={"disk": "ssd"})
        assert await cluster.placed("wants") == "fast"
        await cluster.pod("lost", nodeSelector={"disk": "tape"})
        assert await cluster.refused("lost") == (
            "0/3 nodes are available: 1 node(s) had untolerated taint {team: x}, 2 node(s) didn't match Pod's node "
            "affinity/selector."
        )
        await cluster.pod(
            "tolerant",
            "4",
            tolerations=[{"key": "team", "operator": "Exists"}],
            nodeSelector={"kubernetes.io/hostname": "own"},
        )
        assert await cluster.placed("tolerant") == "own"
        await cluster.pod("gated", schedulingGates=[{"name": "example.com/wait"}])
        await cluster.pod("after")
        await cluster.placed("after")
        assert "nodeName" not in (await cluster.get("gated"))["spec"]
        await cluster.client.patch(PODS, "default", "gated", {"spec": {"schedulingGates": []}})
        await cluster.placed("gated")

    run(scenario)


def test_spread_anti_affinity_affinity_and_host_ports() -> None:
    async def scenario(cluster: Cluster) -> None:
        for name, zone in (("a", "1"), ("b", "1"), ("c", "2")):
            await cluster.node(name, "8", **{"topology.kubernetes.io/zone": zone})
        web = {"matchLabels": {"app": "web"}}
        spread = {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "labelSelector": web,
            "whenUnsatisfiable": "DoNotSchedule",
        }
        for i in range(4):
            await cluster.pod(f"web-{i}", labels={"app": "web"}, topologySpreadConstraints=[spread])
        nodes = [await cluster.placed(f"web-{i}") for i in range(4)]
        assert nodes.count("c") == 2
        alone = {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
                ]
            }
        }
        for i in range(3):
            await cluster.pod(f"db-{i}", labels={"app": "db"}, affinity=alone)
        assert sorted([await cluster.placed(f"db-{i}") for i in range(3)]) == ["a", "b", "c"]
        near = {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"one": "leader"}}, "topologyKey": "kubernetes.io/hostname"}
                ]
            }
        }
        await cluster.pod("follower", affinity=near)
        assert "didn't match pod affinity rules" in await cluster.refused("follower")
        await cluster.pod("leader", labels={"one": "leader"})
        assert await cluster.placed("leader") == await cluster.placed("follower")
        port = {"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}
        for i in range(3):
            await cluster.pod(f"port-{i}", containers=[port])
        assert sorted([await cluster.placed(f"port-{i}") for i in range(3)]) == ["a", "b", "c"]
        await cluster.pod("port-3", containers=[port])
        assert "didn't have free ports" in await cluster.refused("port-3")

    run(scenario)


def test_preemption_with_nomination_and_budget() -> None:
    async def scenario(cluster: Cluster) -> None:
        client = cluster.client
        for name in ("a", "b"):
            await cluster.node(name, "1")
        high = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 1000,
        }
        await client.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", high)
        await cluster.pod("guarded", labels={"app": "guarded"}, terminationGracePeriodSeconds=0)
        await cluster.pod("free", terminationGracePeriodSeconds=0)
        homes = {await cluster.placed("guarded"), await cluster.placed("free")}
        assert homes == {"a", "b"}
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
        }
        await client.request("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
        where = await cluster.placed("free")
        await cluster.pod("vip", priorityClassName="high")
        assert await cluster.placed("vip") == where
        with pytest.raises(NotFound):
            await cluster.get("free")
        assert (await cluster.get("guarded"))["spec"]["nodeName"]

    run(scenario)


def test_a_finished_or_deleted_pod_makes_room() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.node("a", "1")
        await cluster.pod("one", terminationGracePeriodSeconds=0)
        await cluster.placed("one")
        await cluster.pod("two")
        assert "Insufficient cpu" in await cluster.refused("two")
        await cluster.client.patch_status(PODS, "default", "one", {"status": {"phase": "Succeeded"}})
        assert await cluster.placed("two") == "a"
        await cluster.pod("three")
        await cluster.refused("three")
        await cluster.client.delete(PODS, "default", "two", grace_s=0)
        assert await cluster.placed("three") == "a"

    run(scenario)
