"""The plugin: a pod of a disk-bound workload prefers nodes whose disks have time for it.

A workload's profile says what one of its pods wants of a node's disks (`policy.interference.bound.disk_demand`). Where
the pods on a node and this one want more than all the time of its disks, they only lengthen each other's queue: such a
node is taken only if no other fits, and then the one with the least excess. Nodes with room are alike. It is a score
and not a filter: a pod that would wait for a free disk finishes later than one that shares it.

It sleeps, and skips every pod, until some profile says that a workload wants a part of a disk; then pods of that
profile's namespace are placed one by one, and pods without such a profile are not touched.
Limits: nodes' disks count as equal, and as one; a pod's demand is its workload's mean; a pod that is already running
is not moved.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from cotenant.engine.framework.node_view import NodeView
from cotenant.engine.framework.plugin import Plugin, PluginHost
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.workloads.profiles import workload_of
from cotenant.model.arrays import Float, Int
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.workload_profile import LARGEST, WorkloadProfile, WorkloadRef
from cotenant.model.errors import Permanent
from cotenant.policy.interference.bound import disk_demand

NAME = "DiskNeighbours"
FREE_POINTS, SHARED_POINTS = 200.0, 90.0  # more than the 100 by which a profile's score can tell two nodes apart

Workload = tuple[str, WorkloadRef]  # namespace, controller


@dataclass(frozen=True, slots=True)
class DiskView:
    """What a pod wants of a node's disks, in thousandths of their time, and what the others on its node want."""

    profile: str  # namespace/name
    demand: int
    node: str
    others: int
    rivals: int  # pods that want the rest

    def sentence(self) -> str:
        """One line."""
        wants = f"by WorkloadProfile {self.profile} it wants {self.demand / 10:.0f} % of the time of a node's disks"
        if not self.node:
            return f"{wants}: it prefers nodes where they have that"
        if not self.rivals:
            return f"{wants}; no other pod on {self.node} is known to want them"
        pods = "1 other pod" if self.rivals == 1 else f"{self.rivals} other pods"
        beyond = ", more than there is" if self.others + self.demand > LARGEST else ""
        return f"{wants}; {pods} on {self.node} want {self.others / 10:.0f} %{beyond}"


