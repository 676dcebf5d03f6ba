"""NodeResourceTopology as the manager reads it: what a node's agent reports of its CPU.

Choice: a struct of its own with that one annotation, so that assignments of CPUs, which change with every pod, are not parsed. Limits: an annotation that cannot be read counts as none.
Source: Koordinator, apis/extension (cpu normalization).
"""

from __future__ import annotations

from msgspec import field

from cotenant.drivers.kube.kinds.custom.node_resource_topology import NODE_TOPOLOGIES
from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind
from cotenant.model.cpus.basic_info import CPU_BASIC_INFO, CpuInfo, read_cpu_info
from cotenant.model.errors import InvalidInput


class CpuReportAnnotations(ApiStruct, frozen=True):
    """The annotation that is used."""

    cpu: str | None = field(default=None, name=CPU_BASIC_INFO)


class CpuReportMeta(ApiStruct, frozen=True):
    """ObjectMeta with that annotation."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    annotations: CpuReportAnnotations | None = None


class CpuReport(ApiStruct, frozen=True):
    """topology.node.k8s.io NodeResourceTopology."""

    metadata: CpuReportMeta = CpuReportMeta()


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
