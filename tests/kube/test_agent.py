"""The node agent against an API server: NodeMetric, the pods of its node, evictions that respect budgets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes.cluster.cpu_cluster import cpus
from tests.fakes.waiting import patience

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.custom.definitions import manifests
from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS, read_node_metric
from cotenant.drivers.kube.kinds.custom.node_resource_topology import NODE_TOPOLOGIES, read_node_topology
from cotenant.engine.node.doctor.found import NodeFound, OtherWriter
from cotenant.engine.node.report import Aggregate, NodeUsage, PodAverage, SeriesSummary
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.cpus.spec import TopologyPolicy
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.node_decision import EvictPod, Reason
from cotenant.model.machine.node_metric import Use
from cotenant.model.machine.node_pod import NodeContainer, NodePod, NodePodPhase
from cotenant.policy.overcommit.reclaimable import Reclaimable
from cotenant.services.agent.actions.evictions import ApiEvictor
from cotenant.services.agent.discovery.cluster_pods import ClusterPods
from cotenant.services.agent.reports.nodemetric import NodeMetricWriter
from cotenant.services.agent.reports.topology import NodeTopologyWriter
from cotenant.services.agent_settings.config import AgentConfig, ClusterAccess
from cotenant.services.nodeview.doctor import examine

CRD = dict(manifests())["nodemetrics"]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
POD = NodePod("u1", "shop", "web", "kubepods/podu1", qos=QoSClass.LS, priority_class=PriorityClass.PROD)
USAGE = NodeUsage(
    at_us=0,
    cpu_m=1500,
    memory_bytes=3 << 30,
    system_cpu_m=200,
    system_memory_bytes=None,
    node=tuple(Aggregate(s * 1_000_000, SeriesSummary(1500, 1400, 1800, 1900, 2500), None) for s in (300, 300, 600)),
    system=tuple(Aggregate(s * 1_000_000, None, None) for s in (300, 300, 600)),
    pods=(PodAverage(POD, 900, 1 << 30), PodAverage(replace(POD, name="new"), None, None)),
    applications=(PodAverage(replace(POD, namespace="host", name="ntp"), 10, None),),
)


def with_client(kube: Any, scenario: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Client(load_access(kube.kubeconfig), qps=1000, burst=1000, in_flight=4) as client:
            await scenario(client)

    asyncio.run(run())


@pytest.fixture
def node_metric_kind(kube: Any) -> Iterator[None]:
    """Install the packaged definition unless the cluster has the kind already."""
    made = kube.request("GET", f"{CRDS}/nodemetrics.slo.koordinator.sh").code == 404
    if made:
        kube.create(CRDS, yaml.safe_load(CRD))
        kube.eventually(METRICS, lambda answer: answer.get("kind") == "NodeMetricList")
    yield
    if made:
        kube.request("DELETE", f"{CRDS}/nodemetrics.slo.koordinator.sh")
        kube.eventually(METRICS, lambda answer: "items" not in answer)


def once(cpu_m: float, memory: float) -> dict[str, Any]:
    """The history of a pod that was measured once."""
    spreads = ({"mean": value, "deviation": 0.0, "highest": value} for value in (cpu_m, memory))
    return {"samples": 1, "weight": 1.0, **dict(zip(("cpu", "memory"), spreads, strict=True))}


def test_a_node_metric_is_created_with_usage(kube: Any, node: str, node_metric_kind: None) -> None:
    asked: list[tuple[int, ...]] = []

    def usage(windows_us: Any) -> NodeUsage:
        asked.append(tuple(windows_us))
        return USAGE

    async def scenario(client: Client) -> None:
        writer = NodeMetricWriter(client, node, usage, lambda: 1_700_000_000.0, 60.0)
        assert await writer.write(), writer.problem
        assert writer.period_s == 60.0

    with_client(kube, scenario)
    assert asked == [(300_000_000, 300_000_000, 600_000_000, 1_800_000_000)]
    status = kube.get(f"{METRICS}/{node}")["status"]
    assert status["updateTime"] == "2023-11-14T22:13:20Z"
    metric = status["nodeMetric"]
    assert metric["nodeUsage"] == {"resources": {"cpu": "1500m", "memory": "3Gi"}}
    assert metric["systemUsage"] == {"resources": {"cpu": "200m"}}
    assert [entry["duration"] for entry in metric["aggregatedNodeUsages"]] == ["5m0s", "10m0s"]
    assert metric["aggregatedNodeUsages"][0]["usage"]["p99"] == {"resources": {"cpu": "2500m"}}
    assert set(metric["aggregatedNodeUsages"][0]["usage"]) == {"avg", "p50", "p90", "p95", "p99"}
    assert metric["aggregatedSystemUsages"] == []
    assert status["podsMetric"] == [
        {
            "namespace": "shop",
            "name": "web",
            "podUsage": {"resources": {"cpu": "900m", "memory": "1Gi"}},
            "priority": "koord-prod",
            "qos": "LS",
            "extensions": {"cotenant": {"useHistory": once(900.0, float(1 << 30))}},
        }
    ]
    assert status["hostApplicationMetric"][0]["name"] == "host/ntp"
    kube.delete(f"{METRICS}/{node}")


def test_the_spec_of_a_node_metric_sets_interval_and_windows(kube: Any, node: str, node_metric_kind: None) -> None:
    policy = {
        "aggregateDurationSeconds": 120,
        "reportIntervalSeconds": 15,
        "nodeAggregatePolicy": {"durations": ["1m0s", "nonsense", "1h0m0s"]},
    }
    asked: list[tuple[int, ...]] = []

    def usage(windows_us: Any) -> NodeUsage:
        asked.append(tuple(windows_us))
        return USAGE

    async def scenario(client: Client) -> None:
        writer = NodeMetricWriter(client, node, usage, lambda: 1_700_000_000.0, 60.0)
        assert await writer.write(), writer.problem
        assert writer.period_s == 15.0

    body = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": node}}
    kube.create(METRICS, {**body, "spec": {"metricCollectPolicy": policy}})
    with_client(kube, scenario)
    assert asked == [(120_000_000, 60_000_000, 3_600_000_000)]
    assert kube.get(f"{METRICS}/{node}")["spec"]["metricCollectPolicy"] == policy
    kube.delete(f"{METRICS}/{node}")


def test_a_prediction_is_written_and_removed_again(kube: Any, node: str, node_metric_kind: None) -> None:
    found = [Reclaimable(Use(2500, 3 << 30), Use(2500, 9 << 30), Use(9000, 3 << 30), 1, 0), None]

    async def scenario(client: Client) -> None:
        writer = NodeMetricWriter(client, node, lambda windows_us: USAGE, lambda: 1.7e9, 60.0, lambda: found[0])
        assert await writer.write(), writer.problem
        read = read_node_metric(await client.get(NODE_METRICS, "", node), lambda: 1.7e9)
        assert read.prod_reclaimable == Use(2500, 3 << 30)
        del found[0]
        assert await writer.write(), writer.problem

    with_client(kube, scenario)
    assert "prodReclaimableMetric" not in kube.get(f"{METRICS}/{node}")["status"]
    kube.delete(f"{METRICS}/{node}")


def test_what_this_agent_adds_to_pods_is_stored(kube: Any, node: str, node_metric_kind: None) -> None:
    """Our definition of the kind keeps extensions: a server prunes what a schema does not name."""

    async def scenario(client: Client) -> None:
        writer = NodeMetricWriter(client, node, lambda windows_us: USAGE, lambda: 1.7e9, 60.0)
        assert await writer.write(), writer.problem
        assert await writer.write(), writer.problem
        read = read_node_metric(await client.get(NODE_METRICS, "", node), lambda: 1.7e9)
        known = [pod.history for pod in (read.pods or {}).values() if pod.history is not None]
        assert known
        assert {history.samples for history in known} == {2}

    with_client(kube, scenario)
    kube.delete(f"{METRICS}/{node}")


def test_a_cluster_without_the_kind_is_reported_once(kube: Any, node: str, caplog: pytest.LogCaptureFixture) -> None:
    if kube.request("GET", METRICS).code != 404:
        pytest.skip("this cluster has the kind")

    async def scenario(client: Client) -> None:
        writer = NodeMetricWriter(client, node, lambda windows_us: USAGE, lambda: 1_700_000_000.0, 60.0)
        assert not await writer.write()
        assert not await writer.write()
        assert (writer.written, writer.failures) == (0, 2)

    with_client(kube, scenario)
    assert sum("is not written" in record.message for record in caplog.records) == 1


class Groups:
    """The cgroups created by the kubelet."""

    def __init__(self, *pods: NodePod) -> None:
        self.found = pods

    async def pods(self) -> tuple[NodePod, ...]:
        return self.found


def test_pods_of_the_node_carry_the_servers_fields(
    kube: Any, node: str, pods: str, namespace: str, make_pod: Any
) -> None:
    body = make_pod("web", nodeName=node)
    body["metadata"]["labels"]["koordinator.sh/qosClass"] = "LS"
    body["metadata"]["annotations"] = {"cotenant.io/tenant": "shop", "cotenant.io/objective-p99-ms": "2.5"}
    resources = {"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}
    body["spec"]["containers"][0]["resources"] = resources
    made = kube.create(pods, body)
    kube.create(pods, make_pod("elsewhere"))
    uid = made["metadata"]["uid"]
    group = NodePod(uid, "", uid, f"kubepods/pod{uid}", containers=(NodeContainer("c", "kubepods/c"),))
    orphan = NodePod("other", "", "other", "kubepods/podother")

    async def scenario(client: Client) -> None:
        news = asyncio.Event()
        source = ClusterPods(client, node, Groups(group, orphan), news.set)
        before, _ = await source.pods()
        assert before == group  # before the first list the pod is known by its cgroup only
        watching = asyncio.create_task(source.run())
        async with asyncio.timeout(patience(20)):
            while (await source.pods())[0].name != "web":
                await news.wait()
                news.clear()
        found, other = await source.pods()
        assert other.uid == "other"
        assert (found.key, found.group, found.qos, found.tenant) == (
            f"{namespace}/web",
            group.group,
            QoSClass.LS,
            "shop",
        )
        assert found.objective_p99_us == 2500
        assert (found.cpu_request_m, found.memory_request_bytes) == (250, 64 << 20)
        assert found.containers[0].memory_limit_bytes == 128 << 20
        assert found.phase is NodePodPhase.RUNNING
        kube.request("DELETE", f"{pods}/web?gracePeriodSeconds=30")
        async with asyncio.timeout(patience(20)):
            while (await source.pods())[0].phase is not NodePodPhase.TERMINATING:
                await news.wait()
                news.clear()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    with_client(kube, scenario)
    kube.request("DELETE", f"{pods}/web", query={"gracePeriodSeconds": "0"})


def test_an_eviction_respects_budgets_and_the_pods_uid(
    kube: Any, node: str, pods: str, namespace: str, make_pod: Any
) -> None:
    made = kube.create(pods, make_pod("job", nodeName=node))
    ready = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
    }  # budgets do not cover pending pods
    kube.patch(f"{pods}/job/status", {"status": ready})
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "none"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "job"}}},
    }
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    kube.create(budgets, budget)

    def asked(uid: str) -> EvictPod:
        return EvictPod(uid, f"{namespace}/job", Reason("memory-eviction", "memory is short"))

    async def scenario(client: Client) -> None:
        evictions = ApiEvictor(client)
        accepted, said = await evictions.evict(asked(made["metadata"]["uid"]))
        assert not accepted
        assert said.startswith("not now")
        kube.delete(f"{budgets}/none")
        accepted, said = await evictions.evict(asked("00000000-0000-0000-0000-000000000000"))
        assert not accepted
        assert "409" in said
        accepted, said = await evictions.evict(asked(made["metadata"]["uid"]))
        assert accepted, said

    with_client(kube, scenario)


def test_without_a_cluster_and_without_permission_to_kill_no_pod_is_evicted() -> None:
    async def scenario() -> None:
        killed: list[str] = []
        plain = EvictPod("group:batch/one", "jobs/one", Reason("r", "x"))
        assert not (await ApiEvictor().evict(plain))[0]
        assert not (await ApiEvictor().evict(replace(plain, uid="u1")))[0]
        assert not (await ApiEvictor(None, killed.append, ("other",)).evict(plain))[0]
        assert killed == []
        assert (await ApiEvictor(None, killed.append, ("batch",)).evict(plain))[0]
        assert killed == ["batch/one"]

    asyncio.run(scenario())


TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"


@pytest.fixture
def topology_kind(kube: Any) -> Iterator[None]:
    """Install the definition that `cotenant crds` prints unless the cluster has the kind already."""
    name = f"{CRDS}/noderesourcetopologies.topology.node.k8s.io"
    made = kube.request("GET", name).code == 404
    if made:
        kube.create(CRDS, yaml.safe_load(dict(manifests())["noderesourcetopologies"]))
        kube.eventually(TOPOLOGIES, lambda answer: answer.get("kind") == "NodeResourceTopologyList")
    yield
    if made:
        kube.request("DELETE", name)
        kube.eventually(TOPOLOGIES, lambda answer: "items" not in answer)


def test_a_nodes_cpu_topology_is_published_once_and_on_change(kube: Any, node: str, topology_kind: None) -> None:
    online: list[Any] = list(cpus())
    told: list[bool] = []
    kubelet = [KubeletFacts()]

    async def scenario(client: Client) -> None:
        writer = NodeTopologyWriter(
            client, node, tuple, cpus=lambda: online, memory=lambda: ((0, 1 << 30),), kubelet=lambda: kubelet[0]
        )
        told.append(await writer.write())
        told.append(await writer.write())
        online.pop()
        told.append(await writer.write())
        assert (writer.problem, writer.failures, writer.written) == ("", 0, 2)
        seen = read_node_topology(await client.get(NODE_TOPOLOGIES, "", node))
        assert seen.topology.mask == 0b1111111
        assert [(zone.node, zone.cpu_m, zone.memory_bytes) for zone in seen.zones] == [
            (0, 4000, 1 << 30),
            (1, 4000, None),
        ]
        assert not seen.kubelet_gives
        kubelet[0] = KubeletFacts(cpu_manager="static", topology_manager="restricted", reserved_cpus=(0,))
        told.append(await writer.write())
        told.append(await writer.write())
        seen = read_node_topology(await client.get(NODE_TOPOLOGIES, "", node))
        assert (seen.kubelet_gives, seen.policy, seen.reserved) == (True, TopologyPolicy.RESTRICTED, 0b1)

    with_client(kube, scenario)
    assert told == [True, False, True, True, False]
    kube.delete(f"{TOPOLOGIES}/{node}")


def test_the_doctor_sees_koordlet_and_the_kubelets_version(
    kube: Any, node: str, namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "cpu").mkdir()
    config = AgentConfig(node=node, cgroup_root=tmp_path, cluster=ClusterAccess(kubeconfig=Path(kube.kubeconfig)))

    def seen() -> NodeFound:
        return asyncio.run(examine(config, single=True, checkpoint=tmp_path / "none"))

    assert seen().writers == ()
    kube.create(
        f"/api/v1/namespaces/{namespace}/pods",
        {
            "metadata": {"name": "koordlet-x", "labels": {"koord-app": "koordlet"}},
            "spec": {"nodeName": node, "containers": [{"name": "koordlet", "image": "registry.example/k:1"}]},
        },
    )
    kube.patch(f"/api/v1/nodes/{node}/status", {"status": {"nodeInfo": {"kubeletVersion": "v1.36.2"}}})
    found = seen()
    assert found.writers == (OtherWriter("koordlet", f"a pod on {node}"),)
    assert found.kubelet.version == (1, 36)
