"""A pod as the machine map counts it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.qos import PriorityClass, effective_class
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, CPU_NAME, MEMORY_NAME, MID_CPU, MID_MEMORY
from cotenant.policy.placement.gangs.spec import gang_key


class CellKind(IntEnum):
    """What a cell is, by its pods' class."""

    SERVICE = 0
    MID = 1
    BATCH = 2
    OTHER = 3


@dataclass(slots=True)
class PodRow:
    """One pod."""

    key: str
    uid: str
    node: str
    tenant: str
    kind: CellKind
    priority: int
    cpu_m: int  # requested of the node's own CPU
    lent_cpu_m: int  # requested of lent CPU
    memory: int  # bytes, with lent ones
    phase: PodPhase
    created_s: float
    owner: str  # KIND/NAME of its controller
    gang: str  # namespace/name
    scheduler: str
    terminating: bool
    objective_p99_ms: float | None = None


def pod_row(seen: ObservedPod) -> PodRow:
    """The row of a pod."""
    pod, requests = seen.pod, seen.pod.requests
    if pod.is_service:
        kind = CellKind.SERVICE
    else:
        of = effective_class(pod.priority_class, pod.qos)
        kind = {
            PriorityClass.MID: CellKind.MID,
            PriorityClass.BATCH: CellKind.BATCH,
            PriorityClass.FREE: CellKind.BATCH,
        }.get(of, CellKind.OTHER)
    owner = next((f"{owned_by.kind}/{owned_by.name}" for owned_by in seen.owned_by if owned_by.controller), "")
    return PodRow(
        key=pod.key,
        uid=seen.uid,
        node=seen.node,
        tenant=pod.owner,
        kind=kind,
        priority=pod.priority,
        cpu_m=requests.get(CPU_NAME),
        lent_cpu_m=requests.get(BATCH_CPU) + requests.get(MID_CPU),
        memory=requests.get(MEMORY_NAME) + requests.get(BATCH_MEMORY) + requests.get(MID_MEMORY),
        phase=seen.phase,
        created_s=seen.created_s,
        owner=owner,
        gang=gang_key(pod, seen.demands.gang),
        scheduler=seen.scheduler,
        terminating=seen.terminating,
        objective_p99_ms=pod.objective_p99_ms,
    )
