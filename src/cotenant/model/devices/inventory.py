"""All devices of one node, as its Device object tells them.

Problem: a scheduler must know the devices of thousands of nodes, and one entry that makes no sense must not take its neighbours with it. Choice: one
frozen value a node; an entry that cannot be used is a device that is given to nobody, with a sentence about it. Limits: what is free is not
here; that is a matter of who holds what (policy/placement/devices/ledger.py).

Source: Koordinator, Device CRD and the labels and annotations beside it (apis/extension/device_share.go).
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.devices.device import Device
from cotenant.model.devices.partition import GPU_MODEL, PARTITION_POLICY, PartitionTable, table_of_model

LINK_DOMAIN = "cotenant.io/link-domain"  # label of a device: those with equal ones reach one another directly
HONOR = "Honor"  # value of PARTITION_POLICY: only sets of the table


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """What one node has. `labels` are the Device object's; the node's own speak where it has none."""

    node: str
    devices: tuple[Device, ...]
    table: PartitionTable | None = None  # as annotated
    labels: Labels = NO_LABELS
    wrong: tuple[str, ...] = ()  # sentences about entries that cannot be used

    def partitions(self, node_labels: Labels) -> tuple[PartitionTable | None, bool]:
        """The sets of GPUs that go together, and whether only those may be given."""
        model = self.labels.get(GPU_MODEL) or node_labels.get(GPU_MODEL)
        policy = self.labels.get(PARTITION_POLICY) or node_labels.get(PARTITION_POLICY)
        return self.table or table_of_model(model), policy == HONOR
