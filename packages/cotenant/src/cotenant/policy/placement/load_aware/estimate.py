"""Expected use of a pod that has not been measured.

A share of its request or limit, whichever is larger, of the resource that its class uses (batch-cpu for a batch pod),
at most its limit; a fixed amount where it requests nothing.
Limits: one share for all pods of a cluster.
Source: Koordinator, the load-aware plugin's default estimator and its classes.
"""

from __future__ import annotations

from cotenant.model.cluster.qos import PriorityClass, QoSClass, effective_class
from cotenant.model.machine.node_metric import Use
from cotenant.model.resources import (
    BATCH_CPU,
    BATCH_MEMORY,
    CPU_NAME,
    MEMORY_NAME,
    MID_CPU,
    MID_MEMORY,
    Amounts,
)
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings

_NAMES = {
    PriorityClass.BATCH: (BATCH_CPU, BATCH_MEMORY),
    PriorityClass.MID: (MID_CPU, MID_MEMORY),
}


def class_of(priority_class: PriorityClass, qos: QoSClass, requests: Amounts, limits: Amounts) -> PriorityClass:
    """The declared class, else that of the pod's QoS, else batch for a pod that requests neither CPU nor memory,
    and production for any other.
    """
    found = effective_class(priority_class, qos)
    if found is not PriorityClass.NONE:
        return found
    asks = any(name in given for name in (CPU_NAME, MEMORY_NAME) for given in (requests, limits))
    return PriorityClass.PROD if asks else PriorityClass.BATCH


def estimate(requests: Amounts, limits: Amounts, priority_class: PriorityClass, settings: LoadAwareSettings) -> Use:
    """Expected use of a pod of this class."""
    names = _NAMES.get(priority_class, (CPU_NAME, MEMORY_NAME))
    return Use(
        *(
            _one(requests.get(name), limits.get(name), scaling, unasked)
            for name, scaling, unasked in zip(names, settings.scaling, settings.unasked, strict=True)
        )
    )


def _one(request: int, limit: int, scaling: int, unasked: int) -> int:
    most = max(request, limit)
    if most == 0:
        return unasked
    expected = (2 * most * scaling + 100) // 200  # rounded, half up
    return min(expected, limit) if limit else expected
