"""Simulated nodes and controllers on one in-memory API: node failure, restore and deletion, and the start of a
workload.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.fakes.processes.plain_cluster import template
from tests.fault.local_controllers.test_running import no_cost

from cotenant.model.cluster.annotations import FAIL
from cotenant_local.apiserver.assembly import assemble
from cotenant_local.apiserver.contract import MERGE, ListOptions
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.verbs.api import Api
from cotenant_local.controllers.registry import controller_manager
from cotenant_local.controllers.runtime.actions import JOBS, NODES, PODS, REPLICA_SETS, ResourceName
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.runtime.runner import Runner
from cotenant_local.nodes.fleet import NodeFleet, NodeSize
from cotenant_local.nodes.simulated import SimulatedNodes
from cotenant_local.workloads.submitter import Submitter


async def _for_good(seconds: float) -> None:
    """Renewals are made by `later`: real time that passes on a busy machine makes none."""
    await asyncio.Event().wait()


class Cluster:
    """A cluster with its own clock: `later` advances it and wakes all waiting tasks."""

    def __init__(self, api: Api, now: list[float], nodes: int) -> None:
        self.api, self.now = api, now
        self.informers = Informers(api)
        self.runner: Runner = controller_manager(self.informers, lambda: now[0], cpu_s=no_cost)
        fleet = NodeFleet(nodes, NodeSize(cores=8, memory_bytes=32 << 30))
        self.nodes = SimulatedNodes(self.informers, fleet, speed=60.0, clock=lambda: now[0], sleep=_for_good)

    async def later(self, seconds: float, step: float = 1.0) -> None:
        for _ in range(int(seconds / step)):
            self.now[0] += step
            for name in self.nodes._fleet.names():  # the renewals of a second, without sleeping for them
                if self.nodes.kubelets.is_up(name) and int(self.now[0]) % 10 == 0:
                    await self.nodes._heartbeat(name)
            await self.quiet()

    async def quiet(self) -> None:
        for _ in range(3):
            self.nodes.kubelets.advance(self.now[0])
            self.nodes._flush()
            await self.nodes.delivery.idle()
            for loop in self.runner._loops:
                loop._wake.set()
            await self.runner.until_quiet()

    async def all(self, resource: ResourceName, namespace: str = "default") -> list[Any]:
        return [i.decode() for i in (await self.api.list(self.api.target(*resource, namespace), ListOptions())).items]

    async def make(self, resource: ResourceName, obj: dict[str, Any]) -> None:
        await self.api.create(self.api.target(*resource, "default"), obj)

    async def annotate(self, node: str, value: str | None) -> None:
        body = msgspec.json.encode({"metadata": {"annotations": {FAIL: value}}})
        await self.api.patch(self.api.target("", "nodes", "", node), body, MERGE)
        await self.quiet()

    async def ready(self, node: str) -> str:
        found = next(n for n in await self.all(NODES, "") if n["metadata"]["name"] == node)
        return str(next(c["status"] for c in found["status"]["conditions"] if c["type"] == "Ready"))


def serve(case: Callable[[Cluster], Awaitable[None]], nodes: int = 3) -> None:
    async def main() -> None:
        now = [1_800_000_000.0]
        api = assemble(Store(clock=lambda: now[0]), clock=lambda: now[0], rng=random.Random(1))
        await api.bootstrap()
        cluster = Cluster(api, now, nodes)
        try:
            await cluster.runner.start()
            await cluster.nodes.start()
            await cluster.nodes.running.wait()
            await cluster.quiet()
            await case(cluster)
        finally:
            await cluster.nodes.stop()
            await cluster.runner.stop()
            await cluster.informers.stop()
            await api.close()

    asyncio.run(main())


def a_pod(name: str, node: str, **spec: Any) -> dict[str, Any]:
    body = {**template()["spec"], "nodeName": node, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": body}


def test_nodes_register_ready_and_untainted_with_a_lease() -> None:
    async def case(c: Cluster) -> None:
        nodes = await c.all(NODES, "")
        assert [n["metadata"]["name"] for n in nodes] == ["node-0000", "node-0001", "node-0002"]
        assert all(not n["spec"].get("taints") for n in nodes)
        assert nodes[0]["status"]["allocatable"]["cpu"] == "8"
        leases = await c.all(("coordination.k8s.io", "leases"), "kube-node-lease")
        assert len(leases) == 3
        assert leases[0]["spec"]["leaseDurationSeconds"] == 40

    serve(case)


def test_a_failed_node_is_tainted_and_its_pods_are_evicted_after_their_toleration() -> None:
    async def case(c: Cluster) -> None:
        stays = [{"operator": "Exists"}]
        soon = [
            {
                "key": "node.kubernetes.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 20,
            }
        ]
        await c.make(PODS, a_pod("soon", "node-0001", tolerations=soon))
        await c.make(PODS, a_pod("stays", "node-0001", tolerations=stays))
        await c.make(PODS, a_pod("elsewhere", "node-0002"))
        await c.later(2)
        assert {p["status"]["phase"] for p in await c.all(PODS)} == {"Running"}
        await c.annotate("node-0001", "true")
        await c.later(35)
        assert await c.ready("node-0001") == "True"
        await c.later(20)
        assert await c.ready("node-0001") == "Unknown"
        assert await c.ready("node-0002") == "True"
        node = next(n for n in await c.all(NODES, "") if n["metadata"]["name"] == "node-0001")
        assert {t["effect"] for t in node["spec"]["taints"]} == {"NoSchedule", "NoExecute"}
        ending = {p["metadata"]["name"]: "deletionTimestamp" in p["metadata"] for p in await c.all(PODS)}
        assert ending == {"soon": False, "stays": False, "elsewhere": False}
        await c.later(30)
        ending = {p["metadata"]["name"]: "deletionTimestamp" in p["metadata"] for p in await c.all(PODS)}
        assert ending == {"soon": True, "stays": False, "elsewhere": False}  # no kubelet is there to terminate it
        await c.annotate("node-0001", None)
        await c.later(5)
        assert await c.ready("node-0001") == "True"
        assert {p["metadata"]["name"] for p in await c.all(PODS)} == {"stays", "elsewhere"}
        node = next(n for n in await c.all(NODES, "") if n["metadata"]["name"] == "node-0001")
        assert not node["spec"].get("taints")

    serve(case)


def test_nodes_become_ready_again_after_the_process_was_paused() -> None:
    async def case(c: Cluster) -> None:
        await c.make(PODS, a_pod("p", "node-0001"))
        await c.later(2)
        c.now[0] += 60  # longer than the Lease duration, without a renewal
        await c.quiet()
        assert {await c.ready(f"node-000{i}") for i in range(3)} == {"Unknown"}
        await c.later(12)
        assert {await c.ready(f"node-000{i}") for i in range(3)} == {"True"}
        assert not any(n["spec"].get("taints") for n in await c.all(NODES, ""))
        (pod,) = await c.all(PODS)
        assert pod["status"]["phase"] == "Running"
        assert "deletionTimestamp" not in pod["metadata"]

    serve(case)


def test_a_job_runs_to_its_end() -> None:
    async def case(c: Cluster) -> None:
        pod = template("w", nodeName="node-0000", restartPolicy="Never")
        pod["metadata"]["annotations"] = {"cotenant.io/run-seconds": "120"}
        spec = {"parallelism": 2, "completions": 3, "template": pod}
        await c.make(
            JOBS,
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"}, "spec": spec},
        )
        await c.later(8)
        (job,) = await c.all(JOBS)
        assert job["status"]["succeeded"] == 3
        assert [x["type"] for x in job["status"]["conditions"]][-1] == "Complete"

    serve(case)


def test_a_second_process_takes_over_the_nodes_and_their_pods() -> None:
    async def case(c: Cluster) -> None:
        work = a_pod("work", "node-0000", restartPolicy="Never")
        work["metadata"]["annotations"] = {"cotenant.io/run-seconds": "1200"}  # twenty seconds at this speed
        await c.make(PODS, work)
        await c.later(10)
        await c.nodes.stop()
        again = SimulatedNodes(
            c.informers, NodeFleet(3, NodeSize(cores=8, memory_bytes=32 << 30)), speed=60.0, clock=lambda: c.now[0]
        )
        c.nodes = again
        await again.start()
        await again.running.wait()
        await c.later(8)
        assert (await c.all(PODS))[0]["status"]["phase"] == "Running"
        await c.later(5)
        assert (await c.all(PODS))[0]["status"]["phase"] == "Succeeded"
        assert len(await c.all(NODES, "")) == 3

    serve(case)


def test_a_workload_submits_services_first_and_batch_jobs_over_time() -> None:
    async def case(c: Cluster) -> None:
        submitter = Submitter(
            c.informers, "colocation", 10, NodeSize(), seed=1, speed=60.0, clock=lambda: c.now[0], days=1
        )
        await submitter.start()
        await c.quiet()
        sets = await c.all(REPLICA_SETS, "colocation")
        assert len(sets) == submitter.progress.services > 0
        pods = await c.all(PODS, "colocation")
        assert len(pods) >= submitter.progress.replicas
        assert all(p["spec"]["schedulerName"] == "cotenant" for p in pods)
        assert {p["spec"]["priority"] for p in pods if p["metadata"]["name"].startswith("service")} == {9500}
        assert submitter.progress.refused == 0
        await submitter.stop()

    serve(case)


@pytest.mark.slow
def test_a_cordon_stands_while_its_node_fails_and_recovers_and_goes_when_it_is_lifted_in_any_of_these_states() -> None:
    """The cordon's taint and those of the failure come and go each by itself."""
    lost = {"node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"}
    cordoned = {"node.kubernetes.io/unschedulable:NoSchedule"}

    async def case(c: Cluster) -> None:
        async def cordon(value: bool | None) -> None:
            body = msgspec.json.encode({"spec": {"unschedulable": value}})
            await c.api.patch(c.api.target("", "nodes", "", "node-0001"), body, MERGE)
            await c.later(2)

        async def taints() -> set[str]:
            node = next(n for n in await c.all(NODES, "") if n["metadata"]["name"] == "node-0001")
            return {f"{entry['key']}:{entry['effect']}" for entry in node["spec"].get("taints") or ()}

        await cordon(True)
        assert await taints() == cordoned
        await c.annotate("node-0001", "true")
        await c.later(60)
        assert await c.ready("node-0001") == "Unknown"
        assert await taints() == cordoned | lost  # failed while cordoned
        await cordon(None)
        assert await taints() == lost  # lifted while failed
        await cordon(True)
        assert await taints() == cordoned | lost  # cordoned while failed
        await c.annotate("node-0001", None)
        await c.later(5)
        assert await c.ready("node-0001") == "True"
        assert await taints() == cordoned  # recovered while cordoned
        await cordon(None)
        assert await taints() == set()

    serve(case)
