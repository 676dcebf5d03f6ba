"""The NodeResourceTopology objects of simulated nodes: sockets, cores and threads, as an agent would publish them.

Exclusive CPUs are assigned only on nodes that publish theirs. One shape for the whole fleet, CPUs numbered as Linux
does on most machines (the first threads of all cores, then the second), one NUMA node per socket with an equal part of
the memory.
Limits: nothing is reserved for the kubelet; the objects are created once and never updated; a simulated pod runs as
fast on exclusive CPUs as elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cotenant.drivers.kube.kinds.custom.node_resource_topology import NODE_TOPOLOGIES, ZONE_TYPE, topology_text
from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.cpus.reported import CPU_TOPOLOGY
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.counters import LogicalCpu

_TEXT = re.compile(r"([1-9][0-9]{0,2})x([1-9][0-9]{0,3})x([1-9])")


@dataclass(frozen=True, slots=True)
class CpuShape:
    """Sockets, cores per socket, threads per core."""

    sockets: int
    cores: int
    threads: int

    @classmethod
    def parse(cls, text: str, cpus: int, field: str) -> CpuShape:
        """Parse "2x8x2". Raises `InvalidInput` unless the product is `cpus`."""
        found = _TEXT.fullmatch(text)
        expected = f"SOCKETSxCORESxTHREADS with a product of {cpus} CPUs, such as 2x{max(1, cpus // 4)}x2"
        if found is None:
            raise InvalidInput(field, text, expected)
        shape = cls(*(int(part) for part in found.groups()))
        if shape.sockets * shape.cores * shape.threads != cpus:
            raise InvalidInput(field, text, expected)
        return shape

    def cpus(self) -> tuple[LogicalCpu, ...]:
        """All logical CPUs."""
        total_cores = self.sockets * self.cores
        return tuple(
            LogicalCpu(thread * total_cores + core, core, core // self.cores, core // self.cores)
            for thread in range(self.threads)
            for core in range(total_cores)
        )


def topology_manifest(name: str, uid: str, shape: CpuShape, memory_bytes: int) -> Manifest:
    """A node's topology object, owned by the node and deleted with it."""
    per_socket = shape.cores * shape.threads
    memory = f"{memory_bytes // shape.sockets // 1024}Ki"
    metadata: Manifest = {"name": name, "annotations": {CPU_TOPOLOGY: topology_text(shape.cpus())}}
    if uid:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}]
    return {
        "apiVersion": f"{NODE_TOPOLOGIES.group}/{NODE_TOPOLOGIES.version}",
        "kind": NODE_TOPOLOGIES.name,
        "metadata": metadata,
        "topologyPolicies": ["None"],
        "zones": [
            {
                "name": f"node-{socket}",
                "type": ZONE_TYPE,
                "resources": [
                    {"name": resource, "capacity": amount, "allocatable": amount, "available": amount}
                    for resource, amount in (("cpu", str(per_socket)), ("memory", memory))
                ],
            }
            for socket in range(shape.sockets)
        ],
    }
