"""All devices of one node, from its Device object.

Problem: a scheduler tracks the devices of thousands of nodes, and one invalid entry must not invalidate the others. Choice: one frozen value per
node; an invalid entry is a device that is never allocated, with a message about it. Limits: free amounts are not included; they depend on the
allocations (policy/placement/devices/ledger.py).

Source: Koordinator, Device CRD and the labels and annotations beside it (apis/extension/device_share.go).
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.devices.device import Device
from cotenant.model.devices.partition import GPU_MODEL, PARTITION_POLICY, PartitionTable, table_of_model

LINK_DOMAIN = "cotenant.io/link-domain"  # label of a device: devices with equal values are connected directly
HONOR = "Honor"  # value of PARTITION_POLICY: only sets of the table may be allocated


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """Devices of one node. `labels` are the Device object's; the node's own labels apply where it has none."""

    node: str
    devices: tuple[Device, ...]
    table: PartitionTable | None = None  # as annotated
    labels: Labels = NO_LABELS
    wrong: tuple[str, ...] = ()  # messages about invalid entries

    def partitions(self, node_labels: Labels) -> tuple[PartitionTable | None, bool]:
        """The sets of GPUs that can be allocated together, and whether only those may be."""
        model = self.labels.get(GPU_MODEL) or node_labels.get(GPU_MODEL)
        policy = self.labels.get(PARTITION_POLICY) or node_labels.get(PARTITION_POLICY)
        return self.table or table_of_model(model), policy == HONOR
