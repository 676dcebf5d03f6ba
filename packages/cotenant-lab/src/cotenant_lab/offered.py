"""An offer as the values that a scheduler gets from an API server: nodes by name, pods with requests, tenants,
deadlines and estimates.

The scheduling engine takes nodes and pods as a cluster has them, while workload generators produce columns. One
template per shape, completed with a name for each pod; evicted pods are created again with a new UID, as by a
controller.
Limits: one namespace; all pods have the same priority and the same priority class, so neither affects a choice.
"""

from __future__ import annotations

from dataclasses import fields, replace
from math import isfinite

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import JobStage, Pod, PodEstimate
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, CPU_NAME, MEMORY_NAME, PODS_NAME, Amounts
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.offer import Offer

SCHEDULER = "cotenant"
_MAX_PODS = 1_000_000  # a node's limit, never reached
OBJECTIVE_MS = 100.0  # marks a service; decisions use the estimate's allowance


def nodes_of(config: WorldConfig) -> tuple[Node, ...]:
    """The world's machines, all equal, in the order of its rows."""
    allocatable = Amounts.of(
        {CPU_NAME: config.node_cores * 1000, MEMORY_NAME: config.node_memory_bytes, PODS_NAME: _MAX_PODS}
    )
    return tuple(Node(f"node {row}", allocatable) for row in range(config.nodes))


def offering(node: Node, lent: Int) -> Node:
    """The node with these milli-CPU and bytes for batch; negative = not offered."""
    names = (CPU_NAME, MEMORY_NAME, PODS_NAME)
    amounts = {name: node.allocatable.get(name) for name in names}
    if lent[0] >= 0:
        amounts[BATCH_CPU] = int(lent[0])
    if lent[1] >= 0:
        amounts[BATCH_MEMORY] = int(lent[1])
    return replace(node, allocatable=Amounts.of(amounts))


class OfferedPods:
    """Pods of an offer, created as they arrive."""

    def __init__(self, offer: Offer, lent: bool = False) -> None:
        """`lent`: batch requests what a manager lends instead of native resources."""
        path_s, work = paths_of(offer)
        self._shape: list[int] = offer.shape.tolist()
        # by shape; complete except for the name
        self.templates = [
            _template(offer, k, float(path_s[k]), float(work[k]), lent) for k in range(len(offer.cpu_milli))
        ]
        # `dataclasses.replace` would read every field of the template again for each pod
        self._fields = [
            {f.name: getattr(pod, f.name) for f in fields(Pod) if f.init and f.name != "name"} for pod in self.templates
        ]
        self._attempts = [0] * len(self._shape)

    def arrive(self, pod: int, ready_s: float) -> ObservedPod:
        """Create pod number `pod` of the offer, with a new UID each time."""
        self._attempts[pod] += 1
        return self.created(pod, ready_s)

    def created(self, pod: int, ready_s: float) -> ObservedPod:
        """The pod as it was created last, which is how a scheduler that starts later first sees it; it has arrived
        before.
        """
        attempts = self._attempts[pod] - 1
        name = f"pod {pod}" if attempts == 0 else f"pod {pod}, try {attempts + 1}"
        return ObservedPod(Pod(name=name, **self._fields[self._shape[pod]]), name, SCHEDULER, ready_s)


def _template(offer: Offer, k: int, path_s: float, work: float, lent: bool) -> Pod:
    service = bool(offer.is_service[k])
    names = (BATCH_CPU, BATCH_MEMORY) if lent and not service else (CPU_NAME, MEMORY_NAME)
    job = int(offer.job[k])
    duration_s = float(offer.est_duration_s[k])
    return Pod(
        name="template",
        requests=Amounts.of(zip(names, (int(offer.cpu_milli[k]), int(offer.memory_bytes[k])), strict=True)),
        priority_class=PriorityClass.BATCH,
        tenant=f"tenant-{offer.tenant[k]}",
        group=f"service-{k}" if offer.group_limit[k] > 0 else "",
        group_limit=max(1, int(offer.group_limit[k])),
        estimate=PodEstimate(
            use_cpu_cores=float(offer.est_use_cores[k]),
            use_memory_bytes=round(float(offer.est_use_memory_bytes[k])),
            sensitivity=float(offer.est_sensitivity[k]),
            pressure=float(offer.est_pressure[k]),
            allowance=max(0.0, float(offer.est_tolerance[k]) - 1.0) if service else 1.0,
            duration_s=duration_s,
        ),
        deadline_s=np.inf if job < 0 else float(offer.deadline_s[job]),
        job=None if job < 0 or not isfinite(path_s) else JobStage(f"job-{job}", path_s, work),
        objective_p99_ms=OBJECTIVE_MS if service else None,
    )


def paths_of(offer: Offer) -> tuple[Float, Float]:
    """By shape: estimated seconds alone from its start to its job's end, and the job's remaining work (seconds x
    demand) from it on.

    Demand is normalised as in Tetris: CPU and memory each as a fraction of a node, added.
    """
    size = len(offer.cpu_milli)
    path, work = np.zeros(size), np.zeros(size)
    demand = offer.pods * offer.est_duration_s * (offer.cpu_milli / offer.cpu_milli.max())
    for k in np.flatnonzero(~offer.is_service)[::-1]:
        follows = k + 1 < size and offer.job[k + 1] == offer.job[k]
        path[k] = offer.est_duration_s[k] + (path[k + 1] if follows else 0.0)
        work[k] = demand[k] + (work[k + 1] if follows else 0.0)
    return path, work
