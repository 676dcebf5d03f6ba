"""What a node's agent says that the node and its pods use, as a value.

Problem: a scheduler must judge by what nodes use now, and the object that tells it (NodeMetric) is old when it is read, may lack any part, and comes
from a clock that is not ours. Choice: amounts as integers, the age at the moment of reading instead of a time, percentiles by statistic and window.
Limits: CPU and memory only; what a container or a program beside Kubernetes uses is in the node's sum and nowhere else.
Source: Koordinator, apis/slo/v1alpha1 (NodeMetric).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isnan
from typing import NamedTuple

from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.errors import InvalidInput

REPORT_INTERVAL_S = 60  # where the object does not say


class Use(NamedTuple):
    """An amount of both resources."""

    cpu_m: int = 0
    memory_bytes: int = 0

    def plus(self, other: Use) -> Use:
        """Both together."""
        return Use(self.cpu_m + other.cpu_m, self.memory_bytes + other.memory_bytes)

    def beyond(self, other: Use) -> Use:
        """What is missing from `other` up to this, 0 where nothing is."""
        return Use(max(0, self.cpu_m - other.cpu_m), max(0, self.memory_bytes - other.memory_bytes))


NO_USE = Use()


class Statistic(StrEnum):
    """What of a window is told; the values are the object's keys."""

    AVERAGE = "avg"
    P50 = "p50"
    P90 = "p90"
    P95 = "p95"
    P99 = "p99"


@dataclass(frozen=True, slots=True)
class Window:
    """What the node used over a window. A statistic that is not known, or is empty, is absent."""

    seconds: int
    use: Mapping[Statistic, Use]


@dataclass(frozen=True, slots=True)
class MeasuredPod:
    """What one pod uses. The class is that under which the agent knows it; NONE = it did not say."""

    use: Use
    priority_class: PriorityClass = PriorityClass.NONE


@dataclass(frozen=True, slots=True)
class NodeMetric:
    """One node's last metric. Raises `InvalidInput` where its age or interval is none."""

    node: str
    age_s: float = float("nan")  # when it was read; NaN = it was never updated
    interval_s: int = REPORT_INTERVAL_S  # between two updates
    use: Use | None = None  # None = not known
    windows: tuple[Window, ...] = ()
    pods: Mapping[str, MeasuredPod] | None = field(
        default_factory=dict
    )  # by namespace/name; None = pods are not measured one by one

    def __post_init__(self) -> None:
        where = f"NodeMetric {self.node}"
        if not self.node:
            raise InvalidInput("NodeMetric", "", "a node's name")
        if not isnan(self.age_s) and self.age_s < 0:
            raise InvalidInput(f"{where}: age", self.age_s, "seconds, 0 or more")
        if self.interval_s <= 0:
            raise InvalidInput(f"{where}: report interval", self.interval_s, "seconds above 0")

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever told."""
        return isnan(self.age_s)