class DiskNeighbours(Plugin):
    """Demands by profile, and where the pods of their workloads are."""

    name = NAME
    is_idle = True

    def __init__(self) -> None:
        self._profiles: dict[str, tuple[Workload, int]] = {}  # by the object's key: only those with a demand
        self._demands: dict[Workload, tuple[str, int]] = {}
        self._namespaces: frozenset[str] = frozenset()
        self.attach(self.host)

    def attach(self, host: PluginHost) -> None:
        """See `Plugin`."""
        super().attach(host)
        self._of: dict[str, Workload] = {}  # by the pod's key; those that have a controller
        self._on: dict[str, tuple[str, Workload]] = {}  # uid -> node, workload
        self._sums: dict[str, int] = {}  # by node; made from the pods when a demand changes
        self._are_current = True

    def capture(self) -> Callable[[], DiskNeighbours]:
        """See `Plugin`."""
        profiles, namespaces = dict(self._profiles), self._namespaces

        def make() -> DiskNeighbours:
            made = DiskNeighbours()
            made._profiles, made._namespaces = dict(profiles), namespaces
            made._index()
            return made

        return make

    # ---- facts

    def profile_seen(self, profile: WorkloadProfile) -> None:
        """A WorkloadProfile was created or changed."""
        demand = disk_demand(profile)
        known = ((profile.namespace, profile.workload), demand) if demand > 0 and profile.workload.name else None
        if self._profiles.get(profile.key) == known:
            return
        if known is None:
            del self._profiles[profile.key]
        else:
            self._profiles[profile.key] = known
        self._index()

    def profile_gone(self, key: str) -> None:
        """A WorkloadProfile was deleted."""
        if self._profiles.pop(key, None) is not None:
            self._index()

    def _index(self) -> None:
        """Of two objects for one workload the one with the first key counts, as in engine/workloads."""
        self._demands = {
            workload: (key, demand) for key, (workload, demand) in sorted(self._profiles.items(), reverse=True)
        }
        before = self._namespaces  # it only grows: a pod that was reported is reported when it leaves
        self._namespaces = before.union(namespace for namespace, _ in self._demands)
        self._are_current = False
        if not self._namespaces <= before:
            self.host.unskip(self)

    def pod_arrived(self, entry: PodInfo) -> None:
        """Whose it is."""
        workload = workload_of(entry.seen)
        if workload is not None:
            self._of[entry.seen.pod.key] = entry.seen.pod.namespace, workload

    def pod_left(self, entry: PodInfo) -> None:
        """It is gone, or will arrive again."""
        self._of.pop(entry.seen.pod.key, None)

    # ---- points

    def skips(self, pod: Pod, demands: Demands) -> bool:
        """See `Plugin`."""
        return pod.namespace not in self._namespaces

    def sign(self, entry: PodInfo) -> Hashable:
        """Pods that want other shares are not alike."""
        workload = workload_of(entry.seen)
        return 0 if workload is None else self._demand((entry.seen.pod.namespace, workload))

    def score(self, pod: Pod, nodes: NodeView, rows: Int) -> Float | None:
        """See `Plugin`: more for every node whose disks have time for the pod than a profile's score can weigh."""
        workload = self._of.get(pod.key)
        demand = 0 if workload is None else self._demand(workload)
        if not demand:
            return None
        excess = np.maximum(0, self._held(nodes)[rows] + demand - LARGEST)
        if not excess.any():
            return None
        return np.where(excess == 0, FREE_POINTS, SHARED_POINTS / (1.0 + excess / LARGEST))

    def reserve(self, entry: PodInfo, node: str) -> None:
        """It counts on the node."""
        workload = workload_of(entry.seen)
        if workload is None:
            return
        self.unreserve(entry)
        held = self._on[entry.seen.uid] = node, (entry.seen.pod.namespace, workload)
        self._count(*held, 1)

    def unreserve(self, entry: PodInfo) -> None:
        """It no longer counts there."""
        held = self._on.pop(entry.seen.uid, None)
        if held is not None:
            self._count(*held, -1)

    def describe(self, entry: PodInfo) -> DiskView | None:
        """What is known of a pod; None where its workload has no demand."""
        workload = workload_of(entry.seen)
        known = None if workload is None else self._demands.get((entry.seen.pod.namespace, workload))
        if known is None:
            return None
        others = [
            self._demand(its) for uid, (node, its) in self._on.items() if node == entry.node and uid != entry.seen.uid
        ]
        rivals = [demand for demand in others if demand]
        return DiskView(*known, entry.node, sum(rivals), len(rivals))

    def validate(self, pods: Mapping[str, PodInfo]) -> None:
        """See `Plugin`."""
        if self._are_current and self._summed() != {node: held for node, held in self._sums.items() if held}:
            raise Permanent("what pods want of the disks by node is not the sum over the pods")

    # ---- sums

    def _demand(self, workload: Workload) -> int:
        return self._demands.get(workload, ("", 0))[1]

    def _count(self, node: str, workload: Workload, times: int) -> None:
        demand = self._demand(workload)
        if demand and self._are_current:
            self._sums[node] = self._sums.get(node, 0) + times * demand

    def _summed(self) -> dict[str, int]:
        sums: dict[str, int] = {}
        for node, workload in self._on.values():
            demand = self._demand(workload)
            if demand:
                sums[node] = sums.get(node, 0) + demand
        return sums

    def _held(self, nodes: NodeView) -> Int:
        """`int64[N]`."""
        if not self._are_current:
            self._sums, self._are_current = self._summed(), True
        held = np.zeros(len(nodes.arrays.ready), dtype=np.int64)
        for node, demand in self._sums.items():
            row = nodes.rows.get(node)
            if row is not None:
                held[row] = demand
        return held
