"""Ratios of nodes: read as a whole or refused with their path, and what is written, kept and removed on a node."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.cpus.basic_info import CpuInfo
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.node_ratios import (
    AMPLIFICATION_KEY,
    ENABLED_LABEL,
    KEEP,
    NORMALIZATION_KEY,
    OFF,
    NodeRatios,
    Normalization,
    RatioConfig,
    normalization_of,
    ratios_of,
    read_ratio_config,
)

TABLE = {
    "M1": {
        "baseRatio": 1.5, "hyperThreadEnabledRatio": 1.4, "turboEnabledRatio": 1.6,
        "hyperThreadTurboEnabledRatio": 1.7,
    },
}  # fmt: skip
GOLD = Labels((("tier", "gold"),))


def read(normalization: Any = None, amplification: Any = None, previous: RatioConfig | None = None) -> RatioConfig:
    given = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in ((NORMALIZATION_KEY, normalization), (AMPLIFICATION_KEY, amplification))
        if value is not None
    }
    return read_ratio_config(given, previous or RatioConfig())


def of_node(
    config: RatioConfig, labels: Labels = NO_LABELS, cpu: CpuInfo | None = None, now: tuple[str, str] = ("", "")
) -> NodeRatios:
    return ratios_of(config, labels, cpu, *now)


def test_without_the_keys_annotations_of_people_stay() -> None:
    for config in (read_ratio_config(None, RatioConfig()), read()):
        assert config == RatioConfig(None, None)
        assert of_node(config, now=("1.20", '{"cpu":2.0}')) == NodeRatios(KEEP, KEEP)


@pytest.mark.parametrize(
    ("threads", "turbo", "ratio"),
    [(False, False, "1.50"), (True, False, "1.40"), (False, True, "1.60"), (True, True, "1.70")],
)
def test_a_model_has_a_ratio_for_each_way_it_is_switched(threads: bool, turbo: bool, ratio: str) -> None:
    config = read({"enable": True, "ratioModel": TABLE})
    assert of_node(config, cpu=CpuInfo("M1", threads, turbo)).normalization == ratio


def test_a_cpu_without_a_ratio_has_the_default_else_what_stands_and_a_reason() -> None:
    table = {"M1": {"baseRatio": 1.5}}
    config = read({"enable": True, "ratioModel": table, "defaultRatio": 1.234})
    for cpu in (None, CpuInfo("M2"), CpuInfo("M1", turbo=True)):
        assert of_node(config, cpu=cpu).normalization == "1.23"
    bare = read({"enable": True, "ratioModel": table})
    for cpu, said in ((None, "not reported"), (CpuInfo("M1", turbo=True), r"M1 (turboEnabledRatio)")):
        found = of_node(bare, cpu=cpu)
        assert found.normalization == KEEP
        assert said in found.reason


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.0, "1.00"), (1.005, "1.01"), (1.004, "1.00"), (0.995, "1.00"), (5, "5.00")]
)
def test_a_ratio_has_two_decimals(ratio: float, text: str) -> None:
    assert normalization_of(Normalization(default=Decimal(str(ratio))), None) == text


def test_a_ratio_below_1_is_refused_for_the_node() -> None:
    with pytest.raises(InvalidInput, match="1 or more"):
        normalization_of(Normalization(default=Decimal("0.99")), None)
    found = of_node(read({"enable": True, "defaultRatio": 0.5}))
    assert (found.normalization, "1 or more" in found.reason) == (KEEP, True)


def test_switched_off_it_writes_1_only_where_there_is_a_ratio() -> None:
    off = read({"enable": False, "defaultRatio": 2})
    assert of_node(off).normalization == KEEP
    assert of_node(off, now=("1.50", "")).normalization == OFF
    assert of_node(read({"defaultRatio": 2})).normalization == KEEP  # off unless it is on


@pytest.mark.parametrize(
    ("enable", "label", "is_on"),
    [(False, "true", True), (True, "false", False), (True, "maybe", True), (False, "maybe", False), (True, "", True)],
)
def test_a_nodes_label_decides_before_the_configuration(enable: bool, label: str, is_on: bool) -> None:
    config = read({"enable": enable, "defaultRatio": 2})
    labels = Labels(((ENABLED_LABEL, label),)) if label else NO_LABELS
    assert (of_node(config, labels).normalization == "2.00") is is_on


def test_selected_nodes_have_the_clusters_values_where_they_have_no_own() -> None:
    own = {"nodeSelector": {"matchLabels": {"tier": "gold"}}, "defaultRatio": 3, "ratioModel": {"M1": {"baseRatio": 4}}}
    nowhere = {"defaultRatio": 5}  # without a selector
    config = read({"enable": True, "defaultRatio": 2, "ratioModel": TABLE, "nodeConfigs": [nowhere, own]})
    assert of_node(config).normalization == "2.00"
    assert of_node(config, GOLD).normalization == "3.00"
    assert of_node(config, GOLD, CpuInfo("M1")).normalization == "4.00"
    assert of_node(config, GOLD, CpuInfo("M1", turbo=True)).normalization == "1.60"  # of the cluster's table
    assert of_node(config, cpu=CpuInfo("M1")).normalization == "1.50"


def test_of_two_that_select_a_node_the_first_counts() -> None:
    both = [{"nodeSelector": {"matchLabels": {"tier": "gold"}}, "defaultRatio": ratio} for ratio in (3, 4)]
    assert of_node(read({"enable": True, "nodeConfigs": both}), GOLD).normalization == "3.00"


def amplified(ratios: Any, **more: Any) -> dict[str, Any]:
    return {"enable": True, "resourceAmplificationRatio": ratios, **more}


def test_amplification_multiplies_the_cpus_ratio() -> None:
    config = read({"enable": True, "defaultRatio": 1.5}, amplified({"cpu": 2, "memory": 1.25}))
    assert of_node(config) == NodeRatios("1.50", '{"cpu":3.0,"memory":1.25}')
    alone = read(amplification=amplified({"cpu": 2}))
    assert of_node(alone) == NodeRatios(KEEP, '{"cpu":2.0}')
    assert of_node(alone, now=("1.50", "")) == NodeRatios(KEEP, '{"cpu":3.0}')  # by the ratio that people annotated
    none = read({"enable": True, "defaultRatio": 1.5}, amplified({}))
    assert of_node(none).amplification == '{"cpu":1.5}'


def test_amplification_that_is_off_or_none_removes_what_stands() -> None:
    for config in (read(amplification={"enable": False}), read(amplification=amplified({}))):
        assert of_node(config, now=("", '{"cpu":2.0}')).amplification is None
        assert of_node(config).amplification == KEEP


def test_an_annotation_that_is_no_ratio_is_kept_and_said() -> None:
    found = of_node(read(amplification=amplified({"cpu": 2})), now=("much", '{"cpu":2.0}'))
    assert (found.normalization, found.amplification) == (KEEP, KEEP)
    assert found.reason


def test_ratios_of_selected_nodes_are_added_to_the_clusters() -> None:
    own = {"nodeSelector": {"matchLabels": {"tier": "gold"}}, "resourceAmplificationRatio": {"memory": 3}}
    config = read(amplification=amplified({"cpu": 2, "memory": 2}, nodeConfigs=[own]))
    assert of_node(config, GOLD).amplification == '{"cpu":2.0,"memory":3.0}'
    assert of_node(config).amplification == '{"cpu":2.0,"memory":2.0}'


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("{", NORMALIZATION_KEY),
        ({"enable": 1}, "enable"),
        ({"enable": "true"}, "enable"),
        ({"ratioModel": [1]}, "ratioModel"),
        ({"ratioModel": {"M1": 1.5}}, r"ratioModel[M1]"),
        ({"ratioModel": {"M1": {"baseRatio": 0}}}, "ratioModel[M1].baseRatio"),
        ({"ratioModel": {"M1": {"baseRatio": True}}}, "ratioModel[M1].baseRatio"),
        ({"defaultRatio": 5.01}, "defaultRatio"),
        ({"defaultRatio": -1}, "defaultRatio"),
        ({"defaultRatio": "2"}, "defaultRatio"),
        ('{"defaultRatio": NaN}', NORMALIZATION_KEY),
        ({"nodeConfigs": {}, "enable": True}, ""),
        ({"nodeConfigs": [1]}, "nodeConfigs"),
        ({"nodeConfigs": [{}, {"defaultRatio": 9}]}, "nodeConfigs[1].defaultRatio"),
    ],
)
def test_a_key_that_cannot_be_read_keeps_what_was_in_force(value: Any, path: str) -> None:
    before = read({"enable": True, "defaultRatio": 2}, amplified({"cpu": 2}))
    found = read(value, amplified({"cpu": 3}), before)
    if not path:
        assert found.refused == ()  # an empty one is none
        return
    assert found.normalization == before.normalization
    (said,) = found.refused
    assert path in said
    assert of_node(found).amplification == '{"cpu":6.0}'  # the other key is read


@pytest.mark.parametrize("ratio", [0.99, 100.5, True, "2", None])
def test_an_amplification_has_bounds(ratio: Any) -> None:
    before = read(amplification=amplified({"cpu": 2}))
    found = read(amplification=amplified({"cpu": ratio}), previous=before)
    assert found.amplification == before.amplification
    assert "resourceAmplificationRatio.cpu" in found.refused[0]
    for fine in (1, 100):
        assert read(amplification=amplified({"cpu": fine})).refused == ()
