"""A plain account of GPU grants, against which tests hold placements: every grant is refused unless it fits, and
the sums can be checked.
"""

from __future__ import annotations

import numpy as np

from cotenant.policy.placement.gpu.state import WHOLE_GPU_MILLI, GpuNodeArrays, GpuShapes, misfit, take


class GpuGrants:
    """The nodes' free CPU, memory and GPUs after the grants made so far. Starts with idle nodes."""

    def __init__(self, nodes: GpuNodeArrays, shapes: GpuShapes) -> None:
        idle = (np.arange(nodes.gpu_free.shape[1]) < nodes.gpu_count[:, None]).astype(np.int64) * WHOLE_GPU_MILLI
        self.nodes = nodes._replace(cpu_free=nodes.cpu.copy(), memory_free=nodes.memory.copy(), gpu_free=idle)
        self.shapes = shapes
        self.grants: dict[int, tuple[int, int, int]] = {}  # owner -> row, shape, mask of devices

    def allocate(self, owner: int, row: int, shape: int, devices: int) -> None:
        """Grant shape `shape` on node `row` to `owner`, on exactly the devices of the mask."""
        nodes, shapes = self.nodes, self.shapes
        assert owner not in self.grants, f"owner {owner} already holds {self.grants[owner]}"
        assert 0 <= row < len(nodes.cpu), f"no row {row}"
        assert not misfit(nodes, row, shapes, shape), f"shape {shape} does not fit on node {row}"
        count, milli = int(nodes.gpu_count[row]), int(shapes.gpu_milli[shape])
        assert 0 <= devices < 1 << count, f"node {row} has {count} devices, not {bin(devices)}"
        assert devices.bit_count() == shapes.gpu_count[shape], f"{bin(devices)} are not as many devices as asked for"
        for device in range(count):
            assert not devices >> device & 1 or nodes.gpu_free[row, device] >= milli, (
                f"device {device} of node {row} is taken"
            )
        take(nodes, row, shapes, shape, devices, 1)
        self.grants[owner] = row, shape, devices

    def validate(self) -> None:
        """Recompute the free columns from the grants; they agree and are not negative."""
        fresh = GpuGrants(self.nodes, self.shapes)
        for row, shape, devices in self.grants.values():
            take(fresh.nodes, row, self.shapes, shape, devices, 1)
        for column in ("cpu_free", "memory_free", "gpu_free"):
            expected, found = getattr(fresh.nodes, column), getattr(self.nodes, column)
            np.testing.assert_array_equal(found, expected, column)
            assert (expected >= 0).all(), column
