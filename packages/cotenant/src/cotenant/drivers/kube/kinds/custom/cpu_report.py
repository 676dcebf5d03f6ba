"""NodeResourceTopology as the manager reads it: what a node's agent reports of its CPU, and its NUMA zones.

A struct of its own with the parts that are used, so that assignments of CPUs, which change with every pod, are not
parsed.
Limits: an annotation that cannot be read counts as none, and so do the zones where one of them has no CPU or memory, or
amounts that cannot be read.
Source: Koordinator, apis/extension (cpu normalization); NodeResourceTopology v1alpha1 (zones).
"""

from __future__ import annotations

from msgspec import field

from cotenant.drivers.kube.kinds.custom.node_resource_topology import NODE_TOPOLOGIES, ZONE_TYPE, TopologyZone
from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind
from cotenant.drivers.kube.kinds.managed_node import SHORT
from cotenant.model.cluster.annotations import LENT_TERMS
from cotenant.model.cpus.basic_info import CPU_BASIC_INFO, CpuInfo, read_cpu_info
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import Use
from cotenant.model.machine.zones import LentZone, NodeZones
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, parse_amount


class CpuReportAnnotations(ApiStruct, frozen=True):
    """The annotations that are used."""

    cpu: str | None = field(default=None, name=CPU_BASIC_INFO)
    lent: str | None = field(default=None, name=LENT_TERMS)


class CpuReportMeta(ApiStruct, frozen=True):
    """ObjectMeta with those annotations."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    annotations: CpuReportAnnotations | None = None


class CpuReport(ApiStruct, frozen=True):
    """topology.node.k8s.io NodeResourceTopology."""

    metadata: CpuReportMeta = CpuReportMeta()
    zones: tuple[TopologyZone, ...] | None = None


CPU_REPORTS = Kind(
    NODE_TOPOLOGIES.name,
    NODE_TOPOLOGIES.group,
    NODE_TOPOLOGIES.version,
    NODE_TOPOLOGIES.plural,
    NODE_TOPOLOGIES.namespaced,
    CpuReport,
)


def read_cpu_report(obj: CpuReport) -> tuple[str, CpuInfo | None]:
    """The node's name and its CPU; None where it is not reported, or cannot be read."""
    text = obj.metadata.annotations.cpu if obj.metadata.annotations is not None else None
    try:
        return obj.metadata.name or "", None if text is None else read_cpu_info(text)
    except InvalidInput:
        return obj.metadata.name or "", None


def read_node_zones(obj: CpuReport) -> NodeZones:
    """The node's NUMA zones; without zones where they cannot be read."""
    name = obj.metadata.name or ""
    written = (obj.metadata.annotations.lent if obj.metadata.annotations is not None else None) or ""
    try:
        found = [read for zone in obj.zones or () if (read := _zone(zone, name)) is not None]
    except InvalidInput:
        found = []
    if len({zone.number for zone in found}) < len(found) or any(min(zone.size) <= 0 for zone in found):
        found = []
    return NodeZones(name, tuple(sorted(found, key=lambda zone: zone.number)), written)


def _zone(zone: TopologyZone, node: str) -> LentZone | None:
    """A NUMA node; None for zones of other types. Raises `InvalidInput`."""
    number = zone.name.removeprefix("node-")
    if zone.type != ZONE_TYPE or number == zone.name or not (number.isascii() and number.isdecimal()):
        return None
    amounts = {zone_resource.name: zone_resource.allocatable for zone_resource in zone.resources or ()}

    def amount(resource: str) -> int:
        return parse_amount(resource, amounts.get(resource, 0), f"NodeResourceTopology {node}: {zone.name}.{resource}")

    lent = {short: amount(long) for short, long in SHORT.items() if long in amounts}
    return LentZone(zone.name, int(number), Use(amount(CPU_NAME), amount(MEMORY_NAME)), lent)
