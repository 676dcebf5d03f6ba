"""Settings of load-aware placement: thresholds, percentiles, estimates, expiry, weights.

The same few numbers come from a cluster's configuration and from annotations of single nodes, and an invalid one must
be reported before it is used. Frozen values that validate themselves, with Koordinator's defaults; `NodeThresholds` are
a node's own, and replace whole sets, as upstream.
Limits: CPU and memory only.
Source: Koordinator, LoadAwareSchedulingArgs and its defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import Statistic, Use
from cotenant.policy.placement.load_aware.forecast import LoadForecast

UNASKED = Use(250, 200 << 20)


@dataclass(frozen=True, slots=True)
class LoadShares:
    """Percent of a node's CPU and memory; 0 = not checked."""

    cpu: int = 0
    memory: int = 0

    def __post_init__(self) -> None:
        for name in ("cpu", "memory"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:
                raise InvalidInput(f"threshold of {name}", value, "0 to 100 per cent", "0 does not look at it")

    def __bool__(self) -> bool:
        return bool(self.cpu or self.memory)


NO_SHARES = LoadShares()


@dataclass(frozen=True, slots=True)
class Percentile:
    """A statistic over a window; 0 s = the longest known window."""

    statistic: Statistic
    window_s: int = 0

    def __post_init__(self) -> None:
        if self.window_s < 0:
            raise InvalidInput("window of a percentile", self.window_s, "seconds, 0 for the longest")


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Filter and score by percentiles; each only where set."""

    thresholds: LoadShares = NO_SHARES
    filter_by: Percentile | None = None
    score_by: Percentile | None = None

    @property
    def filters(self) -> bool:
        """Whether the filter uses a percentile."""
        return bool(self.thresholds) and self.filter_by is not None


@dataclass(frozen=True, slots=True)
class NodeThresholds:
    """Thresholds from a node's own annotation; an empty set keeps the cluster's."""

    thresholds: LoadShares = NO_SHARES
    prod_thresholds: LoadShares = NO_SHARES
    percentiles: Percentiles | None = None


NO_THRESHOLDS = NodeThresholds()


@dataclass(frozen=True, slots=True)
class LoadAwareSettings:
    """Settings of one cluster. Raises `InvalidInput`."""

    thresholds: LoadShares = LoadShares(65, 95)
    prod_thresholds: LoadShares = NO_SHARES  # on the use of production pods, for production pods
    percentiles: Percentiles | None = None
    forecast: LoadForecast | None = None  # replaces the current use where the filter uses it
    expires_s: float = 180.0  # an older metric is expired; 0 = never
    filters_expired: bool = True  # False: an expired metric is still used
    schedule_when_expired: bool = False  # True: a node whose metric is expired is not filtered
    scaling: tuple[int, int] = (85, 70)  # expected use in percent of a pod's request (or limit)
    unasked: Use = UNASKED  # expected use of a pod without requests
    expects_s: float = (
        0.0  # for this time after its placement a pod's estimate counts where it exceeds its measured use
    )
    weights: tuple[int, int] = (1, 1)
    dominant_weight: int = 0  # of the most used resource
    scores_by_prod: bool = False  # production pods are scored by the use of production pods
    score_weight: float = (
        0.0  # beside the profile's score (upstream: 1); 0 = filter only, which lets equal pods be placed in runs
    )

    def __post_init__(self) -> None:
        for name in ("expires_s", "expects_s", "score_weight"):
            value = getattr(self, name)
            if not isfinite(value) or value < 0:
                raise InvalidInput(f"load-aware: {name}", value, "0 or more")
        for name in ("scaling", "weights"):
            for value in getattr(self, name):
                if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1000:
                    raise InvalidInput(f"load-aware: {name}", value, "whole numbers, 0 to 1000")
        if not 0 <= self.dominant_weight <= 1000:
            raise InvalidInput("load-aware: dominant_weight", self.dominant_weight, "0 to 1000")
        if min(self.unasked) < 0:
            raise InvalidInput("load-aware: unasked", self.unasked, "amounts that are not negative")
        if self.forecast is not None and self.percentiles is not None and self.percentiles.filters:
            raise InvalidInput(
                "load-aware: forecast", self.forecast, "a forecast or a percentile", "the filter looks at one of them"
            )
