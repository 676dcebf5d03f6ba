"""All devices of one node, from its Device object.

A scheduler tracks the devices of thousands of nodes, and one invalid entry must not invalidate the others. One frozen
value per node; an invalid entry is a device that is never allocated, with a message about it.
Limits: free amounts are not included; they depend on the allocations (policy/placement/devices/ledger.py).

Source: Koordinator, Device CRD and the labels and annotations beside it (apis/extension/device_share.go).
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cluster.demands import UNENFORCED
from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.partition import GPU_MODEL, PARTITION_POLICY, PartitionTable, table_of_model
from cotenant.model.devices.request import NVIDIA, RESOURCES, VENDORS, type_of

LINK_DOMAIN = "cotenant.io/link-domain"  # label of a device: devices with equal values are connected directly
GPU_ISOLATION = "koordinator.sh/gpu-isolation-provider"  # label of a pod: what is to enforce its share of a GPU
NODE_ISOLATION = "cotenant.io/gpu-isolation-provider"  # label of a Device object or a node: what enforces shares there
LENT_RETURN = "cotenant.io/lent-gpu-return-seconds"  # label of a Device object: how soon what is lent comes back
# Labels of a node whose kubelet's device plugin gives a card to several pods: NVIDIA's since 0.15 and before, GKE's
PLUGIN_SHARING = ("nvidia.com/gpu.sharing-strategy", "cloud.google.com/gke-gpu-sharing-strategy")
PLUGIN_REPLICAS = "nvidia.com/gpu.replicas"
HELD_BY_PLUGIN = "device-plugin-mps"  # MPS of the device plugin limits memory and multiprocessors
GPU_VENDOR = "node.koordinator.sh/gpu-vendor"  # label of a Device object or a node
HONOR = "Honor"  # value of PARTITION_POLICY: only sets of the table may be allocated


@dataclass(frozen=True, slots=True)
class JudgedResources:
    """The resources of a node's devices, whether advertised or not. Called with the node.

    A resource that names a vendor counts only for devices of that vendor: by the label of the Device object or of the
    node, else by the vendors that the node advertises, else NVIDIA, as nodes without a label are in Koordinator.
    """

    types: frozenset[DeviceType]
    vendor: str  # by the Device object's label; empty = by the node

    def __call__(self, node: Node) -> frozenset[str]:
        """The resource names."""
        label = self.vendor or node.labels.get(GPU_VENDOR) or ""
        advertised = {vendor for name, vendor in VENDORS.items() if node.allocatable.get(name)}
        vendors = {label.lower()} if label else advertised or {NVIDIA}
        return frozenset(
            name for name in RESOURCES if type_of(name) in self.types and VENDORS.get(name) in (None, *vendors)
        )


def plugin_shares(labels: Labels) -> str:
    """What enforces the part of a card that a device plugin gives for a whole one, `UNENFORCED` where nothing does;
    empty where it gives whole ones.
    """
    found = next((strategy for name in PLUGIN_SHARING if (strategy := labels.get(name))), "")
    if not found:
        replicas = labels.get(PLUGIN_REPLICAS) or ""
        return UNENFORCED if replicas.isdecimal() and replicas not in ("0", "1") else ""
    return {"none": "", "mps": HELD_BY_PLUGIN}.get(found, UNENFORCED)


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """Devices of one node. `labels` are the Device object's; the node's own labels apply where it has none."""

    node: str
    devices: tuple[Device, ...]
    table: PartitionTable | None = None  # as annotated
    labels: Labels = NO_LABELS
    wrong: tuple[str, ...] = ()  # messages about invalid entries

    def judged_resources(self) -> JudgedResources:
        """The resources that these devices serve, by the node."""
        return JudgedResources(frozenset(device.type for device in self.devices), self.labels.get(GPU_VENDOR) or "")

    def isolation(self, node_labels: Labels) -> str:
        """What enforces shares of these GPUs; empty where nothing is said to."""
        return self.labels.get(NODE_ISOLATION) or node_labels.get(NODE_ISOLATION) or ""

    def returns_s(self) -> int:
        """Within how many seconds what is lent of these GPUs is wanted back; 0 where nobody says."""
        text = self.labels.get(LENT_RETURN) or ""
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= 6 else 0

    def partitions(self, node_labels: Labels) -> tuple[PartitionTable | None, bool]:
        """The sets of GPUs that can be allocated together, and whether only those may be."""
        model = self.labels.get(GPU_MODEL) or node_labels.get(GPU_MODEL)
        policy = self.labels.get(PARTITION_POLICY) or node_labels.get(PARTITION_POLICY)
        return self.table or table_of_model(model), policy == HONOR
