"""Whose turn it is, and whether every pod stands where its state says.

Problem: priority is Kubernetes' and comes first; inside equal priority the order is the profile's, which may look at more than age. Choice: a rank
that orders the queue (services, then by deadline where the profile asks, then by age), and the profile's own keys inside each batch
that is judged. Limits: an order by slack is exact inside a batch only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import isfinite

import numpy as np

from cotenant.engine.cycle.queue import Group, Rank, SchedulingQueue
from cotenant.engine.framework.pod_state import ASSIGNED, PodInfo, State
from cotenant.model.arrays import PendingArrays, ShapeArrays
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.errors import Permanent
from cotenant.policy.placement.order import Order, keys
from cotenant.policy.placement.profiles import PlacementProfile


def rank(seen: ObservedPod, profile: PlacementProfile) -> Rank:
    """Its place inside equal priority: lower goes first."""
    pod = seen.pod
    by = pod.deadline_s if profile.order is not Order.ARRIVAL else 0.0
    return (0.0 if pod.is_service else 1.0, 0.0 if pod.is_service else by, seen.created_s)


def in_order(
    pods: list[tuple[PodInfo, Group]], profile: PlacementProfile, shapes: ShapeArrays, now_s: float
) -> list[tuple[PodInfo, Group]]:
    """The pods of a batch, inside equal priority in the profile's own order where that looks at more than age and deadline."""
    if profile.order is not Order.SLACK or len(pods) < 2:
        return pods
    shape = np.array([entry.shape for entry, _ in pods])
    values = [entry.seen.pod for entry, _ in pods]
    nobody = np.full(len(pods), -1, dtype=np.int64)
    ready_s = np.array([entry.seen.created_s for entry, _ in pods])
    durations_s = [pod.estimate.duration_s if pod.estimate is not None else 0.0 for pod in values]
    pending = PendingArrays(
        pod=np.array([entry.number for entry, _ in pods]),
        shape=shape,
        tenant=shapes.tenant[shape],
        job=nobody,
        stage=shape,
        is_service=np.array([pod.is_service for pod in values]),
        ready_s=ready_s,
        deadline_s=np.array([pod.deadline_s for pod in values]),
        path_s=np.array([each if isfinite(each) else 0.0 for each in durations_s]),
        work=np.zeros(len(pods)),
    )
    key = keys(profile.order, pending, shapes, now_s, profile.knobs)
    order = np.lexsort((ready_s, key, np.array([-pod.priority for pod in values])))
    return [pods[i] for i in order.tolist()]


def obstacle(seen: ObservedPod) -> str:
    """Why the pod cannot be judged at all, empty if it can."""
    reasons = (*seen.unsupported, *(need.waits_for for need in seen.volumes if need.waits_for))
    return "; ".join(dict.fromkeys(reasons))


def check_states(
    pods: Mapping[str, PodInfo], queue: SchedulingQueue, answers: Collection[str], held: Collection[PodInfo]
) -> None:
    """Every pod is where its state says. Raises `Permanent`."""
    for uid, entry in pods.items():
        where = f"pod {entry.seen.pod.key}, {entry.state.name.lower()}:"
        if (entry.state in ASSIGNED) != bool(entry.node):
            raise Permanent(f"{where} it sits on {entry.node or 'nothing'}")
        if (entry.state is State.QUEUED) != (uid in queue):
            raise Permanent(f"{where} it is {'' if uid in queue else 'not '}in the queue")
        if (entry.state in (State.ASSUMED, State.BINDING)) != (uid in answers):
            raise Permanent(f"{where} an answer is {'' if uid in answers else 'not '}awaited")
        if (entry.state is State.HELD) != (entry in held):
            raise Permanent(f"{where} it is {'' if entry in held else 'not '}held")
