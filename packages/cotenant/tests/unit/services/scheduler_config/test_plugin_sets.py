"""Plugin sets of a profile: a verdict for each plugin at each point, which filters are left, and mistakes by path."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.kube_scoring import ScoreWeights
from cotenant.services.scheduler_config.forms import PluginForm, Plugins, PluginSet
from cotenant.services.scheduler_config.plugin_sets import ChosenPlugins, choose
from cotenant.services.scheduler_config.settings import SettingVerdict, SettingVerdicts

HONOURED, IRRELEVANT, NOT = SettingVerdict.HONOURED, SettingVerdict.IRRELEVANT, SettingVerdict.NOT_SUPPORTED


def chosen(**points: PluginSet) -> tuple[ChosenPlugins, dict[str, SettingVerdict]]:
    settings = SettingVerdicts()
    found = choose(Plugins(**points), "plugins", settings)
    return found, {setting.path.removeprefix("plugins."): setting.verdict for setting in settings.all()}


def without(*names: str) -> PluginSet:
    return PluginSet(disabled=tuple(PluginForm(name) for name in names))


def with_(*names: str, weight: int | None = None) -> PluginSet:
    return PluginSet(enabled=tuple(PluginForm(name, weight) for name in names))


@pytest.mark.parametrize(
    ("point", "name", "verdict"),
    [
        ("score", "ImageLocality", HONOURED),
        ("score", "NodePorts", HONOURED),  # it gives none anyway
        ("score", "Mine", IRRELEVANT),
        ("pre_score", "ImageLocality", NOT),
        ("post_filter", "DefaultPreemption", HONOURED),
        ("filter", "NodePorts", HONOURED),
        ("filter", "NodeResourcesFit", NOT),
        ("filter", "VolumeBinding", NOT),
        ("filter", "DynamicResources", NOT),
        ("filter", "NodeName", IRRELEVANT),
        ("filter", "Mine", IRRELEVANT),
        ("filter", "NodeUnschedulable", IRRELEVANT),  # TaintToleration keeps pods off
        ("filter", "ImageLocality", NOT),
        ("pre_filter", "NodePorts", NOT),  # its filter is on, and prepares itself
        ("multi_point", "NodePorts", HONOURED),
        ("multi_point", "ImageLocality", HONOURED),
        ("multi_point", "DefaultPreemption", HONOURED),
        ("multi_point", "PrioritySort", NOT),
        ("bind", "DefaultBinder", NOT),
    ],
)
def test_what_is_switched_off_has_a_verdict(point: str, name: str, verdict: SettingVerdict) -> None:
    _, said = chosen(**{point: without(name)})
    assert list(said.values()) == [verdict]


@pytest.mark.parametrize(
    ("point", "name", "verdict"),
    [
        ("score", "ImageLocality", HONOURED),
        ("score", "NodePorts", NOT),
        ("filter", "NodePorts", HONOURED),
        ("filter", "Mine", NOT),
        ("multi_point", "Coscheduling", IRRELEVANT),
        ("multi_point", "ElasticQuota", IRRELEVANT),
    ],
)
def test_what_is_switched_on_has_a_verdict(point: str, name: str, verdict: SettingVerdict) -> None:
    _, said = chosen(**{point: with_(name)})
    assert list(said.values()) == [verdict]


def test_a_cordon_may_be_left_out_where_taints_are_too() -> None:
    _, said = chosen(filter=without("NodeUnschedulable", "TaintToleration"))
    assert set(said.values()) == {HONOURED}


def test_a_filter_that_is_off_may_be_off_before_it_too() -> None:
    found, said = chosen(pre_filter=without("NodePorts"), filter=without("NodePorts"))
    assert set(said.values()) == {HONOURED}
    assert found.unfiltered == {"NodePorts"}


def test_all_by_a_star_is_each_of_them_but_those_that_are_on_again() -> None:
    again = PluginSet(enabled=(PluginForm("NodePorts"),), disabled=(PluginForm("*"),))
    found, said = chosen(multi_point=again)
    assert said["multiPoint.enabled[0] (NodePorts)"] is HONOURED
    assert "multiPoint.disabled[0] (NodePorts)" not in said
    assert said["multiPoint.disabled[0] (NodeAffinity)"] is HONOURED
    assert said["multiPoint.disabled[0] (PrioritySort)"] is NOT
    assert (found.preempts, found.weights) == (False, ScoreWeights(0, 0, 0, 0, 0, 0, 0))
    assert "NodePorts" not in found.unfiltered
    assert {"NodeAffinity", "TaintToleration"} <= found.unfiltered


def test_a_star_at_one_point_says_nothing_of_what_is_not_there() -> None:
    _, said = chosen(score=without("*"))
    assert set(said.values()) == {HONOURED}
    assert "score.disabled[0] (NodePorts)" not in said
    _, said = chosen(filter=without("*"))
    assert said["filter.disabled[0] (NodeResourcesFit)"] is NOT
    assert "filter.disabled[0] (PrioritySort)" not in said


def test_usually_everything_is_on() -> None:
    found, said = chosen()
    assert found == ChosenPlugins(ScoreWeights(), True, frozenset())
    assert said == {}


def test_preemption_is_off_where_it_is_switched_off() -> None:
    for point in ("post_filter", "multi_point"):
        assert not chosen(**{point: without("DefaultPreemption")})[0].preempts
        assert not chosen(**{point: without("*")})[0].preempts
    assert chosen(post_filter=PluginSet((PluginForm("DefaultPreemption"),), (PluginForm("*"),)))[0].preempts


@pytest.mark.parametrize(
    ("points", "weights"),
    [
        ({"score": with_("ImageLocality", weight=5)}, ScoreWeights(images=5)),
        ({"score": with_("ImageLocality", weight=0)}, ScoreWeights(images=1)),
        ({"multi_point": with_("ImageLocality", weight=5)}, ScoreWeights(images=5)),
        (
            {"score": with_("ImageLocality", weight=2), "multi_point": with_("ImageLocality", weight=5)},
            ScoreWeights(images=2),
        ),
        ({"multi_point": without("ImageLocality")}, ScoreWeights(images=0)),
        ({"multi_point": without("ImageLocality"), "score": with_("ImageLocality")}, ScoreWeights(images=1)),
    ],
)
def test_a_points_own_set_counts_before_multi_point(points: dict[str, Any], weights: ScoreWeights) -> None:
    assert chosen(**points)[0].weights == weights


@pytest.mark.parametrize(
    ("points", "path"),
    [
        ({"score": with_("")}, r"plugins\.score\.enabled\[0\]\.name"),
        ({"score": without("NodePorts", "")}, r"plugins\.score\.disabled\[1\]\.name"),
        ({"filter": with_("EBSLimits")}, r"plugins\.filter\.enabled\[0\]\.name.*NodeVolumeLimits replaces it"),
        ({"filter": with_("NodePorts", "NodePorts")}, r"plugins\.filter\.enabled\[1\]\.name.*once"),
        ({"score": with_("ImageLocality", weight=-1)}, r"plugins\.score\.enabled\[0\]\.weight"),
        ({"queue_sort": with_("PrioritySort", "Mine")}, r"plugins\.queueSort\.enabled.*2 plugins"),
    ],
)
def test_a_mistake_is_named_by_its_path(points: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidInput, match=path):
        chosen(**points)


def test_one_sort_and_a_plugin_twice_off_is_fine() -> None:
    chosen(queue_sort=with_("PrioritySort"))
    chosen(filter=without("NodePorts", "NodePorts"))
