"""Memory guarantees and limits by class and annotation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.node.node_pods import GB, node, pod, using

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_pod import NodeContainer, NodePodPhase
from cotenant.model.machine.node_state import NodeState
from cotenant.policy.nodeqos.memory.protection import (
    MEMORY_QOS,
    ClassMemory,
    MemoryQosConfig,
    MemoryQosMemory,
    container_amounts,
    decide,
)

MIB = 1 << 20


def wishes(state: NodeState, config: MemoryQosConfig) -> dict[KnobTarget, str]:
    verdict, _ = decide(state, config, MemoryQosMemory())
    assert verdict.reasons
    found = {knob.target: knob.value for knob in verdict.knobs}
    assert len(found) == len(verdict.knobs)
    return found


def test_formulas_per_container() -> None:
    chosen = ClassMemory(50, 80, 60)
    amounts = container_amounts(
        NodeContainer("a", "g", memory_request_bytes=100 * MIB, memory_limit_bytes=200 * MIB), chosen, 0
    )
    assert (amounts.min_bytes, amounts.low_bytes, amounts.high_bytes) == (50 * MIB, 80 * MIB, 160 * MIB)
    unlimited = container_amounts(NodeContainer("a", "g", memory_request_bytes=100 * MIB), chosen, 1100 * MIB)
    assert unlimited.high_bytes == 700 * MIB
    assert container_amounts(NodeContainer("a", "g"), chosen, 0).high_bytes is None


@given(
    request=st.integers(0, 1 << 40),
    limit=st.integers(0, 1 << 41),
    throttling=st.integers(1, 100),
    node_bytes=st.integers(0, 1 << 41),
)
def test_high_is_never_below_the_request_and_is_whole_pages(
    request: int, limit: int, throttling: int, node_bytes: int
) -> None:
    container = NodeContainer("a", "g", memory_request_bytes=request, memory_limit_bytes=limit)
    high = container_amounts(container, ClassMemory(throttling_percent=throttling), node_bytes).high_bytes
    if high is None:
        assert request == 0
    else:
        assert high >= request
        assert high % 4096 == 0


def test_guarantees_stand_in_every_group_above() -> None:
    pods = [
        using(pod("a", QoSClass.LS, memory_bytes=10 * GB, group="kube/burstable/a")),
        using(pod("b", QoSClass.LS, memory_bytes=4 * GB, group="kube/burstable/b")),
        using(pod("c", QoSClass.LSR, memory_bytes=2 * GB, group="kube/c")),
        using(pod("gone", QoSClass.LS, memory_bytes=GB, group="kube/gone", phase=NodePodPhase.OVER)),
    ]
    config = MemoryQosConfig(ls=ClassMemory(50), lsr=ClassMemory(100))
    assert wishes(node(pods), config) == {
        KnobTarget(group, Knob.MEMORY_MIN): str(amount)
        for group, amount in {
            "kube/burstable/a/main": 5 * GB,
            "kube/burstable/a": 5 * GB,
            "kube/burstable/b/main": 2 * GB,
            "kube/burstable/b": 2 * GB,
            "kube/c/main": 2 * GB,
            "kube/c": 2 * GB,
            "kube/burstable": 7 * GB,
            "kube": 9 * GB,
        }.items()
    }


def test_defaults_leave_everything_alone() -> None:
    assert wishes(node([using(pod("a", QoSClass.LS, memory_bytes=GB))]), MemoryQosConfig()) == {}


def test_an_annotation_overrides_the_class() -> None:
    def with_annotation(text: str) -> dict[KnobTarget, str]:
        one = pod("a", QoSClass.LS, memory_bytes=GB, annotations={MEMORY_QOS: text}, group="a")
        return wishes(node([using(one)]), MemoryQosConfig(ls=ClassMemory(low_percent=50)))

    low, least = KnobTarget("a", Knob.MEMORY_LOW), KnobTarget("a", Knob.MEMORY_MIN)
    assert with_annotation('{"policy": "none"}') == {}
    assert with_annotation('{"policy": "auto", "wmarkRatio": 95}')[low] == str(GB // 2)
    more = with_annotation('{"policy": "auto", "minLimitPercent": 20, "lowLimitPercent": 60}')
    assert (more[least], more[low]) == (str(GB // 5), str(GB * 6 // 10))
    for broken in ("", "{", '{"minLimitPercent": "all"}', '{"minLimitPercent": 101}', "\ud800"):
        assert with_annotation(broken)[low] == str(GB // 2)


def test_a_best_effort_pods_annotation_keeps_no_more_from_services_than_its_class() -> None:
    def kept(text: str, config: MemoryQosConfig) -> tuple[dict[Knob, str], str]:
        one = pod("a", QoSClass.BE, memory_bytes=GB, annotations={MEMORY_QOS: text}, group="a")
        verdict, _ = decide(node([using(one)]), config, MemoryQosMemory())
        return {knob.target.knob: knob.value for knob in verdict.knobs if knob.target.group == "a"}, str(
            verdict.reasons
        )

    asks = '{"policy": "auto", "minLimitPercent": 100, "lowLimitPercent": 90}'
    assert kept(asks, MemoryQosConfig())[0] == {}
    found, why = kept(asks, MemoryQosConfig(best_effort=ClassMemory(low_percent=10)))
    assert found == {Knob.MEMORY_LOW: str(GB // 10)}
    assert "a best-effort pod keeps no more than its class" in why
    less = kept('{"lowLimitPercent": 5}', MemoryQosConfig(best_effort=ClassMemory(low_percent=10)))
    assert less == ({Knob.MEMORY_LOW: str(GB // 20)}, less[1])
    assert "no more" not in less[1]


def test_a_request_that_no_memory_reaches_costs_nobody_the_protection_above() -> None:
    most = (1 << 63) - 1
    pods = [pod(name, QoSClass.LS, memory_bytes=amount) for name, amount in (("web", GB), ("x", most), ("y", most))]
    ours = wishes(node([using(one) for one in pods]), MemoryQosConfig(ls=ClassMemory(min_percent=100)))
    assert ours[KnobTarget("pods", Knob.MEMORY_MIN)] == str(most)
    assert ours[KnobTarget("pods/web", Knob.MEMORY_MIN)] == str(GB)
    high = container_amounts(NodeContainer("a", "g", memory_request_bytes=most), ClassMemory(throttling_percent=1), GB)
    assert high.high_bytes is None


def test_a_broken_annotation_is_named() -> None:
    one = pod("a", QoSClass.LS, annotations={MEMORY_QOS: '{"minLimitPercent": 101}'})
    verdict, _ = decide(node([using(one)]), MemoryQosConfig(), MemoryQosMemory())
    assert "test/a" in verdict.reasons[0].text
    assert "101" in verdict.reasons[0].text


@pytest.mark.parametrize("field", ["min_percent", "low_percent", "throttling_percent"])
@pytest.mark.parametrize("value", [-1, 101])
def test_percentages(field: str, value: int) -> None:
    with pytest.raises(InvalidInput):
        ClassMemory(**{field: value})
