"""The nodes of the training cluster in racks and blocks, and their GPUs, as an API server would report them.

Racks, blocks and GPUs are read by several parts of the engine, each from its own object. One value per node with all of
its facts.
Limits: all nodes are equal; link domains are as on eight-GPU boards with a switch: every GPU reaches every other.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.resources import CPU_NAME, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, MEMORY_NAME, Amounts
from cotenant_lab.workloads.training import (
    GPU_BYTES,
    GPUS_A_NODE,
    NODE_CPU_MILLI,
    NODE_MEMORY,
    NODES_A_RACK,
    RACKS_A_BLOCK,
    WHOLE,
)

RACK = "topology.cotenant.io/rack"
BLOCK = "topology.cotenant.io/block"


@dataclass(frozen=True, slots=True)
class RackedNode:
    """A node, its rack, and its devices."""

    node: Node
    rack: str
    devices: tuple[Device, ...]


def racked_nodes(count: int) -> tuple[RackedNode, ...]:
    """Equal nodes, in racks and blocks."""
    return tuple(_node(i) for i in range(count))


def _node(i: int) -> RackedNode:
    rack = i // NODES_A_RACK
    name = f"rack-{rack}-node-{i % NODES_A_RACK}"
    labels = Labels.of({HOSTNAME: name, RACK: f"rack-{rack}", BLOCK: f"block-{rack // RACKS_A_BLOCK}"})
    allocatable = {
        CPU_NAME: NODE_CPU_MILLI,
        MEMORY_NAME: NODE_MEMORY,
        GPU_CORE: GPUS_A_NODE * WHOLE,
        GPU_MEMORY_RATIO: GPUS_A_NODE * WHOLE,
    }
    return RackedNode(Node(name, Amounts.of(allocatable), labels), f"rack-{rack}", gpus(GPUS_A_NODE))


def gpus(count: int) -> tuple[Device, ...]:
    """The GPUs of one node: two per PCIe switch, four per NUMA node, all linked."""
    total = Amounts.of({GPU_CORE: WHOLE, GPU_MEMORY_RATIO: WHOLE, GPU_MEMORY: GPU_BYTES})
    return tuple(
        Device(DeviceType.GPU, minor, total, numa=minor // 4, pcie=str(minor // 2), link="0") for minor in range(count)
    )
