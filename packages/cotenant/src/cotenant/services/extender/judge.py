"""The interface between the protocol and the profiles: what a pod demands, and what a profile answers about nodes.

kube-scheduler names a pod and some nodes and waits; the answer must come from arrays that are ready, and a rejection
must carry its figures. A pod becomes a `PodDemand` once, nodes are rows of the mirror, and every profile is a `Judge`
over rows.
Limits: what kube-scheduler checks itself (taints, selectors, affinity, ports, volumes) is not checked again.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Protocol

from cotenant.engine.encoding.shape_params import PRIORITY_BASE
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.pod import Pod, Shape
from cotenant.model.resources import CPU_NAME, MEMORY_NAME

# The founding bases, as columns of the table of scores.
BANDS = tuple(PRIORITY_BASE)
BASES = tuple(PRIORITY_BASE.values())
_BAND = {priority_class: i for i, priority_class in enumerate(BANDS)}


@dataclass(frozen=True, slots=True)
class PodDemand:
    """What one pod needs of a node."""

    cpu_milli: int
    memory_bytes: int
    band: int  # index into `BASES`
    shape: Shape
    debt: int = 0  # level of the tenant's debt (engine/plugins/quotas/credit.py)


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """What a node has, milli-CPU and bytes; inf = not known."""

    cpu_free: float = inf
    memory_free: float = inf
    cpu_whole: float = inf
    memory_whole: float = inf


class Judge(Protocol):
    """One profile over the mirror's rows."""

    def passing(self, ask: PodDemand, rows: Int, now_s: float) -> Mask:
        """Mask of the rows that the pod fits on. An unknown row passes."""
        ...

    def unresolvable(self, ask: PodDemand, rows: Int, now_s: float) -> Mask:
        """Mask of the rows where the pod requests more than the whole node, so that no preemption would help."""
        ...

    def reasons(self, ask: PodDemand, rows: Int, now_s: float) -> list[str]:
        """Why the rows do not pass, with figures; few different texts for many rows."""
        ...

    def scores(self, ask: PodDemand, rows: Int, now_s: float) -> Int:
        """0..100 for each row; an unknown row counts as an ordinary one."""
        ...

    def room(self, row: int, now_s: float) -> NodeRoom:
        """What the node of the row has, free and whole."""
        ...


def demand_of(pod: Pod, debt: int = 0) -> PodDemand:
    """The demand of a pod; its shape keeps only what distinguishes pods in the scores, so that shapes stay few."""
    # A fresh pod with the same demands: whatever a shape gains later stays at its default here.
    bare = Pod(
        name=pod.name,
        requests=pod.requests,
        qos=pod.qos,
        priority_class=pod.priority_class,
        tenant=pod.owner,
        estimate=pod.estimate,
        objective_p99_ms=pod.objective_p99_ms,
        load_limit=pod.load_limit,
    )
    shape = bare.shape()
    return PodDemand(
        shape.requests.get(CPU_NAME), shape.requests.get(MEMORY_NAME), _BAND[shape.priority_class], shape, debt
    )


def cores(milli: float) -> str:
    """Milli-CPU as cores, for a person: never rounded up, so that a refusal does not read as if the pod would fit."""
    return f"{int(max(0.0, milli)) / 1000:g}"


def size(count: float) -> str:
    """Bytes in binary units, for a person; rounded down."""
    value = max(0.0, count)
    for unit in ("", "Ki", "Mi"):
        if value < 1024:
            return f"{int(value * 10) / 10:g}{unit}"
        value /= 1024
    return f"{int(value * 10) / 10:g}Gi"
