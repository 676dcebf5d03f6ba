"""What agents are told to measure: the collect policy of a NodeMetric."""

from __future__ import annotations

import msgspec

from cotenant.policy.overcommit.strategy import DEFAULTS, ColocationStrategy, merge


def collect_policy(strategy: ColocationStrategy) -> dict[str, object]:
    """metricCollectPolicy of a NodeMetric."""
    full = merge(DEFAULTS, strategy)
    return {
        "aggregateDurationSeconds": full.metric_aggregate_duration_seconds,
        "reportIntervalSeconds": full.metric_report_interval_seconds,
        "nodeAggregatePolicy": msgspec.json.decode(msgspec.json.encode(full.metric_aggregate_policy)),
        "nodeMemoryCollectPolicy": full.metric_memory_collect_policy or DEFAULTS.metric_memory_collect_policy,
    }
