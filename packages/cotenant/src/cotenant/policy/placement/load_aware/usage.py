"""Use of a node, from its metric and from estimates of recently placed pods.

A metric is a minute old and does not include pods placed since, and a scheduler that places a thousand pods in that
minute puts them all on the node that looks empty. A resident that the metric does not include counts by its estimate;
one that was placed so shortly before the metric that it had hardly started counts by the excess of its estimate over
its measurement; all others are in the metric. Where the metric lacks the requested value (a percentile over a window
that is not filled yet) every resident counts by its estimate, and the node's measured use by nothing. A measurement
under the name of a pod placed after the metric belongs to a predecessor, and is ignored.
Limits: residents that left are in the metric until the next one.
Source: Koordinator, the load-aware plugin's assigned pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.machine.node_metric import NO_USE, NodeMetric, Statistic, Use, UseWindow
from cotenant.policy.placement.load_aware.forecast import ForecastHistory
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings, Percentile


class Resident(NamedTuple):
    """A pod counted on the node."""

    key: str  # namespace/name
    estimate: Use
    since_s: float  # when it was placed
    is_prod: bool


class UsageBasis(StrEnum):
    """Basis of a node's use."""

    LAST = "last"
    PERCENTILE = "percentile"
    FORECAST = "forecast"
    PRODUCTION = "production"
    ESTIMATES = "estimates"  # the requested window is unknown: all residents by estimate


@dataclass(frozen=True, slots=True)
class UsageView:
    """A view of a node's use."""

    percentile: Percentile | None = None
    production: bool = False  # only use by production pods; takes precedence over the percentile
    forecast: bool = False


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """Measured use of a node, expected use beyond it, and the number of residents behind that."""

    use: Use
    expected: Use
    counted: int
    basis: UsageBasis

    @property
    def total(self) -> Use:
        """The sum of both."""
        return self.use.plus(self.expected)


def pick(windows: Sequence[UseWindow], statistic: Statistic, window_s: int, last: Use | None) -> Use | None:
    """The statistic over the requested window, None where unknown. 0 s: over the longest window that has it, else
    the current use.
    """
    if window_s:
        for window in windows:
            if window.seconds == window_s and statistic in window.use:
                return window.use[statistic]
        return None
    known = [window for window in windows if statistic in window.use]
    return max(known, key=lambda window: window.seconds).use[statistic] if known else last


def is_whole(metric: NodeMetric, look: UsageView) -> bool:
    """Whether the metric lacks the requested value, so that every resident counts by its estimate."""
    if look.production or look.percentile is None:
        return False
    return pick(metric.windows, look.percentile.statistic, look.percentile.window_s, metric.use) is None


def used(
    metric: NodeMetric, look: UsageView, prod_keys: Iterable[str], history: ForecastHistory, settings: LoadAwareSettings
) -> Use:
    """Use by the metric. `prod_keys`: residents of production class, for measured pods whose class the agent did
    not report.
    """
    if look.production:
        known = frozenset(prod_keys)
        total = NO_USE
        for key, pod in (metric.pods or {}).items():
            if pod.priority_class is PriorityClass.PROD or (pod.priority_class is PriorityClass.NONE and key in known):
                total = total.plus(pod.use)
        return total
    if look.percentile is not None:
        return pick(metric.windows, look.percentile.statistic, look.percentile.window_s, metric.use) or NO_USE
    if look.forecast and settings.forecast is not None and metric.use is not None:
        return history.expected(metric.use, settings.forecast)
    return metric.use or NO_USE


def delta(
    resident: Resident, metric: NodeMetric, updated_s: float, whole: bool, settings: LoadAwareSettings, now_s: float
) -> Use:
    """Expected use of a resident beyond what the metric includes. `updated_s`: when the metric was written, on our
    clock.
    """
    if whole or resident.since_s > updated_s:
        return resident.estimate
    hardly_begun = resident.since_s > updated_s - metric.interval_s
    if metric.pods is None:
        return resident.estimate if hardly_begun else NO_USE
    measured = metric.pods.get(resident.key)
    if measured is None:
        return resident.estimate
    if hardly_begun or now_s < resident.since_s + settings.expects_s:
        return resident.estimate.beyond(measured.use)
    return NO_USE


def load(
    metric: NodeMetric,
    updated_s: float,
    residents: Iterable[Resident],
    look: UsageView,
    history: ForecastHistory,
    settings: LoadAwareSettings,
    now_s: float,
) -> NodeLoad:
    """Use of a node by its metric, and expected use of its residents beyond that."""
    concerned = [resident for resident in residents if resident.is_prod or not look.production]
    whole = is_whole(metric, look)
    expected, counted = NO_USE, 0
    for resident in concerned:
        more = delta(resident, metric, updated_s, whole, settings, now_s)
        if more != NO_USE:
            expected = expected.plus(more)
            counted += 1
    prod_keys = (resident.key for resident in concerned if resident.is_prod and resident.since_s <= updated_s)
    return NodeLoad(used(metric, look, prod_keys, history, settings), expected, counted, basis(look, whole))


def basis(look: UsageView, whole: bool) -> UsageBasis:
    """The basis of the use."""
    if whole:
        return UsageBasis.ESTIMATES
    if look.production:
        return UsageBasis.PRODUCTION
    if look.percentile is not None:
        return UsageBasis.PERCENTILE
    return UsageBasis.FORECAST if look.forecast else UsageBasis.LAST
