"""Queue order as one key per pending pod; the smallest key first, ties by arrival.

Services always precede batch, since they have the objectives. Batch is ordered by the policy: arrival, earliest
deadline, or least slack, where slack = deadline - now - estimated path to the job's end. Jobs that can no longer make
their deadline wait behind those that can, with aging so that they do not starve (shedding: placing a late job may only
delay another job past its deadline).
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import CPU, Float, Param, PendingArrays, ShapeArrays
from cotenant.policy.placement.codes import Order
from cotenant.policy.placement.knobs import Knobs


def keys(order: Order, pending: PendingArrays, shapes: ShapeArrays, now_s: float, knobs: Knobs) -> Float:
    """`float64[m]`: sort ascending and stably."""
    if order is Order.ARRIVAL:
        key = pending.ready_s.copy()
    elif order is Order.DEADLINE:
        key = pending.deadline_s.copy()
    else:
        slack = pending.deadline_s - now_s - knobs.slack_margin * pending.path_s
        late = np.minimum(-slack, 36_000.0) + knobs.hopeless_penalty_s - 0.5 * (now_s - pending.ready_s)
        key = np.where(slack < 0.0, late, slack)
    if order is Order.SLACK:  # the service that is hardest to place goes first: the largest, then the least tolerant
        params = shapes.params[pending.shape]
        demanding = params[:, Param.SENSITIVITY] / np.maximum(0.01, params[:, Param.ALLOWANCE])
        first = -1e15 - 1e6 * shapes.request[pending.shape, CPU] / 1000.0 - 1e3 * demanding
    else:
        first = np.full(len(key), -1e15)
    return np.where(pending.is_service, first, key)


def allowance(deadline_s: Float, path_s: Float, now_s: float) -> Float:
    """Tolerated excess slowdown of batch: slack ratio - 1, where slack ratio = time left / estimated path.

    At least 0.1 while the deadline can be met; below a ratio of 1 the job is late by estimate, and its slowdown counts
    less and less, down to a hundredth at 0.7, where it certainly misses.
    """
    ratio = (deadline_s - now_s) / np.maximum(1.0, path_s)
    hope = np.clip((ratio - 0.7) / 0.3, 0.0, 1.0)
    return np.where(ratio >= 1.0, np.maximum(0.1, ratio - 1.0), 0.1 * 100.0 ** (1.0 - hope))
