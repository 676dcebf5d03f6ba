"""Usage for `kubectl top`: of every running node and pod, also when it is small."""

from __future__ import annotations

import asyncio

import pytest
from tests.fakes.waiting import patience

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.cluster.report import NodeReport
from cotenant_local.apiserver.assembly import assemble
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.nodes.fleet import NodeFleet, NodeSize
from cotenant_local.nodes.simulated import SimulatedNodes
from cotenant_local.nodes.usage import FleetUsage


def a_pod() -> Manifest:
    containers = [
        {"name": "a", "image": "i", "resources": {"requests": {"cpu": "30m", "memory": "60Mi"}}},
        {"name": "b", "image": "i", "resources": {"requests": {"cpu": "10m"}}},
    ]
    spec = {"nodeName": "node-0001", "containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "x"}}, "spec": spec}


@pytest.mark.slow
def test_small_usage_is_shown_by_container() -> None:
    async def case() -> None:
        api = assemble(Store())
        await api.bootstrap()
        informers = Informers(api)
        nodes = SimulatedNodes(informers, NodeFleet(2, NodeSize()), speed=60.0)
        await informers.start()
        usage = FleetUsage(informers, nodes.kubelets)
        await nodes.start()
        await nodes.running.wait()
        assert [node.name for node in usage.nodes()] == ["node-0000", "node-0001"]
        assert not list(usage.pods(""))
        await api.create(api.target("", "pods", "default"), a_pod())
        async with asyncio.timeout(patience(20)):
            while not (found := list(usage.pods("default"))):
                await asyncio.sleep(0.05)
        assert found[0].labels == {"app": "x"}
        a, b = found[0].usage["a"], found[0].usage["b"]
        assert a.cpu_cores == pytest.approx(3 * b.cpu_cores)
        assert a.cpu_cores > 0.0
        assert b.memory_bytes == 0.0
        idle, busy = (node.usage[""] for node in usage.nodes())
        assert (idle.cpu_cores, idle.memory_bytes) == (0.0, 0.0)
        assert busy.cpu_cores == pytest.approx(a.cpu_cores + b.cpu_cores)
        assert busy.memory_bytes == pytest.approx(a.memory_bytes)
        nodes.fail("node-0001")
        assert [node.name for node in usage.nodes()] == ["node-0000"]
        await nodes.stop()
        await informers.stop()
        await api.close()

    asyncio.run(case())


def report(cores: float) -> NodeReport:
    return NodeReport(
        node="n",
        cpu_allocatable=32.0,
        cpu_used=cores,
        memory_allocatable=1e9,
        memory_used=0.0,
        latency_p99_ms=0.0,
        violation=0.0,
        dominant_share=0.0,
        fairness=1.0,
        at_s=0.0,
    )


def test_a_nodes_first_usage_is_annotated_whatever_it_is_and_so_is_its_end() -> None:
    async def case() -> None:
        nodes = SimulatedNodes(Informers(assemble(Store())), NodeFleet(1, NodeSize()))
        nodes._uids["n"] = "u"
        assert nodes._differs(report(0.01))
        nodes._annotated["n"] = (0.01 / 32.0, 0.0, 0.0)
        assert not nodes._differs(report(0.02))
        assert nodes._differs(report(0.0))
        assert nodes._differs(report(3.2))

    asyncio.run(case())
