"""Victims on devices: no more pods than the request needs, and the least important ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.engine.rules.test_devices import cluster, decided, gpus, part, pod

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Preempt
from cotenant.model.cluster.demands import Holdings
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import DeviceType
from cotenant.model.groups.quota import PREEMPTIBLE
from cotenant.model.resources import GPU, NVIDIA_GPU, RDMA, Amounts


def holder(
    name: str,
    *minors: int,
    percent: int = 100,
    priority: int = 0,
    started_s: float = 1.0,
    labels: dict[str, str] | None = None,
    sub_priority: int = 0,
    node: str = "a",
) -> ObservedPod:
    """A running pod that holds this part of these GPUs."""
    held = tuple(part(minor, percent) for minor in minors)
    made = pod(name, {GPU: percent * len(minors)}, on=node, priority=priority, holds=Holdings(devices=held))
    value = replace(made.pod, labels=Labels.of(labels or {}), sub_priority=sub_priority)
    return replace(made, pod=value, started_s=started_s)


def full(*holders: ObservedPod, nodes: tuple[str, ...] = ("a",), cards: int = 0) -> Cluster:
    c = cluster(*nodes)
    for name in nodes:
        c.plugins.devices.seen(gpus(name, 8, cards=cards))
    for holder in holders:
        c.pod_seen(holder, 0.0)
    return c


def victims(c: Cluster, asks: dict[str, int], priority: int = 10) -> list[str]:
    """The victims for a new pod, which is placed once they are gone."""
    c.pod_seen(pod("new", asks, priority=priority), 0.0)
    found = [instruction for instruction in c.decide(0.0) if isinstance(instruction, Preempt)]
    names = sorted(victim.key.partition("/")[2] for preempt in found for victim in preempt.victims)
    for name in names:
        c.pod_gone(f"uid-{name}", 1.0)
    if names:
        assert "new" in decided(c, 1.0)
    c.validate()
    return names


def test_an_idle_gpu_is_used_before_another_pod_is_evicted() -> None:
    c = full(*(holder(f"p{i}", i) for i in range(7)))
    assert len(victims(c, {NVIDIA_GPU: 2})) == 1


@pytest.mark.parametrize("job_started_s", [0.5, 1.0, 2.0])
def test_half_a_gpu_is_evicted_rather_than_six_gpus_of_equal_priority(job_started_s: float) -> None:
    c = full(holder("job", *range(6), started_s=job_started_s), holder("half", 6, percent=50))
    assert victims(c, {NVIDIA_GPU: 2}) == ["half"]


def test_one_pod_with_two_gpus_is_evicted_rather_than_two_with_one() -> None:
    """The reprieve of kube-scheduler keeps the pod of two GPUs, which started first, and evicts two others."""
    c = full(holder("two", 0, 1, started_s=0.0), *(holder(f"p{i}", i, started_s=1.0 + i) for i in range(2, 8)))
    assert victims(c, {NVIDIA_GPU: 2}) == ["two"]


def test_less_important_pods_are_evicted_even_if_more_of_them() -> None:
    c = full(holder("two", 0, 1, priority=5), *(holder(f"p{i}", i, priority=1) for i in range(2, 8)))
    assert len(victims(c, {NVIDIA_GPU: 2})) == 2


def test_of_equal_priority_the_lower_sub_priority_is_evicted() -> None:
    c = full(*(holder(f"p{i}", i, sub_priority=(9 if i != 3 else 2)) for i in range(8)))
    assert victims(c, {NVIDIA_GPU: 1}) == ["p3"]


def test_sub_priority_decides_between_nodes_before_the_start() -> None:
    c = full(
        holder("x", *range(8), sub_priority=5, started_s=9.0),
        holder("y", *range(8), sub_priority=4, started_s=1.0, node="b"),
        nodes=("a", "b"),
    )
    assert victims(c, {NVIDIA_GPU: 8}) == ["y"]


def test_higher_sub_priority_alone_does_not_preempt() -> None:
    c = full(holder("x", *range(8), priority=5, sub_priority=1))
    new = pod("new", {NVIDIA_GPU: 1}, priority=5)
    c.pod_seen(replace(new, pod=replace(new.pod, sub_priority=9)), 0.0)
    assert not [instruction for instruction in c.decide(0.0) if isinstance(instruction, Preempt)]


def test_a_pod_whose_label_forbids_preemption_is_not_evicted() -> None:
    c = full(*(holder(f"p{i}", i, priority=i, labels={PREEMPTIBLE: "false"} if i < 7 else None) for i in range(8)))
    assert victims(c, {NVIDIA_GPU: 1}) == ["p7"]


def test_a_budget_is_counted_against_the_pods_that_are_really_evicted() -> None:
    """One disruption is allowed: the class of all candidates would exceed it, the only victim needed does not."""
    covered = {"app": "x"}
    c = full(
        *(holder(f"p{i}", i, labels=covered) for i in range(7)), holder("other", 7, priority=3, labels={"app": "y"})
    )
    c.budget_seen(DisruptionBudget("default", "b", LabelSelector.of(covered), 1))
    c.pod_seen(pod("new", {NVIDIA_GPU: 1}, priority=10), 0.0)
    (found,) = [instruction for instruction in c.decide(0.0) if isinstance(instruction, Preempt)]
    assert (len(found.victims), found.breaks_budgets) == (1, 0)
    assert found.victims[0].key != "default/other"


def test_a_card_and_a_gpu_are_freed_together() -> None:
    """The RDMA card is held by one pod, GPUs by others; only both together serve the request."""
    c = full(*(holder(f"p{i}", i) for i in range(8)), cards=1)
    card = (DeviceAllocation(DeviceType.RDMA, 0, Amounts.of({RDMA: 100})),)
    c.pod_seen(pod("card", {RDMA: 100}, on="a", holds=Holdings(devices=card)), 0.0)
    got = victims(c, {NVIDIA_GPU: 1, RDMA: 50})
    assert (len(got), "card" in got) == (2, True)


def test_victims_that_end_for_another_preemptor_are_not_counted_twice() -> None:
    """The two pods that end make room for the first preemptor; the second needs two more."""
    c = full(*(holder(f"p{i}", i) for i in range(8)))
    found = []
    for name in ("first", "second"):
        c.pod_seen(pod(name, {NVIDIA_GPU: 2}, priority=10), 0.0)
        found += [instruction for instruction in c.decide(0.0) if isinstance(instruction, Preempt)]
    first, second = ({victim.key for victim in preempt.victims} for preempt in found)
    assert (len(first), len(second)) == (2, 2)
    assert not first & second
    for key in first | second:
        c.pod_gone(f"uid-{key.partition('/')[2]}", 1.0)
    assert set(decided(c, 1.0)) == {"first", "second"}


def test_a_more_important_preemptor_takes_the_room_of_a_nominated_pod() -> None:
    c = full(*(holder(f"p{i}", i) for i in range(8)))
    c.pod_seen(pod("first", {NVIDIA_GPU: 8}, priority=10), 0.0)
    assert len(next(instruction for instruction in c.decide(0.0) if isinstance(instruction, Preempt)).victims) == 8
    c.pod_seen(pod("second", {NVIDIA_GPU: 8}, priority=20), 0.0)
    (found,) = [instruction for instruction in c.decide(0.0) if isinstance(instruction, Preempt)]
    assert (found.node, found.victims) == ("a", ())
