"""What a node has to give to pods, by the API server.

Problem: evictions against requests need the pools that requests are made from, batch and mid among them, and those change while the node runs. Choice:
the allocatable amounts of the NodeObject object. Limits: what is not said, or cannot be read, is none.
Source: Koordinator's batch and mid resources (batch-cpu and mid-cpu are in milli-CPU).
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant.drivers.kube.kinds.objects import NodeObject
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_state import Allocatable
from cotenant.model.quantities import milli, whole
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY


def allocatable_of(node: NodeObject) -> Allocatable | None:
    """None where the object says nothing of it yet."""
    said = node.status.allocatable if node.status is not None else None
    if not said:
        return None

    def amount(name: str, read: Callable[[str | int | float], int] = whole) -> int:
        try:
            return max(0, read(said.get(name) or 0))
        except InvalidInput:
            return 0

    return Allocatable(
        cpu_m=amount("cpu", milli),
        batch_cpu_m=amount(BATCH_CPU),
        mid_cpu_m=amount(MID_CPU),
        memory_bytes=amount("memory"),
        batch_memory_bytes=amount(BATCH_MEMORY),
        mid_memory_bytes=amount(MID_MEMORY),
    )
