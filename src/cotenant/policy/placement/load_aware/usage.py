"""What a node uses, and what is expected on top of it, from its metric and from who was placed there.

Problem: a metric is a minute old and knows nothing of the pods that were placed since, and a scheduler that places a thousand pods in that minute puts them all
on the node that looks empty. Choice: a resident that the metric does not know counts by its estimate; one that was placed so shortly before the metric
that it had hardly begun counts by what its estimate exceeds its measurement; all others are in the metric. Where the metric's answer is missing (a
percentile over a window that nobody filled yet) every resident counts by its estimate, and the node's own use by nothing.
What was measured under the name of a pod placed after the metric was a predecessor's, and is not held against it.
Limits: residents who left are in the metric until the next one.
Source: Koordinator, the load-aware plugin's assigned pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.machine.node_metric import NO_USE, NodeMetric, Statistic, Use, Window
from cotenant.policy.placement.load_aware.forecast import NodeHistory
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings, Percentile


class Resident(NamedTuple):
    """A pod that counts on the node."""

    key: str  # namespace/name
    estimate: Use
    since_s: float  # when it was placed
    is_prod: bool


class Basis(StrEnum):
    """What a node's use was taken from."""

    LAST = "last"
    PERCENTILE = "percentile"
    FORECAST = "forecast"
    PRODUCTION = "production"
    ESTIMATES = "estimates"  # the window asked for is not known: all residents by estimate


@dataclass(frozen=True, slots=True)
class Look:
    """Which way to look at a node."""

    percentile: Percentile | None = None
    production: bool = False  # only what production pods use; goes before the percentile
    forecast: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """What a node uses, and what is expected beyond it, of how many residents."""

    use: Use
    expected: Use
    counted: int
    basis: Basis

    @property
    def total(self) -> Use:
        """Both together."""
        return self.use.plus(self.expected)


def pick(windows: Sequence[Window], statistic: Statistic, window_s: int, last: Use | None) -> Use | None:
    """The statistic over the window asked for, None where it is not known. 0 s: of the longest window that knows it, or else what is used now."""
    if window_s:
        for window in windows:
            if window.seconds == window_s and statistic in window.use:
                return window.use[statistic]
        return None
    known = [window for window in windows if statistic in window.use]
    return max(known, key=lambda window: window.seconds).use[statistic] if known else last


def is_whole(metric: NodeMetric, look: Look) -> bool:
    """Whether the metric lacks what is looked at, so that every resident counts by its estimate."""
    if look.production or look.percentile is None:
        return False
    return pick(metric.windows, look.percentile.statistic, look.percentile.window_s, metric.use) is None


def used(
    metric: NodeMetric, look: Look, prod_keys: Iterable[str], history: NodeHistory, settings: LoadAwareSettings
) -> Use:
    """What the metric says is used. `prod_keys`: residents of production class, for measured pods whose class the agent did not say."""
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
    """What is expected of a resident beyond what the metric has of it. `updated_s`: when the metric was written, on our clock."""
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
    look: Look,
    history: NodeHistory,
    settings: LoadAwareSettings,
    now_s: float,
) -> Load:
    """What a node uses by its metric, and what is expected of its residents beyond that."""
    concerned = [each for each in residents if each.is_prod or not look.production]
    whole = is_whole(metric, look)
    expected, counted = NO_USE, 0
    for each in concerned:
        more = delta(each, metric, updated_s, whole, settings, now_s)
        if more != NO_USE:
            expected = expected.plus(more)
            counted += 1
    prod_keys = (each.key for each in concerned if each.is_prod and each.since_s <= updated_s)
    return Load(used(metric, look, prod_keys, history, settings), expected, counted, basis(look, whole))


def basis(look: Look, whole: bool) -> Basis:
    """What the use was taken from."""
    if whole:
        return Basis.ESTIMATES
    if look.production:
        return Basis.PRODUCTION
    if look.percentile is not None:
        return Basis.PERCENTILE
    return Basis.FORECAST if look.forecast else Basis.LAST
