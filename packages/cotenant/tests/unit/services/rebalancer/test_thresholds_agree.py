"""The rebalancer's thresholds, our own and those that are shipped, are above what an agent fills its node to with
best-effort work.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from cotenant.model.machine.use_targets import BEST_EFFORT_TARGET_PERCENT, OVERLOAD_BAND_PERCENT
from cotenant.policy.nodeqos.cpu.suppression import SuppressConfig
from cotenant.services.rebalancer.configuration import DEFAULT, parse_settings

DEPLOY = Path(__file__).parents[6] / "deploy"


def rendered(path: str, key: str) -> str:
    """A key of a shipped ConfigMap."""
    text: str = yaml.safe_load((DEPLOY / path).read_text())["data"][key]
    return text


def test_a_node_that_best_effort_work_fills_as_meant_is_not_overloaded() -> None:
    (pool,) = DEFAULT.pools
    assert pool.percentages.high["cpu"] >= SuppressConfig().threshold_percent + 5
    assert DEFAULT.min_relief_percent > 0
    assert not DEFAULT.doubts


@pytest.mark.parametrize(
    "text",
    [
        rendered("rebalancer/config.yaml", "descheduler.yaml"),
        (DEPLOY / "rebalancer/descheduler.yaml").read_text(),
        yaml.safe_dump(yaml.safe_load((DEPLOY / "chart/values.yaml").read_text())["rebalancer"]["config"]),
    ],
    ids=["manifest", "example", "chart"],
)
def test_nor_is_it_by_what_is_shipped(text: str) -> None:
    settings = parse_settings(text.encode(), "f")
    given = json.loads(rendered("manager/config.yaml", "resource-threshold-config"))
    suppressed = given["clusterStrategy"]["cpuSuppressThresholdPercent"]
    assert suppressed == BEST_EFFORT_TARGET_PERCENT
    assert [pool.percentages.high["cpu"] for pool in settings.pools] == [suppressed + OVERLOAD_BAND_PERCENT]
    assert not settings.doubts


@pytest.mark.parametrize(
    ("high", "deviation", "is_doubted"), [(65, False, True), (66, False, False), (10, True, False)]
)
def test_a_threshold_at_what_nodes_are_meant_to_use_is_doubted(high: int, deviation: bool, is_doubted: bool) -> None:
    args = {"lowThresholds": {"cpu": 5}, "highThresholds": {"cpu": high}, "useDeviationThresholds": deviation}
    document = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerConfiguration",
        "profiles": [
            {
                "plugins": {"balance": {"enabled": [{"name": "LowNodeLoad"}]}},
                "pluginConfig": [{"name": "LowNodeLoad", "args": args}],
            }
        ],
    }
    doubts = parse_settings(json.dumps(document).encode(), "f").doubts
    assert bool(doubts) is is_doubted
    assert all("highThresholds.cpu 65 is not above the 65 %" in doubt for doubt in doubts)
