"""Needs of GPUs as nodes measured them, against what pods' owners write."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.engine.rules.test_device_neighbours import ON, SCAN, TRAIN, share
from tests.unit.engine.rules.test_devices import cluster, decided, gpus, part

from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS
from cotenant.engine.cluster import Cluster
from cotenant.engine.rules.devices.measured_needs import MIN_REPORTS, CardNeedMean, MeasuredNeeds
from cotenant.engine.rules.devices.requests import DeviceSettings
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.devices.card_need import CardNeed, ServingPhase
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, PodSignals, Use
from cotenant.services.scheduling.custom_kinds import custom_kinds


def running(name: str, said: CardNeed, node: str, image: str) -> ObservedPod:
    made = share(name, said, on=node, holds=Holdings(devices=(part(0, 30),)))
    return replace(made, pod=replace(made.pod, images=(image,)))


def report(
    node: str, sm: float | None = None, bandwidth: float | None = None, age_s: float = 1.0, pod: str = "one"
) -> NodeMetric:
    measured = MeasuredPod(Use(100, 1), signals=PodSignals(gpu_sm=sm, gpu_bandwidth=bandwidth))
    return NodeMetric(node, age_s, 60, Use(100, 1), pods={f"default/{pod}": measured})


def two_nodes(settings: DeviceSettings = ON) -> Cluster:
    """Both pods say that they scan; the one on `a` really trains."""
    made = cluster("a", "b", settings=settings)
    for node in "ab":
        made.plugins.devices.seen(gpus(node, 1))
    made.pod_seen(running("one", SCAN, "a", "liar"), 0.0)
    made.pod_seen(running("two", SCAN, "b", "scan"), 0.0)
    made.decide(0.0)
    return made


def told(made: Cluster, times: int, age_s: float = 1.0) -> None:
    for _ in range(times):
        made.plugins.devices.metric_seen(report("a", 0.8, 0.2, age_s))


def where(made: Cluster, need: CardNeed, image: str = "new") -> str:
    waiting = share("x", need)
    made.pod_seen(replace(waiting, pod=replace(waiting.pod, images=(image,))), 1.0)
    return decided(made, 1.0)["x"].node


def test_what_a_node_measures_of_a_neighbour_counts_before_what_its_owner_writes() -> None:
    made = two_nodes()
    told(made, MIN_REPORTS)
    assert where(made, TRAIN) == "b"
    assert made.plugins.devices.beside(next(iter(made.plugins.devices._pods))) == ()
    made.validate()


def test_a_newcomer_is_judged_by_what_was_measured_of_its_like() -> None:
    made = two_nodes()
    told(made, MIN_REPORTS)
    assert where(made, CardNeed(), "liar") == "b"  # it says nothing, and trains as the one on `a` does
    made.validate()


@pytest.mark.parametrize("times", [0, MIN_REPORTS - 1])
def test_before_enough_was_measured_its_word_counts(times: int) -> None:
    made = two_nodes()
    told(made, times)
    assert where(made, TRAIN) == "a"  # both are said to scan: it packs


def test_old_reports_other_nodes_and_what_was_not_measured_count_as_none() -> None:
    made = two_nodes()
    told(made, MIN_REPORTS, age_s=500.0)
    for _ in range(MIN_REPORTS):
        made.plugins.devices.metric_seen(report("b", 0.8, 0.2))
        made.plugins.devices.metric_seen(report("a", 0.8))
        made.plugins.devices.metric_seen(report("a", 0.8, 0.2, pod="nobody"))
    assert where(made, TRAIN) == "a"


def test_by_default_nothing_is_measured() -> None:
    made = two_nodes(DeviceSettings())
    told(made, MIN_REPORTS)
    assert where(made, TRAIN) == "a"


def test_a_copy_of_the_engine_knows_what_was_measured() -> None:
    made = two_nodes()
    told(made, MIN_REPORTS)
    copy = made.plugins.devices.capture()()
    liar = running("one", SCAN, "a", "liar").pod
    assert copy.needs.of(liar, Demands(card_need=SCAN)) == CardNeed(80, 20)


def test_explain_says_what_was_measured() -> None:
    made = two_nodes()
    told(made, MIN_REPORTS + 1)
    liar = running("one", SCAN, "a", "liar").pod
    (number,) = [n for n, one in made.plugins.devices._pods.items() if one.key == liar.key]
    said = made.plugins.devices.need_of(number, liar)
    assert said == "80 % of its multiprocessors and 20 % of its memory bandwidth, by 9 reports of pods like it"
    assert made.plugins.devices.need_of(number + 99, liar) == ""


def test_phase_and_growth_remain_the_pods_own_words() -> None:
    needs = MeasuredNeeds()
    pod = running("one", SCAN, "a", "liar").pod
    demands = Demands(card_need=CardNeed(1, 2, ServingPhase.DECODE, 10))
    needs.follow(1, pod, demands)
    for _ in range(MIN_REPORTS):
        list(needs.measured(pod.key, PodSignals(gpu_sm=0.61, gpu_bandwidth=0.0)))
    assert needs.of(pod, demands) == CardNeed(60, 0, ServingPhase.DECODE, 10)
    needs.forget(2, pod.key)
    assert needs.number_of(pod.key) == 1
    needs.forget(1, pod.key)
    assert needs.number_of(pod.key) is None


def test_the_mean_is_the_plain_one_at_first_and_follows_later() -> None:
    need = CardNeedMean()
    for share_of_time in (0.2, 0.4, 0.6):
        need = need.added(share_of_time, 0.0)
    assert need.sm == pytest.approx(0.4)
    for _ in range(300):
        need = need.added(0.9, 0.0)
    assert need.sm == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize("settings", [ON, DeviceSettings()])
def test_reports_are_watched_where_needs_count(settings: DeviceSettings) -> None:
    made = two_nodes(settings)
    watched = [kind for kind in custom_kinds(made) if kind.kind is NODE_METRICS]
    for _ in range(MIN_REPORTS):
        for kind in watched:
            kind.seen(report("a", 0.8, 0.2), 1.0)
    assert where(made, TRAIN) == ("b" if settings is ON else "a")
