"""A node's NUMA nodes in words, from its NodeResourceTopology: what machines are grouped and ordered by.

Machines of one cluster differ in how their CPUs are divided, and what is placed whole on one NUMA node depends on it.
The number of NUMA nodes and the CPUs of each, "2 x 16 CPU", read from the zones.
Limits: zones of type Node; where their sizes differ, all are named.
"""

from __future__ import annotations

from cotenant.drivers.kube.kinds.custom.node_resource_topology import ZONE_TYPE, NodeResourceTopology
from cotenant.model.errors import InvalidInput
from cotenant.model.quantities import parse_quantity
from cotenant.model.resources import CPU_NAME


def numa_words(seen: NodeResourceTopology) -> tuple[str, str]:
    """The node, and its NUMA nodes in words; empty where they are not reported. Raises `InvalidInput`."""
    node = seen.metadata.name or ""
    sizes: list[int] = []
    for zone in seen.zones or ():
        if zone.type != ZONE_TYPE:
            continue
        cpu = next((resource.capacity for resource in zone.resources or () if resource.name == CPU_NAME), None)
        if cpu is None:
            raise InvalidInput(f"NodeResourceTopology {node}: zone {zone.name}", "", "a capacity of cpu")
        sizes.append(parse_quantity(cpu, CPU_NAME).nano // 10**9)
    if not sizes:
        return node, ""
    if len(set(sizes)) == 1:
        return node, f"{len(sizes)} x {sizes[0]} CPU"
    return node, " + ".join(str(size) for size in sizes) + " CPU"
