"""Strategies: every field by its name in JSON, through each level, and into the rules of amounts."""

from __future__ import annotations

import json
from itertools import product

import msgspec
import pytest

from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.batch import BatchRules
from cotenant.policy.overcommit.facts import Policy
from cotenant.policy.overcommit.mid import MidRules
from cotenant.policy.overcommit.strategy import (
    DEFAULTS,
    RATIO_LABELS,
    STRATEGY_ANNOTATION,
    ColocationStrategy,
    batch_rules,
    check,
    is_enabled,
    merge,
    mid_rules,
    read_config,
    read_strategy,
    strategy_of,
)

# upstream's names, and ours
PERCENTS = (
    "cpuReclaimThresholdPercent",
    "memoryReclaimThresholdPercent",
    "midStaticCPUReservedPercent",
    "midStaticMemoryReservedPercent",
    "midCPUThresholdPercent",
    "midMemoryThresholdPercent",
    "midUnallocatedPercent",
    "batchCPUThresholdPercent",
    "batchMemoryThresholdPercent",
)
ABOVE_ZERO = (
    "metricAggregateDurationSeconds",
    "metricReportIntervalSeconds",
    "degradeTimeMinutes",
    "updateTimeThresholdSeconds",
    "resourceDiffThreshold",
    "peakHistoryMinutes",
)
WORDS = ("metricMemoryCollectPolicy", "cpuCalculatePolicy", "memoryCalculatePolicy", "midReclaimMode")
NAMES = {*PERCENTS, *ABOVE_ZERO, *WORDS, "enable", "metricAggregatePolicy", "peakRiskPercent", "lendMode"}
EVERY = {
    "cpuReclaimThresholdPercent": 71,
    "memoryReclaimThresholdPercent": 72,
    "cpuCalculatePolicy": "maxUsageRequest",
    "memoryCalculatePolicy": "request",
    "midReclaimMode": "static",
    "midStaticCPUReservedPercent": 11,
    "midStaticMemoryReservedPercent": 12,
    "midCPUThresholdPercent": 81,
    "midMemoryThresholdPercent": 82,
    "midUnallocatedPercent": 13,
    "batchCPUThresholdPercent": 91,
    "batchMemoryThresholdPercent": 92,
}


def test_fields_have_upstreams_names() -> None:
    assert {info.encode_name for info in msgspec.structs.fields(ColocationStrategy)} == NAMES


@pytest.mark.parametrize("name", PERCENTS)
def test_percents_are_0_to_100(name: str) -> None:
    for value in (0, 100):
        check(read_strategy({name: value}, "x"))
    for value in (-1, 101):
        with pytest.raises(InvalidInput, match=f"x.{name}: {value}: expected 0 to 100"):
            check(read_strategy({name: value}, "x"), "x")


@pytest.mark.parametrize("name", [*ABOVE_ZERO, "peakRiskPercent"])
def test_durations_and_thresholds_are_above_zero(name: str) -> None:
    check(read_strategy({name: 1}, "x"))
    for value in (0, -1):
        with pytest.raises(InvalidInput, match=f"x.{name}: .*: expected more than 0"):
            check(read_strategy({name: value}, "x"), "x")


def test_a_level_changes_what_it_sets_and_nothing_else() -> None:
    base = merge(DEFAULTS, read_strategy(EVERY, "x"))
    for field in ColocationStrategy.__struct_fields__:
        over = ColocationStrategy(**{field: getattr(DEFAULTS, field)})
        merged = merge(base, over)
        for other in ColocationStrategy.__struct_fields__:
            source = DEFAULTS if other == field and getattr(DEFAULTS, field) is not None else base
            assert getattr(merged, other) == getattr(source, other)


def test_every_figure_reaches_the_rules() -> None:
    full = read_strategy(EVERY, "x")
    assert batch_rules(full) == BatchRules(71, 72, Policy.MAX_USAGE_REQUEST, Policy.REQUEST, 91, 92)
    assert mid_rules(full) == MidRules(81, 82, 13, True, 11, 12)


@pytest.mark.parametrize("mode", [None, "", "prediction"])
def test_without_figures_the_defaults_are_the_rules(mode: str | None) -> None:
    assert batch_rules(ColocationStrategy()) == BatchRules(60, 65, Policy.USAGE, Policy.USAGE, None, None)
    assert mid_rules(ColocationStrategy(mid_reclaim_mode=mode)) == MidRules(100, 100, 0, False, 0, 0)


