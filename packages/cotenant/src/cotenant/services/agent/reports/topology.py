"""Writes this node's NodeResourceTopology: its CPUs, their assignment to pods, and the resources of its NUMA nodes.

A scheduler assigns CPUs only where a node reports them, and a CPU may go offline at any time. The machine is read each
period, and at once where the facts about the kubelet change, which a keeper tells some seconds after the start; the
object is created where it does not exist, and patched where it differs: our annotations, and the zones where no other
agent has written any. CPUs assigned by the kubelet's static policy are reported as such, so that they
are not assigned again, and its policies, where they are known: by them schedulers leave its CPUs to it.
Limits: of reserved CPUs, those that the agent's or the kubelet's configuration names; where the kind is not installed,
that is logged once and retried each period.
Source: Koordinator, koordlet's NodeResourceTopology (names of annotations; zones node-0 and so on).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from cotenant.drivers.kube.client.client import MERGE_PATCH, Client
from cotenant.drivers.kube.client.errors import AlreadyExists, NotFound
from cotenant.drivers.kube.kinds.custom.node_resource_topology import (
    NODE_TOPOLOGIES,
    ZONE_TYPE,
    KubeletPolicy,
    NodeReservation,
    PodCpus,
    allocs_text,
    annotation_text,
    pools_text,
    said_by,
    topology_text,
)
from cotenant.drivers.proc.cpu_model import read_cpu_model
from cotenant.drivers.proc.topology import read_memory_bytes, read_topology
from cotenant.model.cpus.basic_info import CPU_BASIC_INFO, CpuInfo, cpu_info_text
from cotenant.model.cpus.cpulist import format_cpus
from cotenant.model.cpus.reported import (
    CPU_SHARED_POOLS,
    CPU_TOPOLOGY,
    KUBELET_CPU_MANAGER_POLICY,
    NODE_RESERVATION,
    POD_CPU_ALLOCS,
)
from cotenant.model.json_object import JsonObject
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.counters import LogicalCpu
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.quantities import format_bytes
from cotenant.services.agent.reports.object_writer import ObjectWriter

PERIOD_S = 60.0
LOOK_S = 2.0  # between two looks at the facts about the kubelet
_POLICIES = {"none": "None", "best-effort": "BestEffort", "restricted": "Restricted"}


class NodeTopologyWriter(ObjectWriter):
    """Writes the NodeResourceTopology of one node."""

    def __init__(
        self,
        client: Client,
        node: str,
        pods: Callable[[], Sequence[NodePod]],
        reserved: Callable[[], Sequence[int]] = tuple,
        *,
        cpus: Callable[[], Sequence[LogicalCpu]] = read_topology,
        memory: Callable[[], Sequence[tuple[int, int]]] = read_memory_bytes,
        kubelet: Callable[[], KubeletFacts] = KubeletFacts,
        model: Callable[[Sequence[LogicalCpu]], CpuInfo | None] = read_cpu_model,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(NODE_TOPOLOGIES.name, client, node, PERIOD_S)
        self._pods = pods
        self._reserved = reserved
        self._cpus = cpus
        self._memory = memory
        self._kubelet = kubelet
        self._model = model
        self._sleep = sleep
        self._facts = KubeletFacts()  # of the last write, or the last try

    async def run(self) -> None:
        """Write, until cancelled."""
        while True:
            await self.write()
            await self.rest()

    async def rest(self) -> None:
        """Until the next write is due: a period, or less where the facts about the kubelet change."""
        for _ in range(round(self.period_s / LOOK_S)):
            await self._sleep(LOOK_S)
            if self._kubelet() != self._facts:
                return

    async def _update(self) -> bool | None:
        cpus, kubelet = tuple(self._cpus()), self._kubelet()
        self._facts = kubelet
        if not cpus:
            return None
        annotations = annotations_of(cpus, tuple(self._pods()), tuple(self._reserved()), kubelet)
        model = self._model(cpus)
        if model is not None:
            annotations[CPU_BASIC_INFO] = cpu_info_text(model)
        return await self._write(annotations, zones(cpus, self._memory()), policies_of(kubelet))

    async def _write(self, annotations: Mapping[str, str | None], parts: list[JsonObject], policies: list[str]) -> bool:
        try:
            found = await self._client.get(NODE_TOPOLOGIES, "", self._node)
        except NotFound:
            body = {
                "apiVersion": f"{NODE_TOPOLOGIES.group}/{NODE_TOPOLOGIES.version}",
                "kind": NODE_TOPOLOGIES.name,
                "metadata": {
                    "name": self._node,
                    "annotations": {key: text for key, text in annotations.items() if text},
                },
                "topologyPolicies": policies or ["None"],
                "zones": parts,
            }
            try:
                await self._client.create(NODE_TOPOLOGIES, "", body)
                return True
            except AlreadyExists:  # made by another agent at this moment
                found = await self._client.get(NODE_TOPOLOGIES, "", self._node)
        patch: JsonObject = {}
        stands = said_by(found)
        if any(stands.get(key) != text for key, text in annotations.items()):
            patch["metadata"] = {"annotations": dict(annotations)}
        if policies and list(found.topology_policies or ()) != policies:
            patch["topologyPolicies"] = policies
        if not found.zones:
            patch["zones"] = parts
        if patch:
            await self._client.patch(NODE_TOPOLOGIES, "", self._node, patch, content_type=MERGE_PATCH)
        return bool(patch)


def annotations_of(
    cpus: Sequence[LogicalCpu], pods: Sequence[NodePod], reserved: Sequence[int], kubelet: KubeletFacts
) -> dict[str, str | None]:
    """What is to be annotations, by annotation; None = nothing, so that what was annotations before goes."""
    by_uid = {pod.uid: pod for pod in pods}
    allocs = [
        PodCpus(
            namespace=by_uid[uid].namespace if uid in by_uid else "",
            name=by_uid[uid].name if uid in by_uid else "",
            uid=uid,
            cpuset=format_cpus(given),
            managed_by_kubelet=True,
        )
        for uid, given in kubelet.given_cpus
        if given
    ]
    managed = {alloc.uid for alloc in allocs}
    allocs += [
        PodCpus(namespace=pod.namespace, name=pod.name, uid=pod.uid, cpuset=format_cpus(pod.own_cpus))
        for pod in sorted(pods, key=lambda node_pod: node_pod.key)
        if pod.own_cpus and pod.uid not in managed
    ]
    taken = {cpu for pod in pods for cpu in pod.own_cpus} | {cpu for _, given in kubelet.given_cpus for cpu in given}
    policy = KubeletPolicy(
        policy=kubelet.cpu_manager,
        options=dict(kubelet.cpu_options) or None,
        reserved_cpus=format_cpus(kubelet.reserved_cpus),
    )
    return {
        CPU_TOPOLOGY: topology_text(cpus),
        CPU_SHARED_POOLS: pools_text(cpus, taken | {*reserved, *kubelet.reserved_cpus}),
        POD_CPU_ALLOCS: allocs_text(allocs) if allocs else None,
        KUBELET_CPU_MANAGER_POLICY: annotation_text(policy) if kubelet.cpu_manager else None,
        NODE_RESERVATION: annotation_text(NodeReservation(reserved_cpus=format_cpus(reserved))) if reserved else None,
    }


def policies_of(kubelet: KubeletFacts) -> list[str]:
    """The kubelet's topology manager policy in this object's words; empty where it is not known."""
    if kubelet.topology_manager == "single-numa-node":
        return [f"SingleNUMANode{'Pod' if kubelet.topology_scope == 'pod' else 'Container'}Level"]
    return [_POLICIES[kubelet.topology_manager]] if kubelet.topology_manager in _POLICIES else []


def zones(cpus: Sequence[LogicalCpu], memory: Sequence[tuple[int, int]]) -> list[JsonObject]:
    """One zone per NUMA node with CPUs."""
    sizes = dict(memory)
    found = []
    for node in sorted({cpu.numa for cpu in cpus}):
        amounts = {"cpu": str(sum(cpu.numa == node for cpu in cpus))}
        if node in sizes:
            amounts["memory"] = format_bytes(sizes[node])
        resources = [
            {"name": name, "capacity": amount, "allocatable": amount, "available": amount}
            for name, amount in amounts.items()
        ]
        found.append({"name": f"node-{node}", "type": ZONE_TYPE, "resources": resources})
    return found
