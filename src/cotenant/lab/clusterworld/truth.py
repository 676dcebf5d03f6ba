"""What nodes really hold, counted apart from the engine: a check on it, not a part of its judgement.

Problem: a scheduler that is wrong about what it gave away would look good in every figure of its own. Choice: amounts by node and parts by device,
summed from accepted binds alone; more than there is raises. Limits: GPUs are checked one by one only where the bind says which.
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
    """By one node's pods."""

    there: dict[str, int]
    amounts: dict[str, int] = field(default_factory=dict)
    parts: dict[tuple[str, int], int] = field(default_factory=dict)  # percent of each device, by type and minor


class Truth:
    """Nodes and what their pods take."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Held] = {}
        self._pods: dict[str, tuple[Pod, str, Holdings]] = {}

    def node_seen(self, node: Node) -> None:
        """A node with so much."""
        self._nodes[node.name] = _Held(dict(node.allocatable.items))

    def sit(self, uid: str, pod: Pod, name: str, holds: Holdings) -> None:
        """A bind was accepted. Raises `Permanent` where the pod sits already, or the node or a device has less than is taken."""
        if uid in self._pods:
            raise Permanent(f"pod {pod.key} sits already on {self._pods[uid][1]}")
        self._pods[uid] = pod, name, holds
        self._change(pod, name, holds, 1)
        node = self._nodes[name]
        for resource, _ in pod.requests:
            if node.amounts[resource] > node.there.get(resource, 0):
                raise Permanent(
                    f"{name} has {node.there.get(resource, 0)} {resource}, its pods take {node.amounts[resource]}"
                )
        for (kind, minor), percent in node.parts.items():
            if percent > _WHOLE:
                raise Permanent(f"{percent} % of {kind} {minor} of {name} are given away")

    def leave(self, uid: str) -> None:
        """The pod is gone; nothing for one that never sat."""
        found = self._pods.pop(uid, None)
        if found is not None:
            self._change(*found, -1)

    def _change(self, pod: Pod, name: str, holds: Holdings, sign: int) -> None:
        node = self._nodes[name]
        for resource, amount in pod.requests:
            node.amounts[resource] = node.amounts.get(resource, 0) + sign * amount
        for each in holds.devices:
            key = (each.type.value, each.minor)
            node.parts[key] = node.parts.get(key, 0) + sign * each.amounts.get(GPU_CORE)