def test_zeros_and_empty_words_are_meant() -> None:
    none = dict.fromkeys(PERCENTS, 0) | {"cpuCalculatePolicy": "", "memoryCalculatePolicy": ""}
    zero = read_strategy(none, "x")
    assert batch_rules(zero) == BatchRules(0, 0, Policy.USAGE, Policy.USAGE, 0, 0)
    assert mid_rules(zero) == MidRules(0, 0, 0, False, 0, 0)


def test_the_first_node_configuration_that_selects_a_node_counts() -> None:
    def of(percent: int, **more: object) -> dict[str, object]:
        return {"cpuReclaimThresholdPercent": percent, **more}

    chosen = {"matchLabels": {"a": "1"}}
    config = read_config(
        json.dumps(
            of(
                50,
                nodeConfigs=[
                    of(51),  # no selector selects nothing
                    of(52, nodeSelector={"matchLabels": {"a": "2"}}),
                    of(53, nodeSelector=chosen),
                    of(54, nodeSelector=chosen, name="later"),
                ],
            )
        )
    )
    view = strategy_of(config, Labels.of({"a": "1"}), {})
    assert (view.strategy.cpu_reclaim_threshold_percent, view.source) == (53, "node configuration 2")
    view = strategy_of(config, NO_LABELS, {})
    assert (view.strategy.cpu_reclaim_threshold_percent, view.source, view.ignored) == (50, "cluster", ())


def test_the_nodes_own_annotation_is_a_level_and_a_bad_one_is_none() -> None:
    config = read_config('{"enable": true, "cpuReclaimThresholdPercent": 50}')
    text = '{"cpuReclaimThresholdPercent": 40, "memoryReclaimThresholdPercent": 41}'
    view = strategy_of(config, NO_LABELS, {STRATEGY_ANNOTATION: text})
    assert view.source == "cluster + annotation"
    own = view.strategy
    assert (own.cpu_reclaim_threshold_percent, own.memory_reclaim_threshold_percent, own.enable) == (40, 41, True)
    for bad in ("{", "[]", '{"enable": 1}', '{"degradeTimeMinutes": -1}'):
        view = strategy_of(config, NO_LABELS, {STRATEGY_ANNOTATION: bad})
        assert (view.strategy, view.source) == (config.cluster, "cluster")
        assert len(view.ignored) == 1
        assert view.ignored[0].startswith(STRATEGY_ANNOTATION)


@pytest.mark.parametrize("label", RATIO_LABELS)
def test_a_ratio_label_is_the_last_level_of_one_figure(label: str) -> None:
    config = read_config('{"enable": true}')
    view = strategy_of(config, Labels.of({label: "0.25"}), {STRATEGY_ANNOTATION: json.dumps(EVERY)})
    before = strategy_of(config, NO_LABELS, {STRATEGY_ANNOTATION: json.dumps(EVERY)}).strategy
    assert view.strategy == msgspec.structs.replace(before, **{RATIO_LABELS[label]: 25})
    assert view.source == f"cluster + annotation + label {label}"


def test_amounts_are_lent_where_cluster_and_node_say_so() -> None:
    assert not is_enabled(None, ColocationStrategy(enable=True))
    for cluster, node in product((True, False), repeat=2):
        config = read_config(json.dumps({"enable": cluster}))
        assert is_enabled(config, ColocationStrategy(enable=node)) == (cluster and node)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"metricAggregatePolicy": {"durations": "5m"}}, "x.metricAggregatePolicy.durations: 5m: expected array"),
        ({"metricAggregatePolicy": 5}, "x.metricAggregatePolicy: 5: expected an object"),
        ({"degradeTimeMinutes": 1.5}, "x.degradeTimeMinutes: 1.5: expected a whole number"),
        ({"cpuCalculatePolicy": []}, "x.cpuCalculatePolicy: []: expected text"),
        ({"resourceDiffThreshold": "1"}, "x.resourceDiffThreshold: 1: expected a number"),
    ],
)
def test_a_refusal_has_the_path_the_value_and_what_was_expected(value: object, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_strategy(value, "x")
    assert str(refused.value) == said


@pytest.mark.parametrize("configs", [{}, "all", 1])
def test_node_configurations_are_a_list(configs: object) -> None:
    with pytest.raises(InvalidInput, match=r"colocation-config.nodeConfigs: .*: expected a list"):
        read_config(json.dumps({"nodeConfigs": configs}))
    assert read_config('{"nodeConfigs": null}').nodes == ()
