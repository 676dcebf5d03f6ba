"""Docker's running containers as pods: class, tenant and objective by their labels, groups by their first process.

A container is `GROUP/NAME`, where the group is that of the fleet, or the project of Compose, else `docker`. Docker has
no annotations, so its labels are both; those about CPUs that a scheduler gave are not believed, since whoever starts a
container writes them. Containers of a kubelet are left to their own sources.
Limits: without a label a container is protected (LS), whatever it requests; requests, limits and the group are read
once per container, so those of a later `docker update` count after a restart of the agent.

Source: Docker Engine API, version 1.41.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from cotenant.drivers.cri.discovery import UID, group_of_process
from cotenant.drivers.docker.client import DockerClient, NotThere
from cotenant.drivers.kubelet.declared import DeclaredPod, merged
from cotenant.model.cluster.annotations import OBJECTIVE_P99_MS, TENANT
from cotenant.model.cluster.labels import Labels
from cotenant.model.json_object import JsonMapping
from cotenant.model.machine.node_pod import NodeContainer, NodePod

GROUP_LABELS = ("cotenant.io/group", "com.docker.compose.project")
MEMBER_LABELS = ("cotenant.io/appkey", "com.docker.compose.service")
CPU_REQUEST, MEMORY_REQUEST = "cotenant.io/cpu-milli", "cotenant.io/memory-bytes"
_SAID = frozenset({OBJECTIVE_P99_MS, TENANT})
_OTHERS = "docker"


class DockerPods:
    """Implements engine/node/interfaces.PodDiscovery. Close the client."""

    def __init__(self, client: DockerClient, proc_root: str = "/proc") -> None:
        self._client = client
        self._proc = Path(proc_root)
        self._known: dict[str, NodeContainer] = {}  # by container's id

    async def pods(self) -> tuple[NodePod, ...]:
        """All that run and have a group. Raises `Transient` where the daemon is away."""
        listed = [entry for entry in await self._client.get("/containers/json") if UID not in (entry["Labels"] or {})]
        containers = await asyncio.gather(*(self._container(entry) for entry in listed))
        self._known = {found.container_id: found for found in containers if found is not None}
        return tuple(_pod(entry, found) for entry, found in zip(listed, containers, strict=True) if found is not None)

    async def _container(self, listed: JsonMapping) -> NodeContainer | None:
        known = self._known.get(listed["Id"])
        if known is not None:
            return known
        try:
            found = await self._client.get(f"/containers/{listed['Id']}/json")
        except NotThere:
            return None
        group = self._group_of(int(found["State"].get("Pid") or 0))
        return _amounts(found, group, listed["Labels"] or {}) if group else None

    def _group_of(self, pid: int) -> str:
        try:
            lines = (self._proc / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        return group_of_process(lines) if pid else ""


def _pod(listed: JsonMapping, container: NodeContainer) -> NodePod:
    labels: Mapping[str, str] = listed["Labels"] or {}
    namespace = _first(labels, GROUP_LABELS) or _OTHERS
    member = _first(labels, MEMBER_LABELS) or container.name
    networks = (listed.get("NetworkSettings") or {}).get("Networks") or {}
    said = {name: value for name, value in labels.items() if name in _SAID}
    declared = DeclaredPod(
        uid=container.container_id,
        namespace=namespace,
        name=container.name,
        labels=Labels.of(labels),
        annotations=Labels.of(said),
        owner=f"Container {member}",
        addresses=tuple(
            address for network in networks.values() for address in [network.get("IPAddress") or ""] if address
        ),
    )
    found = NodePod(
        container.container_id,
        namespace,
        container.name,
        container.group,
        containers=(container,),
        host_application=True,
    )
    return merged(found, declared)


def _amounts(found: JsonMapping, group: str, labels: Mapping[str, str]) -> NodeContainer:
    host = found.get("HostConfig") or {}
    shares, quota, period = (int(host.get(name) or 0) for name in ("CpuShares", "CpuQuota", "CpuPeriod"))
    limit_m = int(host.get("NanoCpus") or 0) // 1_000_000
    if not limit_m and quota > 0:
        limit_m = quota * 1000 // (period or 100_000)
    return NodeContainer(
        name=str(found["Name"]).lstrip("/"),
        group=group,
        container_id=str(found["Id"]),
        cpu_request_m=_whole(labels.get(CPU_REQUEST)) or (shares * 1000 // 1024 if shares > 2 else 0),
        cpu_limit_m=limit_m,
        memory_request_bytes=_whole(labels.get(MEMORY_REQUEST)) or int(host.get("MemoryReservation") or 0),
        memory_limit_bytes=max(0, int(host.get("Memory") or 0)),
    )


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _whole(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 19 else 0
