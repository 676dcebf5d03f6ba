"""Thresholds of a node pool: from percentages to amounts of each node, and the class of each node.

Users configure percentages, absolute or as a deviation from the mean, for all pods and for production pods, and leave
some out. The percentages are completed once to equal names, converted to integer amounts of each node, and compared as
arrays; a node has exactly one class. Memory is always compared. Differences from upstream: a high threshold without a
low one is kept (upstream replaces it by 100).
Limits: percentages refer to raw allocatable; a resource that a node does not have has the threshold 0.
Source: Koordinator, pkg/descheduler/framework/plugins/loadaware/utilization_util.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.resources import MEMORY_NAME

_ALL = 100.0


class NodeClass(StrEnum):
    """The class of a node. LOW and BOTH_LOW receive pods of any kind, PROD_LOW and BOTH_LOW receive production pods."""

    LOW = "low"
    HIGH = "high"
    PROD_LOW = "prod_low"
    PROD_HIGH = "prod_high"
    BOTH_LOW = "both_low"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Percentages:
    """Thresholds in percent by resource, for all pods and for production pods. With `deviation` they are distances
    from the mean use of the pool.
    """

    low: Mapping[str, float] = field(default_factory=dict)
    high: Mapping[str, float] = field(default_factory=dict)
    prod_low: Mapping[str, float] = field(default_factory=dict)
    prod_high: Mapping[str, float] = field(default_factory=dict)
    deviation: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The resources that are compared, sorted."""
        named = {*self.low, *self.high, *self.prod_low, *self.prod_high, MEMORY_NAME}
        return tuple(sorted(named))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is configured."""
        return not (self.low or self.high or self.prod_low or self.prod_high)

    def completed(self) -> Percentages:
        """The same with every resource in each mapping: 100 where it is missing, 0 (= not compared) with
        `deviation`.
        """
        missing = 0.0 if self.deviation else _ALL

        def complete(given: Mapping[str, float]) -> dict[str, float]:
            return {name: given.get(name, missing) for name in self.names}

        return Percentages(
            complete(self.low),
            complete(self.high),
            complete(self.prod_low),
            complete(self.prod_high),
            self.deviation,
        )


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds of each node as amounts: `int64[N, R]` each."""

    low: Int
    high: Int
    prod_low: Int
    prod_high: Int


def thresholds(percentages: Percentages, names: tuple[str, ...], allocatable: Int, usage: Int, prod: Int) -> Thresholds:
    """The thresholds of all nodes of a pool. `allocatable`, `usage` (all pods) and `prod` (production pods) are
    `int64[N, R]` in the order of `names`.
    """
    given = percentages.completed()

    def columns(values: Mapping[str, float]) -> Float:
        return np.array([values[name] for name in names], dtype=np.float64)

    low, high = columns(given.low), columns(given.high)
    prod_low, prod_high = columns(given.prod_low), columns(given.prod_high)
    if percentages.deviation:
        low, high = _around(low, high, mean_percent(allocatable, usage))
        prod_low, prod_high = _around(prod_low, prod_high, mean_percent(allocatable, prod))
    return Thresholds(*(amounts(row, allocatable) for row in (low, high, prod_low, prod_high)))


def amounts(percent: Float, allocatable: Int) -> Int:
    """These percentages of each node, rounded down: `int64[N, R]`."""
    return np.floor(allocatable * percent / _ALL).astype(np.int64)


def mean_percent(allocatable: Int, usage: Int) -> Float:
    """Mean over the nodes of their use in percent, `float64[R]`; 0 for a node without the resource."""
    if not len(allocatable):
        return np.zeros(allocatable.shape[1])
    return np.asarray(_percent(usage, allocatable).mean(axis=0))


def floor_percent(usage: Mapping[str, int], allocatable: Mapping[str, int]) -> dict[str, int]:
    """Use in whole percent of allocatable, rounded down."""
    return {name: usage.get(name, 0) * 100 // amount for name, amount in allocatable.items() if amount > 0}


def classify(limits: Thresholds, usage: Int, prod: Int, unschedulable: Mask) -> list[NodeClass]:
    """The class of each node; a cordoned node is never low. Use equal to a threshold is not above it."""
    low: Mask = np.asarray((usage <= limits.low).all(axis=1) & ~unschedulable)
    high: Mask = np.asarray((usage > limits.high).any(axis=1))
    prod_low: Mask = np.asarray((prod <= limits.prod_low).all(axis=1) & ~unschedulable)
    prod_high: Mask = np.asarray((prod > limits.prod_high).any(axis=1))
    found = []
    for is_low, is_high, is_prod_low, is_prod_high in zip(
        low.tolist(), high.tolist(), prod_low.tolist(), prod_high.tolist(), strict=True
    ):
        if is_low:
            entry = NodeClass.PROD_HIGH if is_prod_high else NodeClass.BOTH_LOW if is_prod_low else NodeClass.LOW
        elif is_high:
            entry = NodeClass.HIGH
        else:
            entry = NodeClass.PROD_HIGH if is_prod_high else NodeClass.PROD_LOW if is_prod_low else NodeClass.NONE
        found.append(entry)
    return found


@dataclass(frozen=True, slots=True)
class Excess:
    """A resource of a node above its threshold, both in percent of allocatable."""

    resource: str
    used_percent: float
    threshold_percent: float

    def __str__(self) -> str:
        digits = 2  # more where two would show equal figures
        while digits < 9 and f"{self.used_percent:.{digits}f}" == f"{self.threshold_percent:.{digits}f}":
            digits += 1
        return f"{self.resource} {self.used_percent:.{digits}f} % above {self.threshold_percent:.2f} %"


def excesses(names: Iterable[str], allocatable: Int, usage: Int, high: Int) -> tuple[Excess, ...]:
    """The resources of one node that are above `high`; arrays are `int64[R]`."""
    found = []
    for name, size, used, limit in zip(names, allocatable.tolist(), usage.tolist(), high.tolist(), strict=True):
        if used > limit:
            share = 100.0 / size if size > 0 else 0.0
            found.append(Excess(name, used * share, limit * share))
    return tuple(found)


def _percent(usage: Int, allocatable: Int) -> Float:
    return np.where(allocatable > 0, usage * _ALL / np.maximum(allocatable, 1), 0.0)


def _around(low: Float, high: Float, mean: Float) -> tuple[Float, Float]:
    """The mean less `low` and the mean plus `high`, 0 to 100; 100 for both where no low deviation is configured:
    the resource is not compared.
    """
    off = low == 0
    return (
        np.where(off, _ALL, np.clip(mean - low, 0.0, _ALL)),
        np.where(off, _ALL, np.clip(mean + high, 0.0, _ALL)),
    )
