"""How many replicas a metric asks for: pods that start, that are not measured, that are going."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from cotenant_local.controllers.views.autoscaling import MetricTarget, ResourceSource
from cotenant_local.controllers.views.core import ConditionView, Meta
from cotenant_local.controllers.views.pods import (
    ContainerView,
    PodObjectView,
    PodSpecView,
    PodStatusView,
    ResourcesView,
)
from cotenant_local.controllers.workloads.replica_count import (
    AskedReplicas,
    MetricPodUse,
    SilentMetric,
    Tolerance,
    replicas_for,
)

NOW_S = datetime(2026, 1, 1, 12, 0, tzinfo=UTC).timestamp()
HALF = ResourceSource("cpu", target=MetricTarget("Utilization", 50))


def time_of(ago_s: float) -> datetime:
    return datetime.fromtimestamp(NOW_S - ago_s, UTC)


def pod(
    name: str, phase: str = "Running", ready: str = "True", started_ago_s: float = 3600, **more: Any
) -> PodObjectView:
    changed = time_of(more.pop("changed_ago_s", started_ago_s - 5))
    conditions = (ConditionView("Ready", ready, last_transition_time=changed),) if ready else ()
    status = PodStatusView(phase, conditions=conditions, start_time=time_of(started_ago_s))
    containers = (ContainerView("main", resources=ResourcesView({"cpu": "1", "memory": "1Gi"})),)
    return PodObjectView(Meta(name, "n", f"u-{name}", **more), PodSpecView(containers), status)


def use(**milli: int) -> dict[str, MetricPodUse]:
    return {
        name: MetricPodUse({"main": {"cpu": amount, "memory": (amount << 20) * 1000}}, NOW_S, 30.0)
        for name, amount in milli.items()
    }


def asked(pods: list[PodObjectView], current: int, source: ResourceSource = HALF, **milli: int) -> int:
    answer = replicas_for(source, current, pods, use(**milli), Tolerance(), NOW_S)
    assert isinstance(answer, AskedReplicas)
    return answer.replicas


@pytest.mark.parametrize(
    ("milli", "wanted"),
    [
        ((500, 500), 2),
        ((550, 550), 2),
        ((450, 450), 2),
        ((570, 570), 3),
        ((1000, 1000), 4),
        ((100, 100), 1),
        ((0, 0), 0),
    ],
)
def test_use_over_the_target_is_the_number_of_ready_pods_but_for_a_tenth(milli: tuple[int, int], wanted: int) -> None:
    assert asked([pod("a"), pod("b")], 2, a=milli[0], b=milli[1]) == wanted


def test_a_pod_that_starts_does_not_make_the_number_grow_further() -> None:
    starting = pod("b", ready="False", started_ago_s=10, changed_ago_s=10)
    assert asked([pod("a"), starting], 2, a=900, b=1000) == 2  # 45 % of both
    assert asked([pod("a"), starting], 2, a=1500, b=0) == 3  # 75 % of both
    assert asked([pod("a"), pod("b", "Pending", "")], 2, a=900) == 2


def test_a_pod_that_is_not_measured_does_not_make_the_number_change_further() -> None:
    pods = [pod("a"), pod("b"), pod("c")]
    assert asked(pods, 3, a=300, b=300) == 3  # c counts as using all
    assert asked(pods, 3, a=20, b=20) == 3  # 34 % would be 3 of 3
    assert asked(pods, 3, a=1000, b=1000) == 4  # c counts as idle
    assert asked(pods, 3, a=600, b=600) == 3  # it would turn the direction


def test_early_figures_of_cpu_are_not_believed_and_those_of_memory_are() -> None:
    early = pod("b", started_ago_s=60, changed_ago_s=10)  # its window of 30 s began before it was ready
    assert asked([pod("a"), early], 2, a=600, b=4000) == 2
    of_memory = ResourceSource("memory", target=MetricTarget("AverageValue", average_value="500Mi"))
    assert asked([pod("a"), early], 2, of_memory, a=500, b=1000) == 3
    late = pod("b", started_ago_s=60, changed_ago_s=40)
    assert asked([pod("a"), late], 2, a=600, b=1400) == 4


def test_a_pod_that_was_ready_once_counts_even_if_it_is_not_now() -> None:
    broken = pod("b", ready="False", started_ago_s=3600, changed_ago_s=60)
    assert asked([pod("a"), broken], 2, a=1000, b=1000) == 4
    never = pod("b", ready="False", started_ago_s=3600, changed_ago_s=3590)
    assert asked([pod("a"), never], 2, a=1500, b=1500) == 3


def test_pods_that_are_going_or_have_failed_are_left_out() -> None:
    pods = [pod("a"), pod("b", deletion_timestamp=time_of(1)), pod("c", "Failed")]
    assert asked(pods, 1, a=1000, b=5000, c=5000) == 2


def test_a_target_in_amounts_needs_no_requests_and_one_in_percent_does() -> None:
    plain = PodObjectView(Meta("a", "n", "u"), PodSpecView((ContainerView("main"),)), pod("a").status)
    of_amount = ResourceSource("cpu", target=MetricTarget("AverageValue", average_value="250m"))
    assert asked([plain], 1, of_amount, a=750) == 3
    assert replicas_for(HALF, 1, [plain], use(a=750), Tolerance(), NOW_S) == SilentMetric(
        "missing request for cpu in container main of Pod a"
    )


def test_one_container_is_read_where_it_is_named() -> None:
    sidecar = ContainerView("log", resources=ResourcesView({"cpu": "100m"}), restart_policy="Always")
    with_sidecar = PodObjectView(
        Meta("a", "n", "u"), PodSpecView(pod("a").spec.containers, (sidecar,)), pod("a").status
    )
    measured = {"a": MetricPodUse({"main": {"cpu": 1000}, "log": {"cpu": 10}}, NOW_S, 30.0)}
    main = ResourceSource("cpu", "main", MetricTarget("Utilization", 50))
    whole = replicas_for(HALF, 1, [with_sidecar], measured, Tolerance(), NOW_S)
    one = replicas_for(main, 1, [with_sidecar], measured, Tolerance(), NOW_S)
    assert (whole, one) == (AskedReplicas(2, 1010, 91), AskedReplicas(2, 1000, 100))
    other = ResourceSource("cpu", "gone", MetricTarget("Utilization", 50))
    assert isinstance(replicas_for(other, 1, [with_sidecar], measured, Tolerance(), NOW_S), SilentMetric)


def test_without_figures_there_is_no_answer() -> None:
    nothing = replicas_for(HALF, 1, [pod("a")], {}, Tolerance(), NOW_S)
    assert nothing == SilentMetric(
        "unable to get metrics for resource cpu: no metrics returned from resource metrics API"
    )
    waiting = replicas_for(HALF, 1, [pod("a", "Pending", "")], use(a=100), Tolerance(), NOW_S)
    assert waiting == SilentMetric("did not receive metrics for targeted pods (pods might be unready)")


def test_a_wider_tolerance_holds_still() -> None:
    pods = [pod("a")]
    wide = Tolerance(0.5, 1.0)
    assert [
        getattr(replicas_for(HALF, 1, pods, use(a=milli), wide, NOW_S), "replicas", None) for milli in (1000, 1020, 250)
    ] == [1, 3, 1]
