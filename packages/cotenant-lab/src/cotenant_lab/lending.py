"""What each node of the simulated world lends, minute by minute: the decisions of `cotenant manager` over columns.

Resources for batch exist in the lab only where a manager offers them, by the same policies and with the same rules of
writing as in a cluster, and hundreds of nodes are measured every simulated minute. The policies of `policy/overcommit`
over columns; a test feeds the same measurements to the manager's engine and compares every amount. A node's measurement
counts when its report arrives, so one that is late or lost delays its amounts too, and 15 minutes without one withdraw
them (the strategy's default).
Limits: the world has no system use, reservations, mid pods, zones or third parties; amounts are computed once a minute,
where the manager also acts a second after a pod is assigned.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotenant.model.arrays import CPU, MEMORY, Float, Int, Mask
from cotenant.policy.overcommit.columns import (
    ABSENT,
    HighPriorityColumns,
    PeakColumns,
    by_usage,
    differs_columns,
    written_by_band,
)
from cotenant.policy.overcommit.facts import Policy
from cotenant.policy.overcommit.hysteresis import HysteresisBand
from cotenant.policy.overcommit.peak import PeakSettings, calibrated
from cotenant.policy.overcommit.strategy import DEFAULTS, ColocationStrategy, batch_rules, merge
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.offer import Offer

BY_FORMULA = ColocationStrategy(enable=True)  # upstream's defaults: 60 % of CPU, 65 % of memory, less use
BY_PEAK = ColocationStrategy(enable=True, cpu_calculate_policy=Policy.PEAK, memory_calculate_policy=Policy.PEAK)


def lending_of(strategy: ColocationStrategy | None, offer: Offer, config: WorldConfig) -> LentAmounts | None:
    """The manager of a run, None where there is none."""
    if strategy is None:
        return None
    return LentAmounts(strategy, np.stack([offer.cpu_milli[offer.shape], offer.memory_bytes[offer.shape]]), config)


class LentAmounts:
    """The amounts of batch-cpu and batch-memory on every node, N of them."""

    def __init__(self, strategy: ColocationStrategy, requests: Int, config: WorldConfig) -> None:
        """`requests[2, P]`: milli-CPU and bytes of every pod of the offer."""
        self.strategy = full = merge(DEFAULTS, strategy)
        self._rules = batch_rules(full)
        nodes = config.nodes
        self._capacity = np.array([[config.node_cores * 1000], [config.node_memory_bytes]]).repeat(nodes, axis=1)
        self._requests = requests
        self._pods = requests.shape[1]
        self._band = HysteresisBand()
        settings = PeakSettings()
        if full.peak_risk_percent is not None:
            settings = replace(settings, risk=full.peak_risk_percent / 100)
        if full.peak_history_minutes is not None:
            settings = replace(settings, half_life_s=full.peak_history_minutes * 60.0)
        per_hour = 3600.0 / (full.metric_report_interval_seconds or 60)
        policies = (full.cpu_calculate_policy, full.memory_calculate_policy)
        self._peaks = {
            resource: PeakColumns(settings, self._capacity[resource], per_hour)
            for resource, policy in zip((CPU, MEMORY), policies, strict=True)
            if policy == Policy.PEAK
        }
        self.settings = settings  # of the peak policy
        self.lent = np.full((nodes, 2), ABSENT)  # milli-CPU and bytes on each node; ABSENT = not offered
        self.writes = 0
        self._reported_s = np.full(nodes, np.nan)  # of the last report that arrived
        self._updated_s = np.full(nodes, np.nan)
        self._written_s = np.full(nodes, np.nan)
        self._look_s = np.full(nodes, np.inf)  # when amounts are computed again without a new report
        self._residents = np.zeros(nodes, np.uint64)  # a hash of the high-priority pods on each node
        # the last measurement of each node: pods by number and attempt, and their use
        self._node = self._key = np.empty(0, np.int64)
        self._used = np.empty((2, 0), np.int64)
        self._hour = np.full(nodes, -1)
        self._broken = np.zeros(nodes, np.bool_)
        self._unjudged: dict[int, tuple[int, int]] = {}

    def key_of(self, pods: Int, attempts: Int) -> Int:
        """A number for each attempt of a pod of the offer."""
        return attempts * self._pods + pods

    def step(
        self, reported_s: Float, measured: tuple[Int, Int, Float, Float], present: tuple[Int, Int], now_s: float
    ) -> Int:
        """The rows whose amounts changed. Call it once a minute.

        `reported_s[N]`: time of each node's last report, NaN for none. `measured`: node, key, cores and bytes in use of
        the high-priority pods in reports that are new.
        `present`: node and key of the high-priority pods on nodes.
        """
        fresh = ~np.isnan(reported_s) & ((reported_s > self._reported_s) | np.isnan(self._reported_s))
        self._take(fresh, *measured)
        first = fresh & np.isnan(self._reported_s)
        self._updated_s[fresh] = np.where(first[fresh], reported_s[fresh], now_s)
        self._reported_s[fresh] = reported_s[fresh]
        pods = [self._columns(resource, *present) for resource in (CPU, MEMORY)]
        nothing = np.zeros(len(self.lent), np.int64)
        for resource, peak in self._peaks.items():
            theirs = fresh[pods[resource].node]
            peak.observe(fresh, HighPriorityColumns._make(column[theirs] for column in pods[resource]), now_s)
        if self._peaks:
            self._judge(fresh, pods, nothing, now_s)
        shares = (self._rules.cpu_reclaim_pct, self._rules.memory_reclaim_pct)
        wanted = np.empty_like(self.lent)
        for resource, of_pods, share in zip((CPU, MEMORY), pods, shares, strict=True):
            capacity = self._capacity[resource]
            if resource not in self._peaks:
                wanted[:, resource] = by_usage(capacity, nothing, of_pods, share)
            else:
                computed = self._peaks[resource].amounts(of_pods, nothing)
                wanted[:, resource] = written_by_band(computed, self.lent[:, resource], capacity, self._band)
        lasts_s = 60.0 * (self.strategy.degrade_time_minutes or 0)
        age_s = now_s - self._updated_s
        wanted[np.isnan(age_s) | (age_s > lasts_s)] = ABSENT
        looked = fresh | self._changed(*present) | (self._look_s <= now_s)
        self._look_s[looked] = np.inf
        until_s = self._updated_s + lasts_s + 1.0
        self._look_again(looked & (until_s > now_s), until_s)
        return self._write(wanted, looked, now_s)

    def _take(self, fresh: Mask, node: Int, key: Int, cores: Float, memory_bytes: Float) -> None:
        """Replace the measurements of the nodes that reported anew."""
        kept = ~fresh[self._node]
        used = np.stack([np.rint(cores * 1000.0), np.rint(memory_bytes)]).astype(np.int64)
        self._node = np.concatenate([self._node[kept], node])
        self._key = np.concatenate([self._key[kept], key])
        self._used = np.concatenate([self._used[:, kept], used], axis=1)

    def _columns(self, resource: int, node: Int, key: Int) -> HighPriorityColumns:
        """High-priority pods of one resource: those on nodes, and those that were measured and are gone."""
        samples = HighPriorityColumns(self._node, self._key, np.zeros_like(self._key), self._used[resource])
        here = HighPriorityColumns(node, key, self._requests[resource][key % self._pods], np.full(len(key), -1))
        order = np.argsort(samples.identity, kind="stable")
        identity = samples.identity[order]
        at = np.minimum(np.searchsorted(identity, here.identity), max(0, len(identity) - 1))
        found = identity[at] == here.identity if len(identity) else np.zeros(len(key), np.bool_)
        here.used[found] = samples.used[order[at[found]]]
        dangling = np.ones(len(identity), np.bool_)
        dangling[order[at[found]]] = False
        gone = HighPriorityColumns._make(column[dangling] for column in samples)
        return HighPriorityColumns._make(np.concatenate(pair) for pair in zip(here, gone, strict=True))

    def _judge(self, fresh: Mask, pods: list[HighPriorityColumns], beside: Int, now_s: float) -> None:
        """Whether use + lent exceeded the capacity, by the hour; a past hour of all nodes corrects the level, as in
        the manager.
        """
        hour = int(now_s // 3600)
        over = fresh & (self._hour != -1) & (self._hour != hour)
        for past in np.unique(self._hour[over]).tolist():
            of_past = over & (self._hour == past)
            hours, broken = self._unjudged.get(past, (0, 0))
            self._unjudged[past] = (hours + int(of_past.sum()), broken + int(self._broken[of_past].sum()))
        self._broken[over] = False
        self._hour[fresh] = hour
        for resource, peak in self._peaks.items():
            exceeded = peak.exceeded(pods[resource], beside, np.maximum(0, self.lent[:, resource]))
            self._broken |= exceeded & fresh
        for past in [number for number in self._unjudged if number < hour - 1]:
            hours, broken = self._unjudged.pop(past)
            for peak in self._peaks.values():
                peak.pool = calibrated(peak.pool, broken, hours, self.settings)

    def _changed(self, node: Int, key: Int) -> Mask:
        """Nodes whose high-priority pods differ from those of the last step."""
        residents = np.zeros(len(self.lent), np.uint64)
        np.add.at(residents, node, (key.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))
        changed = residents != self._residents
        self._residents = residents
        return changed

    def _look_again(self, nodes: Mask, at_s: Float) -> None:
        self._look_s[nodes] = np.minimum(self._look_s[nodes], at_s[nodes])

    def _write(self, wanted: Int, looked: Mask, now_s: float) -> Int:
        """Write what differs enough from what is on the nodes; the rows."""
        differing = looked & (wanted != self.lent).any(axis=1)
        by_peak = np.array([resource in self._peaks for resource in (CPU, MEMORY)])
        held = (wanted != self.lent)[:, by_peak].any(axis=1)
        moved = differs_columns(
            self.lent[:, ~by_peak], wanted[:, ~by_peak], self.strategy.resource_diff_threshold or 0.0
        )
        since_s = now_s - self._written_s
        max_s = float(self.strategy.update_time_threshold_seconds or 0)
        writes = differing & (held | moved | np.isnan(since_s) | (since_s > max_s))
        self._look_again(differing & ~writes, self._written_s + max_s + 1.0)
        rows = np.flatnonzero(writes)
        self.lent[rows] = wanted[rows]
        self._written_s[rows] = self._look_s[rows] = now_s
        self.writes += len(rows)
        return rows
