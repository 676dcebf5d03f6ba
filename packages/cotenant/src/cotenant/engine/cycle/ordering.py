"""The order of pending pods, and the check that every pod is where its state says.

Priority comes first, as in Kubernetes, then Koordinator's sub-priority (label koordinator.sh/priority); after both the
profile's order may consider more than age. A rank orders the queue (sub-priority, services, then by deadline if the
profile asks for it, then by age), and the profile's own keys order each batch.
Limits: an order by slack is exact within a batch only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from cotenant.engine.cycle.queue import SchedulingQueue
from cotenant.engine.framework.pod_state import ASSIGNED, PodInfo, State
from cotenant.engine.framework.queueing import Group, Rank
from cotenant.model.arrays import Param, PendingArrays, ShapeArrays
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.errors import Permanent
from cotenant.policy.placement.codes import Order
from cotenant.policy.placement.order import keys
from cotenant.policy.placement.profiles import PlacementProfile


def rank(seen: ObservedPod, profile: PlacementProfile, advance_s: float = 0.0) -> Rank:
    """The order within equal priority, lower goes first: Koordinator's sub-priority, then as the profile has it.

    `advance_s`: the pod counts as having arrived so much earlier (`PodInfo.advance_s`).
    """
    pod = seen.pod
    by = pod.deadline_s if profile.order is not Order.ARRIVAL else 0.0
    arrived_s = seen.created_s - advance_s
    return (-float(pod.sub_priority), 0.0 if pod.is_service else 1.0, 0.0 if pod.is_service else by, arrived_s)


def in_order(
    pods: list[tuple[PodInfo, Group]], profile: PlacementProfile, shapes: ShapeArrays, now_s: float
) -> list[tuple[PodInfo, Group]]:
    """The pods of a batch, within equal priority in the profile's own order if that considers more than age and
    deadline.
    """
    if profile.order is not Order.SLACK or len(pods) < 2:
        return pods
    pending = pending_arrays([entry for entry, _ in pods], shapes)
    key = keys(profile.order, pending, shapes, now_s, profile.knobs)
    priority = np.array([-entry.seen.pod.priority for entry, _ in pods])
    within = np.array([-entry.seen.pod.sub_priority for entry, _ in pods])
    order = np.lexsort((pending.ready_s, key, within, priority))
    return [pods[i] for i in order.tolist()]


def pending_arrays(entries: Sequence[PodInfo], shapes: ShapeArrays) -> PendingArrays:
    """Pending pods as the columns that orders and round policies read; jobs are numbered in order of appearance, -1
    = none.
    """
    size = len(entries)
    pods = [entry.seen.pod for entry in entries]
    shape = np.fromiter((entry.shape for entry in entries), dtype=np.int64, count=size)
    jobs: dict[str, int] = {}
    stages = [pod.job for pod in pods]
    return PendingArrays(
        pod=np.fromiter((entry.number for entry in entries), dtype=np.int64, count=size),
        shape=shape,
        tenant=shapes.tenant[shape],
        job=np.array([-1 if s is None else jobs.setdefault(s.job, len(jobs)) for s in stages], dtype=np.int64),
        stage=shape,
        is_service=shapes.params[shape, Param.IS_SERVICE] > 0,
        ready_s=np.fromiter((e.seen.created_s - e.advance_s for e in entries), dtype=np.float64, count=size),
        deadline_s=np.fromiter((pod.deadline_s for pod in pods), dtype=np.float64, count=size),
        path_s=np.fromiter((pod.path_s for pod in pods), dtype=np.float64, count=size),
        work=np.array([0.0 if s is None else s.work for s in stages], dtype=np.float64),
    )


def obstacle(seen: ObservedPod) -> str:
    """Why the pod cannot be scheduled at all, empty if it can."""
    reasons = (*seen.unsupported, *(need.waits_for for need in seen.volumes if need.waits_for))
    return "; ".join(dict.fromkeys(reasons))


def check_states(
    pods: Mapping[str, PodInfo], queue: SchedulingQueue, answers: Collection[str], held: Collection[PodInfo]
) -> None:
    """Check that every pod is where its state says. Raises `Permanent`."""
    for uid, entry in pods.items():
        where = f"pod {entry.seen.pod.key}, {entry.state.name.lower()}:"
        if (entry.state in ASSIGNED) != bool(entry.node):
            raise Permanent(f"{where} its node is {entry.node or 'none'}")
        if (entry.state is State.QUEUED) != (uid in queue):
            raise Permanent(f"{where} it is {'' if uid in queue else 'not '}in the queue")
        if (entry.state in (State.ASSUMED, State.BINDING)) != (uid in answers):
            raise Permanent(f"{where} an answer is {'' if uid in answers else 'not '}awaited")
        if (entry.state is State.HELD) != (entry in held):
            raise Permanent(f"{where} it is {'' if entry in held else 'not '}in back-off")
