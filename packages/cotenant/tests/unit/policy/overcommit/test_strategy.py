"""Strategies: levels, refusals with field and value, and what a bad ConfigMap leaves in force."""

from __future__ import annotations

import json

import pytest

from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.amplification import amplification_ratios, amplify
from cotenant.policy.overcommit.configuration import ColocationState, colocation_read
from cotenant.policy.overcommit.node_slo import DEFAULT_CONFIG, PART_BY_NAME, read_part, read_slo_config, render
from cotenant.policy.overcommit.strategy import STRATEGY_ANNOTATION, is_enabled, read_config, strategy_of


def _config(**values: object) -> str:
    return json.dumps({"enable": True, **values})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "colocation-config: {: expected a JSON object"),
        ("[]", "colocation-config: []: expected a JSON object"),
        ('{"enable": "yes"}', "colocation-config.enable: yes: expected true or false"),
        (_config(cpuReclaimThresholdPercent=150), "cpuReclaimThresholdPercent: 150: expected 0 to 100"),
        (_config(degradeTimeMinutes=0), "degradeTimeMinutes: 0: expected more than 0"),
        (_config(nodeConfigs=[{"cpuReclaimThresholdPercent": "1"}]), "nodeConfigs[0].cpuReclaimThresholdPercent: 1"),
        (_config(midReclaimMode="max"), "midReclaimMode: max: expected one of static, prediction"),
        (
            _config(nodeConfigs=[{"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}]),
            "nodeConfigs[0].nodeSelector.matchExpressions[0]",
        ),
        (_config(nodeConfigs=[{"nodeSelector": {"matchLabels": {"a": 1}}}]), "nodeSelector.matchLabels"),
    ],
)
def test_a_bad_config_is_refused_with_field_and_value(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_config(text)
    assert said in str(refused.value)


def test_words_that_nobody_knows_count_as_the_usual_ones_and_are_said() -> None:
    config = read_config(
        _config(
            cpuCalculatePolicy="max",
            metricMemoryCollectPolicy="all",
            nodeConfigs=[{"nodeSelector": {"matchLabels": {"a": "1"}}, "cpuCalculatePolicy": "least"}],
        )
    )
    one = strategy_of(config, Labels.of({"a": "1"}), {STRATEGY_ANNOTATION: '{"memoryCalculatePolicy": "most"}'})
    for strategy in (config.cluster, one.strategy):
        assert (strategy.cpu_calculate_policy, strategy.memory_calculate_policy) == ("usage", "usage")
        assert strategy.metric_memory_collect_policy == "usageWithoutPageCache"
    said = (*config.ignored, *one.ignored)
    assert [name.partition(": ")[0] for name in said] == [
        "colocation-config.metricMemoryCollectPolicy",
        "colocation-config.cpuCalculatePolicy",
        "colocation-config.nodeConfigs[0].cpuCalculatePolicy",
        "node.koordinator.sh/colocation-strategy.memoryCalculatePolicy",
    ]
    assert said[1].startswith("colocation-config.cpuCalculatePolicy: max: expected one of usage, request")
    assert said[1].endswith("; usage counts")


def test_one_bad_node_configuration_stops_itself_alone() -> None:
    small = {"nodeSelector": {"matchLabels": {"size": "small"}}, "cpuReclaimThresholdPercent": 700, "enable": False}
    big = {"nodeSelector": {"matchLabels": {"size": "big"}}, "cpuReclaimThresholdPercent": -1, "degradeTimeMinutes": 3}
    config = read_config(_config(cpuReclaimThresholdPercent=50, nodeConfigs=[small, big]))
    of_big = strategy_of(config, Labels.of({"size": "big"}), {}).strategy
    assert (of_big, of_big.degrade_time_minutes) == (config.cluster, 15)
    of_small = strategy_of(config, Labels.of({"size": "small"}), {}).strategy
    assert (of_small.enable, of_small.cpu_reclaim_threshold_percent) == (False, 50)
    assert [said.partition(":")[0] for said in config.ignored] == [
        f"colocation-config.nodeConfigs[{i}].cpuReclaimThresholdPercent" for i in (0, 1)
    ]


def test_the_last_good_config_stays_and_the_error_is_kept() -> None:
    good = colocation_read({"colocation-config": _config(cpuReclaimThresholdPercent=70)}, ColocationState())
    bad = colocation_read({"colocation-config": _config(cpuReclaimThresholdPercent=700)}, good)
    assert bad.config == good.config
    assert bad.is_available
    assert "cpuReclaimThresholdPercent: 700" in bad.error
    assert not bad.changed_from(good)


@pytest.mark.parametrize(("text", "percent"), [("0.57", 57), ("0.29", 29), ("1", 100), ("0", 0)])
def test_ratio_labels_are_decimals(text: str, percent: int) -> None:
    labels = Labels.of({"node.koordinator.sh/cpu-reclaim-ratio": text})
    assert strategy_of(read_config(_config()), labels, {}).strategy.cpu_reclaim_threshold_percent == percent


@pytest.mark.parametrize("text", ["1.5", "-0.1", "nan", "much"])
def test_a_bad_ratio_label_is_ignored_and_reported(text: str) -> None:
    view = strategy_of(read_config(_config()), Labels.of({"node.koordinator.sh/cpu-reclaim-ratio": text}), {})
    assert view.strategy.cpu_reclaim_threshold_percent == 60
    assert text in view.ignored[0]


def test_a_node_cannot_enable_what_the_cluster_has_not() -> None:
    config = read_config(json.dumps({"enable": False}))
    view = strategy_of(config, NO_LABELS, {"node.koordinator.sh/colocation-strategy": '{"enable": true}'})
    assert view.strategy.enable
    assert not is_enabled(config, view.strategy)


def test_the_source_of_a_strategy_is_named() -> None:
    text = _config(nodeConfigs=[{"name": "big", "nodeSelector": {"matchLabels": {"size": "big"}}}])
    labels = Labels.of({"size": "big", "node.koordinator.sh/memory-reclaim-ratio": "0.5"})
    view = strategy_of(read_config(text), labels, {})
    assert view.source == "node configuration big + label node.koordinator.sh/memory-reclaim-ratio"


def test_percents_of_a_node_slo_are_checked_with_their_path() -> None:
    text = json.dumps({"nodeStrategies": [{"nodeSelector": {}, "cpuSuppressThresholdPercent": 180}]})
    with pytest.raises(InvalidInput, match=r"nodeStrategies\[0\].cpuSuppressThresholdPercent: 180"):
        read_part(PART_BY_NAME["threshold"], text)


def test_a_refused_part_is_reported_and_the_others_go_on() -> None:
    data = {"resource-threshold-config": "{", "cpu-burst-config": '{"clusterStrategy": {"policy": "auto"}}'}
    config = read_slo_config(data, DEFAULT_CONFIG)
    assert len(config.refused) == 1
    spec = render(config, NO_LABELS, {}).spec
    assert spec["cpuBurstStrategy"]["policy"] == "auto"
    assert spec["resourceUsedThresholdWithBE"] == PART_BY_NAME["threshold"].defaults


def test_amplification_switched_off_and_on_does_not_compound() -> None:
    on = amplify({"cpu": 4000}, {"cpu": 1.5}, None, by_kubelet=True)
    off = amplify(on.allocatable, None, on.raw, by_kubelet=False)
    again = amplify(off.allocatable, {"cpu": 1.5}, off.raw, by_kubelet=False)
    assert (on.allocatable, off.allocatable, again.allocatable) == ({"cpu": 6000}, {"cpu": 4000}, {"cpu": 6000})


def test_a_ratio_below_one_makes_no_node_smaller() -> None:
    made = amplify({"cpu": 4000, "memory": 8}, {"cpu": 0.5, "memory": 2.0}, None, by_kubelet=True)
    assert (made.allocatable, made.raw) == ({"cpu": 4000, "memory": 16}, {"cpu": 4000, "memory": 8})


def test_a_normalization_of_one_alone_amplifies_nothing() -> None:
    assert amplification_ratios(None, "1.00") is None
    assert amplification_ratios({"memory": 2.0}, "1.00") == {"memory": "2.00"}
    with pytest.raises(InvalidInput, match=r"amplification ratio of cpu: 0\.5"):
        amplification_ratios({"cpu": 0.5}, "1.00")
