"""Who a pod belonged to, what counts towards a tenant's use, and for how long it is remembered."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.quota_world import pod, quota

from cotenant.model.cluster.observed import PodPhase
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, Use
from cotenant.model.resources import Amounts
from cotenant.policy.credit.pricing import Priced
from cotenant.services.credit.facts import FRESH_S, REMEMBERED_S, ClusterFacts, PodPlace


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def facts(clock: Clock) -> ClusterFacts:
    made = ClusterFacts(clock)
    made.quota_seen(quota("a", 10, 100))
    return made


def test_a_pod_has_its_tenant_and_node_while_it_runs_and_for_a_while_after(facts: ClusterFacts, clock: Clock) -> None:
    facts.pod_seen(pod("one", 1, "a", on="n"))
    facts.pod_seen(pod("two", 1, "nobody", on="m"))
    assert facts.place_of("work/one") == PodPlace("a", "n")
    assert facts.place_of("work/two") == PodPlace("", "m")
    assert facts.place_of("work/three") is None
    facts.pod_gone("work/one")
    facts.pod_gone("work/one")
    clock.now_s += REMEMBERED_S
    assert facts.place_of("work/one") == PodPlace("a", "n")
    clock.now_s += 1.0
    assert facts.place_of("work/one") is None


def test_a_pod_of_the_same_name_counts_before_the_one_that_left(facts: ClusterFacts, clock: Clock) -> None:
    facts.pod_seen(pod("one", 1, "a", on="n"))
    facts.pod_gone("work/one")
    facts.pod_seen(pod("one", 1, "a", on="m"))
    assert facts.place_of("work/one") == PodPlace("a", "m")
    clock.now_s += REMEMBERED_S - 1.0
    facts.pod_gone("work/one")
    clock.now_s += 2.0
    assert facts.place_of("work/one") == PodPlace("a", "m")


def test_only_pods_on_nodes_that_have_not_ended_count(facts: ClusterFacts) -> None:
    running = pod("one", 3, "a", on="n")
    facts.pod_seen(running)
    assert facts.uses()[0].declared == 3_000
    for other in (
        replace(running, node=""),
        replace(running, phase=PodPhase.SUCCEEDED),
        replace(running, reservation="r"),
    ):
        facts.pod_seen(running)
        facts.pod_seen(other)
        assert facts.uses()[0].declared == 0


def test_measurements_count_until_they_are_old_and_empty_ones_take_them_back(facts: ClusterFacts, clock: Clock) -> None:
    facts.pod_seen(pod("one", 3, "a", on="n"))
    metric = NodeMetric("n", 30.0, pods={"work/one": MeasuredPod(Use(1500, 7))})
    facts.metric_seen(metric)
    clock.now_s += FRESH_S - 30.0
    assert facts.uses()[0].measured == 1500
    clock.now_s += 1.0
    assert facts.uses()[0].measured is None
    for empty in (replace(metric, pods={}), replace(metric, pods=None)):
        facts.metric_seen(replace(metric, age_s=0.0))
        assert facts.uses()[0].measured == 1500
        facts.metric_seen(empty)
        assert facts.uses()[0].measured is None
    facts.metric_seen(replace(metric, age_s=0.0))
    facts.metric_gone("n")
    assert facts.uses()[0].measured is None


def test_resources_that_a_guarantee_names_are_priced_beside_cpu(clock: Clock) -> None:
    facts = ClusterFacts(clock)
    least = Amounts.of({"cpu": 1000, "memory": 5, "nvidia.com/gpu": 2})
    given = quota("a", 1, 100)
    facts.quota_seen(replace(given, quota=replace(given.quota, minimum=least, maximum=least)))
    facts.quota_seen(quota("b", 1, 100))
    for name in ("one", "two"):
        asked = Amounts.of({"cpu": 200, "memory": 3, "nvidia.com/gpu": 1})
        facts.pod_seen(pod(name, 0, "a", on="n", requests=asked))
    facts.metric_seen(NodeMetric("n", 0.0, pods={f"work/{name}": MeasuredPod(Use(50, 2)) for name in ("one", "two")}))
    found = {(use.tenant, use.resource): (use.guaranteed, use.declared, use.measured) for use in facts.uses()}
    assert found == {
        ("a", Priced.CPU): (1000, 400, 100),
        ("a", Priced.MEMORY): (5, 6, 4),
        ("a", Priced.GPU): (2, 2, None),
        ("b", Priced.CPU): (1000, 0, 0),
    }
