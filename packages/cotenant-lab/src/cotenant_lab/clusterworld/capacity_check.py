"""What pods hold on each node, counted independently of the engine to check it.

A scheduler that overcommits by mistake would look good in all of its own figures. Amounts by node and shares by device,
summed from accepted binds only; exceeding the capacity raises an error.
Limits: GPUs are checked individually only if the bind names them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.model.cluster.demands import Holdings
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import Permanent
from cotenant.model.resources import GPU_CORE

_WHOLE = 100


@dataclass(slots=True)
class _Held:
    """A node's allocatable, and what its pods hold of it."""

    allocatable: dict[str, int]
    amounts: dict[str, int] = field(default_factory=dict)
    parts: dict[tuple[str, int], int] = field(default_factory=dict)  # percent of each device, by type and minor


class CapacityCheck:
    """Nodes, and what their pods hold."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Held] = {}
        self._pods: dict[str, tuple[Pod, str, Holdings]] = {}

    def add_node(self, node: Node) -> None:
        """Add a node with its allocatable."""
        self._nodes[node.name] = _Held(dict(node.allocatable.items))

    def assign(self, uid: str, pod: Pod, name: str, holds: Holdings) -> None:
        """Record an accepted bind. Raises `Permanent` if the pod is assigned already, or the node or a device is
        overcommitted.
        """
        if uid in self._pods:
            raise Permanent(f"pod {pod.key} is already assigned to {self._pods[uid][1]}")
        self._pods[uid] = pod, name, holds
        self._change(pod, name, holds, 1)
        node = self._nodes[name]
        for resource, _ in pod.requests:
            if node.amounts[resource] > node.allocatable.get(resource, 0):
                raise Permanent(
                    f"{name} has {node.allocatable.get(resource, 0)} {resource}, its pods request "
                    f"{node.amounts[resource]}"
                )
        for (kind, minor), percent in node.parts.items():
            if percent > _WHOLE:
                raise Permanent(f"{percent} % of {kind} {minor} of {name} are allocated")

    def remove(self, uid: str) -> None:
        """Remove a pod; no effect if it is not assigned."""
        found = self._pods.pop(uid, None)
        if found is not None:
            self._change(*found, -1)

    def _change(self, pod: Pod, name: str, holds: Holdings, sign: int) -> None:
        node = self._nodes[name]
        for resource, amount in pod.requests:
            node.amounts[resource] = node.amounts.get(resource, 0) + sign * amount
        for device in holds.devices:
            key = (device.type.value, device.minor)
            node.parts[key] = node.parts.get(key, 0) + sign * device.amounts.get(GPU_CORE)
