"""What must be free on a node for a pod to fit, as amounts with limits.

Filters return yes or no, while an explanation needs the missing amount and preemption needs to know which pods could
free it. The profile's fit, the group limit and the load limit as *demands*: residents add up to `held`, and the pod
fits where that is at most `limit`. The verdict equals that of `compiled.rejection`, checked by a property test.
Source: kube-scheduler's NodeResourcesFit for fit by requests.
Limits: limits on predicted use are rounded down to whole units.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotenant.model.arrays import CPU, MEMORY, Int, NodeArrays, Param, ShapeArrays, Sum
from cotenant.model.resources import CPU_NAME
from cotenant.policy.placement.codes import Fit
from cotenant.policy.placement.compiled import REASONS, Reject
from cotenant.policy.placement.filters import fit, load_threshold
from cotenant.policy.placement.profiles import PlacementProfile


class Demand(NamedTuple):
    """One amount that residents share with the newcomer. Exactly one of `resource`, `estimate` and `group` says
    which.
    """

    plugin: str
    reason: str
    name: str  # the resource's Kubernetes name; empty = not a resource
    held: Int  # [N]
    limit: Int  # [N]
    resource: int = -1  # column of `NodeArrays.requested`
    estimate: Sum | None = None  # column of `NodeArrays.sums`
    group: int = -1  # column of `NodeArrays.group_count`


def demands(
    names: tuple[str, ...], nodes: NodeArrays, shapes: ShapeArrays, k: int, profile: PlacementProfile
) -> Iterator[Demand]:
    """What shape k needs by the profile's fit. `names` are the resource axis'; a resource that is not requested is
    not asked about.
    """
    request, params, knobs = shapes.request[k], shapes.params[k], profile.knobs
    cpu_use_milli, memory_use = float(params[Param.USE_CPU]) * 1000.0, float(params[Param.USE_MEMORY])
    cpu = nodes.capacity[:, CPU]
    predicted = profile.fit is Fit.PREDICTED_USE
    by_use = predicted and params[Param.IS_SERVICE] == 0.0
    for r, name in enumerate(names):
        limit = nodes.capacity[:, r]
        if by_use and r == MEMORY:
            limit = _whole(knobs.memory_limit * limit - memory_use)
            held = nodes.sums[:, Sum.USE_MEMORY]
            yield Demand("NodeResourcesFit", fit.reason(name), name, held, limit, estimate=Sum.USE_MEMORY)
        elif request[r] > 0:
            if by_use and r == CPU:
                limit = _whole(knobs.request_cap * limit)
            held = nodes.requested[:, r]
            yield Demand("NodeResourcesFit", fit.reason(name), name, held, limit - request[r], resource=r)
    group = int(shapes.group[k])
    if group >= 0:
        most = np.full(len(cpu), shapes.group_limit[k] - 1, dtype=np.int64)
        yield Demand("GroupLimit", REASONS[Reject.GROUP], "", nodes.group_count[:, group], most, group=group)
    share = float(params[Param.LOAD_LIMIT])
    for limit_of_use in (knobs.use_limit if predicted else np.inf, share):
        if np.isfinite(limit_of_use):
            limit = _whole(limit_of_use * cpu - cpu_use_milli)
            held = nodes.sums[:, Sum.USE_CPU]
            yield Demand("LoadThreshold", load_threshold.REASON, CPU_NAME, held, limit, estimate=Sum.USE_CPU)


def _whole(values: NDArray[np.floating[Any]]) -> Int:
    return np.floor(values).astype(np.int64)
