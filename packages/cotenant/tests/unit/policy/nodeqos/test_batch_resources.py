"""Weights, quotas and memory limits from batch and mid resources."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.node.node_pods import GB, node, using

from cotenant.model.cluster.qos import KubernetesQoS, QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.node_pod import ExtendedAmounts, NodeContainer, NodePod, NodePodPhase
from cotenant.model.machine.node_state import Allocatable
from cotenant.policy.nodeqos.batch_resources import (
    BatchResourcesConfig,
    BatchResourcesMemory,
    decide,
    quota_of,
    weight_of,
)

CONFIG = BatchResourcesConfig()
BATCH = NodePod(
    "u",
    "jobs",
    "sort",
    "be/sort",
    containers=(
        NodeContainer("map", "be/sort/map", "", 500, 1500, GB, 2 * GB, extended_cpu=True, extended_memory=True),
        NodeContainer("log", "be/sort/log", "", 100, 100, GB, GB),
    ),
    extended=ExtendedAmounts(600, 1600, 3 * GB),
)


def desired(pod: NodePod, config: BatchResourcesConfig = CONFIG) -> dict[str, str]:
    verdict, _ = decide(node([using(pod)]), config, BatchResourcesMemory())
    return {f"{knob.target.group} {knob.target.knob}": knob.value for knob in verdict.knobs}


def pages(count: int) -> str:
    return str(count // 4096 * 4096)


def test_a_batch_pod_gets_what_a_kubelet_would_write_for_native_amounts() -> None:
    assert desired(BATCH) == {
        "be/sort cpu.weight": "60",
        "be/sort cpu.max": "160000 100000",
        "be/sort memory.max": pages(3 * GB),
        "be/sort/map cpu.weight": "50",
        "be/sort/map cpu.max": "150000 100000",
        "be/sort/map memory.max": pages(2 * GB),
    }


def test_memory_that_no_knob_takes_is_as_much_as_one_takes() -> None:
    assert desired(replace(BATCH, extended=ExtendedAmounts(600, 1600, 1 << 64)))["be/sort memory.max"] == pages(
        (1 << 63) - 1
    )


def test_beside_a_service_that_requests_nothing_a_batch_pod_has_no_more_weight() -> None:
    """The kubelet has put it into the class of the batch pods, with the least weight. Daemons there do not matter."""
    service = NodePod("s", "shop", "cart", "be/cart", QoSClass.LS, KubernetesQoS.BEST_EFFORT)

    def weights(beside: NodePod, is_unconfirmed: bool = False) -> dict[str, str]:
        entries = [using(BATCH), replace(using(beside), is_unconfirmed=is_unconfirmed)]
        verdict, _ = decide(node(entries), CONFIG, BatchResourcesMemory())
        return {knob.target.group: knob.value for knob in verdict.knobs if knob.target.knob is Knob.CPU_WEIGHT}

    assert weights(service) == {"be/sort/map": "50"}
    assert weights(service, is_unconfirmed=True) == {
        "be/sort": "60",
        "be/sort/map": "50",
    }  # nobody but its owner says so
    for other in (
        replace(service, group="burstable/cart", kubernetes_qos=KubernetesQoS.BURSTABLE),
        replace(service, qos=QoSClass.SYSTEM),
        replace(service, qos=QoSClass.BE),
    ):
        assert weights(other) == {"be/sort": "60", "be/sort/map": "50"}


def test_without_a_limit_there_is_no_quota() -> None:
    (mapper, log) = BATCH.containers
    unlimited = replace(
        BATCH, containers=(replace(mapper, cpu_limit_m=0), log), extended=ExtendedAmounts(600, None, 3 * GB)
    )
    assert [name for name in desired(unlimited) if "cpu.max" in name] == []


def test_native_pods_and_ended_ones_are_left_alone() -> None:
    assert desired(replace(BATCH, phase=NodePodPhase.OVER)) == {}
    native = replace(BATCH, extended=ExtendedAmounts(), containers=BATCH.containers[1:])
    assert desired(native) == {}


def test_each_part_can_be_switched_off() -> None:
    assert {name.split()[1] for name in desired(BATCH, BatchResourcesConfig(quota=False, memory=False))} == {
        "cpu.weight"
    }
    assert "be/sort cpu.weight" not in desired(BATCH, BatchResourcesConfig(weight=False))


@pytest.mark.parametrize(("cpu_m", "weight"), [(0, 1), (4, 1), (5, 1), (1000, 100), (1024, 102), (400_000, 10_000)])
def test_the_weight_is_the_kernels_share_of_the_request(cpu_m: int, weight: int) -> None:
    assert weight_of(cpu_m) == weight


def test_a_quota_is_never_below_the_kernels_minimum() -> None:
    assert quota_of(3, 100_000) == 1000
    assert quota_of(2500, 50_000) == 125_000


def test_a_knob_that_the_machine_lacks_is_named_once() -> None:
    state = node([using(BATCH)])
    state = replace(state, supported=frozenset(Knob) - {Knob.MEMORY_MAX})
    verdict, _ = decide(state, BatchResourcesConfig(), BatchResourcesMemory())
    assert Knob.MEMORY_MAX not in {knob.target.knob for knob in verdict.knobs}
    assert any("memory.max is desired for 2 groups" in reason.text for reason in verdict.reasons)


def test_the_same_pod_is_computed_once() -> None:
    state = node([using(BATCH)])
    first, memory = decide(state, BatchResourcesConfig(), BatchResourcesMemory())
    second, _ = decide(state, BatchResourcesConfig(), memory)
    assert all(a is b for a, b in zip(first.knobs, second.knobs, strict=True))


def test_on_faster_cpus_a_quota_is_smaller_and_says_so() -> None:
    state = replace(node([using(BATCH)]), allocatable=Allocatable(cpu_ratio_milli=1250))
    first, memory = decide(node([using(BATCH)]), CONFIG, BatchResourcesMemory())
    verdict, memory = decide(state, CONFIG, memory)  # the ratio has changed, the pod has not
    found = {f"{knob.target.group} {knob.target.knob}": knob for knob in verdict.knobs}
    assert found["be/sort cpu.max"].value == "128000 100000"  # 160000 / 1.25
    assert found["be/sort/map cpu.max"].value == "120000 100000"
    assert "1.25 x as fast" in found["be/sort cpu.max"].reason.text
    assert [term.value for term in found["be/sort cpu.max"].reason.terms] == [1600, -320]
    assert found["be/sort cpu.weight"].value == "60"
    assert decide(node([using(BATCH)]), CONFIG, memory)[0].knobs == first.knobs


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(InvalidInput):
        BatchResourcesConfig(period_us=10)
    with pytest.raises(InvalidInput):
        BatchResourcesConfig(page_bytes=0)
