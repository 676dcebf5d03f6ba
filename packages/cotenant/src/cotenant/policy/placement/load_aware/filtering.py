"""Filter: a pod must not raise its node's use above a share of its capacity.

Rounding and thresholds must match upstream's, and be evaluated on ten thousand nodes for every pod. The inverse form: a
node with a threshold may use at most `max_used`, so the remaining headroom is one number per resource to compare with
pods' estimates. Integers only.
Limits: a threshold of 65 accepts 65.4 % and rejects 65.5 %, as upstream's rounding does.
Source: Koordinator, the load-aware plugin's Filter.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cluster.pod import Pod
from cotenant.model.machine.node_metric import Use
from cotenant.policy.placement.load_aware.settings import (
    NO_THRESHOLDS,
    LoadAwareSettings,
    LoadShares,
    NodeThresholds,
)
from cotenant.policy.placement.load_aware.usage import UsageView

REASON_CPU = "node(s) would use more CPU than the load threshold allows"
REASON_MEMORY = "node(s) would use more memory than the load threshold allows"
REASON_EXPIRED = "node(s) have not reported their use recently"
UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True)
class FilterThresholds:
    """The thresholds for a node and the view of its use that they apply to."""

    thresholds: LoadShares
    look: UsageView


def rule_for(is_prod: bool, settings: LoadAwareSettings, own: NodeThresholds = NO_THRESHOLDS) -> FilterThresholds:
    """Production thresholds for production pods where set, else a percentile's where set, else those of current use.

    A node's own set replaces the cluster's whole set of the same kind.
    """
    prod = own.prod_thresholds or settings.prod_thresholds
    if is_prod and prod:
        return FilterThresholds(prod, UsageView(production=True))
    percentiles = own.percentiles if own.percentiles is not None else settings.percentiles
    if percentiles is not None and percentiles.filters:
        return FilterThresholds(percentiles.thresholds, UsageView(percentile=percentiles.filter_by))
    return FilterThresholds(own.thresholds or settings.thresholds, UsageView(forecast=settings.forecast is not None))


def max_used(allocatable: int, threshold_pct: int) -> int:
    """The largest amount whose share of the allocatable, rounded to whole percent, does not exceed the threshold;
    `UNLIMITED` where none is set.
    """
    if threshold_pct <= 0 or allocatable <= 0:
        return UNLIMITED
    return ((2 * threshold_pct + 1) * allocatable - 1) // 200


def room(allocatable: Use, thresholds: LoadShares, total: Use) -> Use:
    """Headroom of a node; negative where it uses more than allowed."""
    cpu, memory = max_used(allocatable.cpu_m, thresholds.cpu), max_used(allocatable.memory_bytes, thresholds.memory)
    return Use(
        UNLIMITED if cpu == UNLIMITED else cpu - total.cpu_m,
        UNLIMITED if memory == UNLIMITED else memory - total.memory_bytes,
    )


def enough(left: Use, asked: Use) -> tuple[bool, bool]:
    """Whether the headroom of CPU and that of memory suffice. A pod refused for both is refused for CPU, as
    upstream checks it first.
    """
    return asked.cpu_m <= left.cpu_m, asked.memory_bytes <= left.memory_bytes


def percent(amount: int, allocatable: int) -> int:
    """Share in whole percent, rounded half up; 0 for an allocatable of 0."""
    return (200 * amount + allocatable) // (2 * allocatable) if allocatable > 0 else 0


def is_expired(age_s: float, settings: LoadAwareSettings) -> bool:
    """Whether a metric of this age is too old. One that was never updated (NaN) is expired."""
    return age_s != age_s or (settings.expires_s > 0 and age_s >= settings.expires_s)


def is_filtered(pod: Pod) -> bool:
    """Whether load may exclude a node for the pod: not for a DaemonSet's pods, each of which belongs on one node."""
    return not pod.is_daemon
