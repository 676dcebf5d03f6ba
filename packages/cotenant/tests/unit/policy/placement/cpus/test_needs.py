"""Which pods get CPUs of their own, which are aligned, and which share, by class and annotations."""

from __future__ import annotations

import pytest

from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.cpus.spec import BindPolicy, NumaTopologySpec, ResourceSpec, TopologyPolicy
from cotenant.model.resources import Amounts
from cotenant.policy.placement.cpus.needs import CpuNeed, cpu_need, shared_need

LS, LSR, LSE, BE = QoSClass.LS, QoSClass.LSR, QoSClass.LSE, QoSClass.BE
REQUIRED = ResourceSpec(required=BindPolicy.FULL_CORES)
PREFERRED = ResourceSpec(preferred=BindPolicy.SPREAD)
BURST = ResourceSpec(preferred=BindPolicy.CONSTRAINED_BURST)
SINGLE, EFFORT = NumaTopologySpec(TopologyPolicy.SINGLE_NUMA_NODE), NumaTopologySpec(TopologyPolicy.BEST_EFFORT)
ANYWHERE = NumaTopologySpec()


def pod(qos: QoSClass, cpu_m: int = 2000, is_whole: bool = False) -> Pod:
    requests = Amounts.of({"cpu": cpu_m, "memory": 7})
    return Pod("p", requests=requests, qos=qos, priority_class=PriorityClass.PROD, has_whole_cpus=is_whole)


@pytest.mark.parametrize(
    ("qos", "cpus", "numa", "own"),
    [
        (LS, None, None, None),
        (BE, None, None, None),
        (LSR, None, None, True),
        (LSE, None, None, True),
        (LS, REQUIRED, None, True),
        (BE, REQUIRED, None, None),
        (LS, PREFERRED, None, None),
        (LSR, BURST, None, None),
        (LS, None, SINGLE, False),
        (BE, None, EFFORT, False),
        (LSR, BURST, SINGLE, False),
        (LSR, None, SINGLE, True),
        (LS, None, ANYWHERE, None),
    ],
)
def test_who_needs_cpus_of_its_own_or_alignment(
    qos: QoSClass, cpus: ResourceSpec | None, numa: NumaTopologySpec | None, own: bool | None
) -> None:
    found = cpu_need(pod(qos), Demands(cpus=cpus, numa=numa))
    wanted = None if own is None else CpuNeed(2000, 7, own, cpus or ResourceSpec(), numa or ANYWHERE)
    assert found == wanted


def test_without_a_request_of_cpu_there_are_none_to_own() -> None:
    assert cpu_need(pod(LSR, 0), Demands()) is None
    assert cpu_need(pod(LSR, 1), Demands()) is not None
    aligned = cpu_need(pod(LSR, 0), Demands(numa=SINGLE))
    assert aligned is not None
    assert not aligned.own


def test_the_clusters_bind_policy_stands_for_one_that_is_not_named() -> None:
    assert cpu_need(pod(LSR), Demands(), BindPolicy.CONSTRAINED_BURST) is None
    assert cpu_need(pod(LSR), Demands(cpus=PREFERRED), BindPolicy.CONSTRAINED_BURST) is not None


def test_a_kubelet_could_give_whole_cpus_that_are_to_be_owned() -> None:
    for qos, numa, is_whole, by_kubelet in (
        (LSR, None, True, True),
        (LSR, None, False, False),
        (LS, SINGLE, True, False),
    ):
        found = cpu_need(pod(qos, is_whole=is_whole), Demands(numa=numa))
        assert found is not None
        assert found.by_kubelet is by_kubelet


@pytest.mark.parametrize(
    ("need", "is_strict"),
    [
        (CpuNeed(1, 1, True), False),
        (CpuNeed(1, 1, True, REQUIRED), True),
        (CpuNeed(1, 1, False, numa=EFFORT), False),
        (CpuNeed(1, 1, False, numa=NumaTopologySpec(TopologyPolicy.RESTRICTED)), True),
        (CpuNeed(1, 1, False, numa=SINGLE), True),
    ],
)
def test_what_is_required_needs_a_known_topology(need: CpuNeed, is_strict: bool) -> None:
    assert need.is_strict is is_strict


def test_a_pod_that_a_node_aligns_owns_nothing() -> None:
    assert shared_need(pod(LSR)) == CpuNeed(2000, 7, False)
