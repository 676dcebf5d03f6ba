"""An API server with every kind of object that a cluster's engine reads, for one watcher: what it holds, what it owes,
what it accepts.

Each kind has a watch of its own: events of one kind come in order, those of two kinds as it pleases whoever delivers
them. Binds are accepted as a real server does: a pod that is bound already or gone is a conflict, an unknown node is no
obstacle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.resources import GPU_CORE

TriggerEvent = Callable[[Cluster, float], None]
NODE, POD = "Node", "Pod"


@dataclass
class Kind:
    """How objects of one kind are told."""

    name: str
    seen: Callable[[Cluster, object, float], None]
    gone: Callable[[Cluster, Hashable, float], None]


class Api:
    """What there is."""

    def __init__(self, kinds: tuple[Kind, ...]) -> None:
        self.kinds = {kind.name: kind for kind in kinds}
        self.objects: dict[str, dict[Hashable, object]] = {kind.name: {} for kind in kinds}
        self.owed: dict[str, deque[TriggerEvent]] = {kind.name: deque() for kind in kinds}
        self.binds: dict[str, int] = {}  # uid -> binds that were accepted

    @property
    def nodes(self) -> dict[str, Node]:
        return self.objects[NODE]  # type: ignore[return-value]

    @property
    def pods(self) -> dict[str, ObservedPod]:
        return self.objects[POD]  # type: ignore[return-value]

    # ---- objects

    def put(self, kind: str, key: Hashable, value: object) -> None:
        self.objects[kind][key] = value
        tell = self.kinds[kind].seen
        self.owed[kind].append(lambda cluster, now_s: tell(cluster, value, now_s))

    def delete(self, kind: str, key: Hashable) -> None:
        if self.objects[kind].pop(key, None) is not None:
            tell = self.kinds[kind].gone
            self.owed[kind].append(lambda cluster, now_s: tell(cluster, key, now_s))

    def end(self, uid: str) -> None:
        self.put(POD, uid, replace(self.pods[uid], phase=PodPhase.SUCCEEDED))

    # ---- what the watcher is told

    def deliver(self, kind: str, most: int, cluster: Cluster, now_s: float) -> None:
        for _ in range(min(most, len(self.owed[kind]))):
            self.owed[kind].popleft()(cluster, now_s)

    def deliver_all(self, cluster: Cluster, now_s: float) -> None:
        for kind, owed in self.owed.items():
            self.deliver(kind, len(owed), cluster, now_s)

    def list_all(self, cluster: Cluster, now_s: float, order: tuple[str, ...]) -> None:
        """To a watcher that knows nothing."""
        for kind in order:
            self.owed[kind].clear()
            for value in list(self.objects[kind].values()):
                self.kinds[kind].seen(cluster, value, now_s)

    # ---- what it accepts

    def bind(self, bind: Bind) -> bool:
        pod = self.pods.get(bind.uid)
        if pod is None or pod.node or pod.terminating:
            return False
        self.binds[bind.uid] = self.binds.get(bind.uid, 0) + 1
        self.put(POD, bind.uid, replace(pod, node=bind.node, holds=bind.holds))
        return True

    # ---- what must hold

    def check(self) -> None:
        """Nothing bound twice, no node and no device over its capacity."""
        assert all(times == 1 for times in self.binds.values()), self.binds
        used: dict[tuple[str, str], int] = {}
        parts: dict[tuple[str, str, int], int] = {}
        for pod in self.pods.values():
            if not pod.occupies:
                continue
            for resource, amount in pod.pod.requests:
                used[pod.node, resource] = used.get((pod.node, resource), 0) + amount
            for device in pod.holds.devices:
                key = (pod.node, device.type.value, device.minor)
                parts[key] = parts.get(key, 0) + device.amounts.get(GPU_CORE)
        for (name, resource), amount in used.items():
            node = self.nodes.get(name)
            if node is not None and resource in node.allocatable:
                assert amount <= node.allocatable.get(resource), (name, resource, amount)
        assert all(percent <= 100 for percent in parts.values()), parts
