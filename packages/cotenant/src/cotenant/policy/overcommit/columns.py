"""Amounts of all nodes of a cluster at once: the formulas of `batch`, `peak`, `hysteresis` and `writing` over columns.

The lab asks for the amounts of hundreds of nodes every simulated minute, and an `Amount` with its terms for each of
them costs more than the simulated world. The same arithmetic over arrays, one row per node; the plain forms are the
specification, and tests compare both, and the lab's step with the manager's engine, to the unit (ADR 2). What is
learned from all nodes together is the plain `LearntPool`.
Limits: high-priority pods of one class, policies `usage` and `peak` without the N-sigma and percentile parts, no
normalization, zones or third parties; a sum of many floats may differ in its last bit from the plain form's, which sums
in another order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.histogram import BUCKETS, GROWTH, DecayedHistogram
from cotenant.policy.overcommit.hysteresis import HysteresisBand
from cotenant.policy.overcommit.peak import LearntPool, PeakSettings, new_pool

ABSENT = -1  # no amount is on the node
_LOG_GROWTH = float(np.log(GROWTH))


class HighPriorityColumns(NamedTuple):
    """One resource of high-priority pods, aligned columns; unit of the resource. `key` is a number that no other
    pod of the cluster has.
    """

    node: Int
    key: Int
    request: Int
    used: Int  # -1 = not measured

    @property
    def identity(self) -> Int:
        """A number for each pair of pod and node."""
        return self.key << 24 | self.node


def by_usage(capacity: Int, beside: Int, pods: HighPriorityColumns, reclaim_pct: int) -> Int:
    """`batch_amounts` under the policy usage: `int64[N]`. Unmeasured pods count by their requests."""
    counted = np.where(pods.used >= 0, pods.used, pods.request)
    margin = capacity * (100 - reclaim_pct) // 100
    return np.maximum(0, capacity - margin - beside - _sums(pods.node, counted, len(capacity)))


def written_by_band(computed: Int, present: Int, capacity: Int, band: HysteresisBand) -> Int:
    """`to_write` over nodes; `ABSENT` = there is no present amount."""
    wanted = np.maximum(0, computed - (band.slack * capacity).astype(np.int64))
    rises = wanted > present + band.raise_by * capacity
    return np.where((present == ABSENT) | (computed < present) | rises, wanted, present)


def differs_columns(old: Int, new: Int, threshold: float) -> Mask:
    """`differs` over nodes, `int64[N, resources]`: a resource comes or goes, or moves by more than this share of
    the old amount.
    """
    moved = (np.abs(new - old) > old * threshold) & (old != ABSENT) & (new != ABSENT)
    return np.asarray((moved | ((old == ABSENT) != (new == ABSENT))).any(axis=1))


class PeakColumns:
    """What the peak policy has learned of every node, and its amounts, of one resource."""

    def __init__(self, settings: PeakSettings, capacity: Int, samples_per_hour: float) -> None:
        """`capacity[N]`. Raises `InvalidInput` where settings ask for a part that the plain form alone has."""
        if settings.sigmas or settings.percentile:
            raise InvalidInput("peak", f"{settings.sigmas}, {settings.percentile}", "no N-sigma and percentile parts")
        nodes = len(capacity)
        self.settings = settings
        self.capacity = capacity
        self.pool: LearntPool = new_pool(settings, samples_per_hour)
        self._counts = np.zeros((nodes, BUCKETS))  # rises, as `PeakHistory.rises`
        self._weight = np.zeros(nodes)
        self._rises_at_s = np.zeros(nodes)
        self._at_s = np.zeros(nodes)  # of the last measurement
        # pods of each node's last measurement, sorted by identity
        self._node = self._identity = np.empty(0, np.int64)
        self._mean = self._level = np.empty(0)

    def observe(self, fresh: Mask, pods: HighPriorityColumns, now_s: float) -> None:
        """`peak.observe` for the nodes that are `fresh`: `pods` are theirs, measured and not."""
        measured = HighPriorityColumns._make(column[pods.used >= 0] for column in pods)
        order = np.argsort(measured.identity, kind="stable")
        measured = HighPriorityColumns._make(column[order] for column in measured)
        identity, use = measured.identity, measured.used.astype(np.float64)
        at = np.minimum(np.searchsorted(self._identity, identity), max(0, len(self._identity) - 1))
        known = self._identity[at] == identity if len(self._identity) else np.zeros(len(identity), np.bool_)
        safe = np.where(known, at, 0)
        level = np.where(known, self._level[safe], 0.0) if len(self._level) else np.zeros(len(identity))
        mean = np.where(known, self._mean[safe], use) if len(self._mean) else use

        nodes = len(self.capacity)
        more = np.bincount(measured.node[known], weights=(use - level)[known], minlength=nodes)
        rising = fresh & (np.bincount(measured.node[known], minlength=nodes) > 0) & (self.capacity > 0)
        self._rise(np.flatnonzero(rising), np.maximum(0.0, more[rising] / self.capacity[rising]), now_s)
        new = ~known & (measured.request > 0)
        self._learn_ratios(use[new] / measured.request[new], now_s)

        age_s = np.maximum(0.0, now_s - self._at_s[measured.node])
        fade = 0.5 ** (age_s / self.settings.mean_half_life_s)
        mean = use + fade * (mean - use)
        weight = self.settings.present_weight
        kept = ~fresh[self._node]
        self._node = np.concatenate([self._node[kept], measured.node])
        self._identity = np.concatenate([self._identity[kept], identity])
        self._mean = np.concatenate([self._mean[kept], mean])
        self._level = np.concatenate([self._level[kept], weight * use + (1 - weight) * mean])
        order = np.argsort(self._identity, kind="stable")
        self._node, self._identity = self._node[order], self._identity[order]
        self._mean, self._level = self._mean[order], self._level[order]
        self._at_s[fresh] = np.maximum(now_s, self._at_s[fresh])

    def amounts(self, pods: HighPriorityColumns, beside: Int) -> Int:
        """`peak_amount` of every node: `int64[N]`. `pods`: all high-priority pods of all nodes, with their last
        measurement.
        """
        nodes, settings = len(self.capacity), self.settings
        if self.pool.rises.weight < settings.warm_samples:  # cold start: by requests
            most = _sums(pods.node, np.maximum(pods.request, pods.used), nodes)
            return np.maximum(0, self.capacity - beside - most)
        level = np.rint(np.bincount(self._node, weights=self._level, minlength=nodes)).astype(np.int64)
        reserve = np.rint(self._reserves() * self.capacity).astype(np.int64)
        unmeasured = pods.used < 0
        requested = pods.request[unmeasured] * self._cold_share()
        unknown = np.rint(np.bincount(pods.node[unmeasured], weights=requested, minlength=nodes)).astype(np.int64)
        return np.maximum(0, self.capacity - beside - level - reserve - unknown)

    def exceeded(self, pods: HighPriorityColumns, beside: Int, lent: Int) -> Mask:
        """Whether the last measurement of high-priority pods and what is lent exceed the capacity: `bool[N]`."""
        used = _sums(pods.node, np.maximum(0, pods.used), len(self.capacity))
        return (lent > 0) & (used + beside + lent > self.capacity)

    def _reserves(self) -> Float:
        """`peak.reserve` of every node, as a share of the capacity."""
        prior = self.pool.rises
        counts = self._counts + prior.counts * (self.settings.prior_weight / prior.weight)
        cumulated = np.cumsum(counts, axis=1)
        target = (1.0 - self.pool.level) * cumulated[:, -1] * (1 - 1e-12)
        bucket = np.minimum((cumulated < target[:, None]).sum(axis=1), BUCKETS - 1)
        return np.where(bucket == 0, 0.0, prior.least * GROWTH**bucket)

    def _cold_share(self) -> float:
        """Share of its request that an unmeasured pod counts by."""
        known = self.pool.ratios.get(PriorityClass.PROD)
        if known is None or known.weight < self.settings.warm_samples:
            return 1.0
        return min(1.0, known.quantile(self.settings.cold_percentile))

    def _rise(self, rows: Int, rises: Float, now_s: float) -> None:
        half_life_s, least = self.settings.half_life_s, self.pool.rises.least
        age_s = np.maximum(0.0, now_s - self._rises_at_s[rows])
        factor = np.where(self._weight[rows] > 0, 0.5 ** (age_s / half_life_s), 1.0)
        self._counts[rows] *= factor[:, None]
        self._counts[rows, _buckets(rises, least)] += 1.0
        self._weight[rows] = self._weight[rows] * factor + 1.0
        self._rises_at_s[rows] = np.maximum(now_s, self._rises_at_s[rows])
        self.pool = replace(self.pool, rises=added_all(self.pool.rises, rises, now_s))

    def _learn_ratios(self, shares: Float, now_s: float) -> None:
        if len(shares):
            ratios = dict(self.pool.ratios)
            known = ratios.get(PriorityClass.PROD) or DecayedHistogram(0.01, self.settings.half_life_s)
            ratios[PriorityClass.PROD] = added_all(known, shares, now_s)
            self.pool = replace(self.pool, ratios=ratios)


def added_all(histogram: DecayedHistogram, values: Float, now_s: float) -> DecayedHistogram:
    """The histogram with many values of one time: `DecayedHistogram.added` one after the other."""
    if not len(values):
        return histogram
    factor = 0.5 ** (max(0.0, now_s - histogram.at_s) / histogram.half_life_s) if histogram.weight else 1.0
    return replace(
        histogram,
        at_s=max(now_s, histogram.at_s),
        counts=histogram.counts * factor + np.bincount(_buckets(values, histogram.least), minlength=BUCKETS),
        weight=histogram.weight * factor + len(values),
        total=histogram.total * factor + float(values.sum()),
        squares=histogram.squares * factor + float((values * values).sum()),
    )


def _buckets(values: Float, least: float) -> Int:
    inside = np.maximum(values, least)
    bucket = np.minimum((np.log(inside / least) / _LOG_GROWTH).astype(np.int64) + 1, BUCKETS - 1)
    return np.where(values <= least, 0, bucket)


def _sums(node: Int, amounts: Int, nodes: int) -> Int:
    total = np.zeros(nodes, np.int64)
    np.add.at(total, node, amounts)
    return total
