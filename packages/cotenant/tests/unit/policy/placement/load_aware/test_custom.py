"""Thresholds and raw sizes that a node's annotations state, and what is said of those that cannot be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import Statistic, Use
from cotenant.policy.placement.load_aware.custom import node_thresholds, percentiles, raw_allocatable, shares
from cotenant.policy.placement.load_aware.settings import LoadShares, NodeThresholds, Percentile, Percentiles


def test_what_a_node_says_of_itself() -> None:
    assert node_thresholds("{}") == NodeThresholds()
    said = {
        "usageThresholds": {"cpu": 65, "memory": 95, "x/y": 3},
        "prodUsageThresholds": {"cpu": 55},
        "aggregated": {
            "usageThresholds": {"memory": 60},
            "usageAggregationType": "P95",
            "usageAggregatedDuration": "5m",
        },
    }
    found = node_thresholds(json.dumps(said))
    assert (found.thresholds, found.prod_thresholds) == (LoadShares(65, 95), LoadShares(55, 0))
    assert found.percentiles == Percentiles(LoadShares(0, 60), Percentile(Statistic.P95, 300))
    newer = node_thresholds(json.dumps({**said, "aggregatedUsage": {"scoreAggregationType": "avg"}}))
    assert newer.percentiles == Percentiles(score_by=Percentile(Statistic.AVERAGE))


@pytest.mark.parametrize(
    ("window", "seconds"),
    [
        (None, 0),
        (0, 0),
        (300, 300),
        (999_999_999, 999_999_999),
        (1_000_000_000, 1),
        (300_000_000_000, 300),
        ("1h", 3600),
        ("1h2m3s", 3723),
        ("90s", 90),
        ("1.5s", 1),
        ("2m", 120),
    ],
)
def test_windows(window: Any, seconds: int) -> None:
    found = percentiles({"scoreAggregationType": "p50", "scoreAggregatedDuration": window}, "f")
    assert found is not None
    assert found.score_by == Percentile(Statistic.P50, seconds)


@pytest.mark.parametrize("window", [-1, True, "", "5", "m", "5x", " 5m", 1.5, [], "1s2m"])
def test_windows_that_cannot_be_read(window: Any) -> None:
    with pytest.raises(InvalidInput, match=r"f\.usageAggregatedDuration"):
        percentiles({"usageAggregationType": "p50", "usageAggregatedDuration": window}, "f")


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ([], "f"),
        ({"usageThresholds": {"cpu": 60}}, "f.usageAggregationType"),
        ({"usageThresholds": {"cpu": 60}, "usageAggregationType": ""}, "f.usageAggregationType"),
        ({"usageThresholds": [], "usageAggregationType": "p50"}, "f.usageThresholds"),
        ({"usageThresholds": {"cpu": 101}, "usageAggregationType": "p50"}, "f.usageThresholds: threshold of cpu"),
        ({"scoreAggregationType": "p51"}, "f.scoreAggregationType"),
    ],
)
def test_percentiles_that_cannot_be_read(data: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as error:
        percentiles(data, "f")
    assert error.value.field == field


def test_percentiles_without_thresholds_need_no_statistic() -> None:
    assert percentiles(None, "f") is None
    assert percentiles({}, "f") == Percentiles()
    assert percentiles({"usageThresholds": {"cpu": 0}, "usageAggregationType": None}, "f") == Percentiles()


def test_shares_that_cannot_be_read() -> None:
    assert shares(None, "f") == LoadShares()
    assert shares({"memory": 100}, "f") == LoadShares(0, 100)
    for wrong in ("65", 65, ["cpu"], {"cpu": -1}, {"memory": "65"}, {"cpu": True}):
        with pytest.raises(InvalidInput, match=r"^f"):
            shares(wrong, "f")


def test_raw_sizes() -> None:
    assert raw_allocatable('{"cpu": "1500m", "memory": "1Gi", "x/y": []}') == Use(1500, 1 << 30)
    assert raw_allocatable('{"cpu": 2}') == Use(2000, 0)
    for wrong in ('{"cpu": true}', '{"memory": null}', '{"cpu": []}', '{"cpu": "two"}', "[]", "no"):
        with pytest.raises(InvalidInput, match="raw-allocatable"):
            raw_allocatable(wrong)
