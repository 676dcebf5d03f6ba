"""Expected use of a resident beyond what the node's metric includes, by when the pod was placed."""

from __future__ import annotations

import pytest

from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.machine.node_metric import NO_USE, MeasuredPod, NodeMetric, Use
from cotenant.policy.placement.load_aware.forecast import NO_HISTORY
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings
from cotenant.policy.placement.load_aware.usage import Resident, UsageView, delta, load

ESTIMATE, MEASURED = Use(850, 700), Use(300, 900)
UPDATED_S, INTERVAL_S = 1000.0, 60
SETTINGS = LoadAwareSettings()


def metric(pods: dict[str, MeasuredPod] | None) -> NodeMetric:
    return NodeMetric("n", 0.0, INTERVAL_S, Use(2000, 4000), pods=pods)


def beyond(since_s: float, pods: dict[str, MeasuredPod] | None, whole: bool = False, expects_s: float = 0.0) -> Use:
    settings = LoadAwareSettings(expects_s=expects_s)
    return delta(Resident("d/a", ESTIMATE, since_s, True), metric(pods), UPDATED_S, whole, settings, 1010.0)


MINE = {"d/a": MeasuredPod(MEASURED)}


def test_a_pod_placed_after_the_metric_counts_by_its_estimate() -> None:
    assert beyond(UPDATED_S + 1, None) == ESTIMATE
    assert beyond(UPDATED_S + 1, MINE) == ESTIMATE  # measured under that name was a predecessor


@pytest.mark.parametrize("since_s", [UPDATED_S, UPDATED_S - INTERVAL_S + 1])
def test_a_pod_that_had_hardly_begun_counts_by_the_excess_of_its_estimate(since_s: float) -> None:
    assert beyond(since_s, MINE) == Use(550, 0)


@pytest.mark.parametrize("since_s", [UPDATED_S - INTERVAL_S, UPDATED_S - 600])
def test_a_pod_that_ran_for_the_whole_interval_is_in_the_metric(since_s: float) -> None:
    assert beyond(since_s, MINE) == NO_USE


def test_without_measured_pods_one_that_had_hardly_begun_counts_by_its_whole_estimate() -> None:
    assert beyond(UPDATED_S - INTERVAL_S + 1, None) == ESTIMATE
    assert beyond(UPDATED_S - INTERVAL_S, None) == NO_USE


def test_a_pod_that_the_metric_does_not_measure_counts_by_its_estimate_however_old_it_is() -> None:
    assert beyond(UPDATED_S - 600, {"d/b": MeasuredPod(MEASURED)}) == ESTIMATE


def test_while_the_estimate_is_expected_the_excess_counts_beyond_the_interval_too() -> None:
    since_s = UPDATED_S - 190  # 200 s before now
    assert beyond(since_s, MINE, expects_s=201.0) == Use(550, 0)
    assert beyond(since_s, MINE, expects_s=200.0) == NO_USE


def test_where_the_requested_value_is_missing_every_pod_counts_by_its_estimate() -> None:
    assert beyond(UPDATED_S - 600, MINE, whole=True) == ESTIMATE


def test_only_residents_with_use_beyond_the_metric_are_counted() -> None:
    old, new = (
        Resident(f"d/{name}", ESTIMATE, since_s, True) for name, since_s in (("a", 100.0), ("b", UPDATED_S + 1))
    )
    found = load(metric(MINE), UPDATED_S, [old, new], UsageView(), NO_HISTORY, SETTINGS, 1010.0)
    assert (found.use, found.expected, found.counted) == (Use(2000, 4000), ESTIMATE, 1)


def test_production_use_takes_the_class_of_a_resident_where_the_metric_has_none() -> None:
    """A measurement under the name of a production pod that was placed after the metric is not that pod's."""
    pods = {
        "d/prod": MeasuredPod(Use(100, 0), PriorityClass.PROD),
        "d/known": MeasuredPod(Use(20, 0)),
        "d/unknown": MeasuredPod(Use(3, 0)),
        "d/late": MeasuredPod(Use(4000, 0)),
    }
    residents = [Resident("d/known", ESTIMATE, 100.0, True), Resident("d/late", ESTIMATE, UPDATED_S + 1, True)]
    residents.append(Resident("d/batch", ESTIMATE, UPDATED_S + 1, False))
    found = load(metric(pods), UPDATED_S, residents, UsageView(production=True), NO_HISTORY, SETTINGS, 1010.0)
    assert found.use == Use(120, 0)
    assert found.expected == ESTIMATE
