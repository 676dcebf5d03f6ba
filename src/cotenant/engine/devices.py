"""Who holds which GPUs: an integer ledger of every device, in milli-GPU.

Problem: a share handed out twice, or given back twice, is found only when two pods fight over a device. Choice: every grant is
kept by its owner with the exact devices, the free columns change by whole grants only, an allocation that does not fit is refused
before anything changes, and `validate` recomputes the free columns from the grants. Limits: it trusts its caller on whether a
device works; health belongs to the node's report.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.model.errors import InvalidInput, Permanent
from cotenant.policy.placement.gpu_state import MISFIT_TEXT, WHOLE_GPU_MILLI, GpuNodes, GpuShapes, Misfit, misfit, take


@dataclass(frozen=True, slots=True)
class Grant:
    """What one owner holds: shape `shape` on node row `row`, on the devices of the mask."""

    row: int
    shape: int
    devices: int


class DeviceLedger:
    """The nodes' free CPU, memory and devices, and every grant. `nodes` is read-only for everyone else."""

    def __init__(self, nodes: GpuNodes, shapes: GpuShapes) -> None:
        """Start with idle nodes: the free columns are made from what the nodes have."""
        idle = (np.arange(nodes.gpu_free.shape[1]) < nodes.gpu_count[:, None]).astype(np.int64) * WHOLE_GPU_MILLI
        self.nodes = nodes._replace(cpu_free=nodes.cpu.copy(), memory_free=nodes.memory.copy(), gpu_free=idle)
        self.shapes = shapes
        self.grants: dict[int, Grant] = {}

    def allocate(self, owner: int, row: int, shape: int, devices: int) -> None:
        """Hand shape `shape` on node `row` to `owner`, on exactly the devices of the mask.

        Raises:
            InvalidInput: the owner holds something already, the shape does not fit, or the devices are not what it asks for.
        """
        nodes, shapes = self.nodes, self.shapes
        if owner in self.grants:
            raise InvalidInput("owner", owner, "one that holds nothing yet", f"it holds {self.grants[owner]}")
        if not 0 <= row < len(nodes.cpu):
            raise InvalidInput("row", row, f"0..{len(nodes.cpu) - 1}")
        if reason := misfit(nodes, row, shapes, shape):
            raise InvalidInput("shape", shape, f"one that fits node {row}", MISFIT_TEXT[Misfit(reason)])
        wanted, milli = int(shapes.gpu_count[shape]), int(shapes.gpu_milli[shape])
        if devices < 0 or devices >> int(nodes.gpu_count[row]) or devices.bit_count() != wanted:
            raise InvalidInput("devices", bin(devices), f"{wanted} of the {nodes.gpu_count[row]} devices of node {row}")
        for device in range(int(nodes.gpu_count[row])):
            if devices >> device & 1 and nodes.gpu_free[row, device] < milli:
                raise InvalidInput("devices", bin(devices), f"{milli} milli-GPU left on device {device} of node {row}")
        take(nodes, row, shapes, shape, devices, 1)
        self.grants[owner] = Grant(row, shape, devices)

    def release(self, owner: int) -> Grant:
        """Take back what `owner` holds, and return it.

        Raises:
            InvalidInput: the owner holds nothing.
        """
        grant = self.grants.pop(owner, None)
        if grant is None:
            raise InvalidInput("owner", owner, "one that holds devices")
        take(self.nodes, grant.row, self.shapes, grant.shape, grant.devices, -1)
        return grant

    def validate(self) -> None:
        """Recompute the free columns from the grants.

        Raises:
            Permanent: a column differs, or is over capacity or negative; the message names the node.
        """
        fresh = DeviceLedger(self.nodes, self.shapes)
        for grant in self.grants.values():
            take(fresh.nodes, grant.row, self.shapes, grant.shape, grant.devices, 1)
        for column in ("cpu_free", "memory_free", "gpu_free"):
            expected, found = getattr(fresh.nodes, column), getattr(self.nodes, column)
            wrong = (expected != found) | (expected < 0)
            if wrong.any():
                row = int(np.argwhere(wrong)[0, 0])
                raise Permanent(f"{column} of node {row} is {found[row]}, but the grants leave {expected[row]}")
