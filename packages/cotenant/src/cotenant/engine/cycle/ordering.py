"""The order of the pods of a batch, where the profile's own considers more than the queue's (`queue.rank`).

Limits: an order by slack is exact within a batch only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import QueuedGroup
from cotenant.model.arrays import Param, PendingArrays, ShapeArrays
from cotenant.policy.placement.codes import Order
from cotenant.policy.placement.order import keys
from cotenant.policy.placement.profiles import PlacementProfile


def in_order(
    pods: list[tuple[PodInfo, QueuedGroup]], profile: PlacementProfile, shapes: ShapeArrays, now_s: float
) -> list[tuple[PodInfo, QueuedGroup]]:
    """The pods of a batch, within equal priority in the profile's own order if that considers more than age and
    deadline.
    """
    if profile.order is not Order.SLACK:
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
