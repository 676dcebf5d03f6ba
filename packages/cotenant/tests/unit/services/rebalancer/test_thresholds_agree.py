"""The rebalancer's own thresholds are above what an agent fills its node to with best-effort work."""

from __future__ import annotations

from cotenant.policy.nodeqos.cpu.suppression import SuppressConfig
from cotenant.services.rebalancer.configuration import DEFAULT


def test_a_node_that_best_effort_work_fills_as_meant_is_not_overloaded() -> None:
    (pool,) = DEFAULT.pools
    assert pool.percentages.high["cpu"] >= SuppressConfig().threshold_percent + 5
    assert DEFAULT.min_relief_percent > 0
