"""oomd's rule: pressure for a time, one victim, a pause."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.node.node_pods import GB, SECOND, node, pod, using

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_state import GroupUse, NodeState, PodUse
from cotenant.policy.nodeqos.eviction.memory_pressure import MemoryPressureConfig, MemoryPressureMemory, decide
from cotenant.policy.nodeqos.eviction.victims import EVICTION_POLICY

ON = MemoryPressureConfig()


def be(name: str, gigabytes: int, stall_ppm: int = 1, refaults: int = 5) -> PodUse:
    return using(pod(name), working_set_bytes=gigabytes * GB, memory_stall_ppm=stall_ppm, refaults_per_s=refaults)


def thrashing(*pods: PodUse, full_ppm: int = 700_000) -> NodeState:
    return node(pods, best_effort=GroupUse("be", memory_full_stall_ppm=full_ppm))


def run(state: NodeState, seconds: int, config: MemoryPressureConfig = ON, breaks: int = 0) -> list[tuple[int, str]]:
    memory, evicted = MemoryPressureMemory(), []
    for second in range(1, seconds + 1):
        now = replace(state, at_us=second * SECOND)
        if second == breaks:
            now = replace(now, best_effort=GroupUse("be", memory_full_stall_ppm=600_000))
        verdict, memory = decide(now, config, memory)
        assert verdict.reasons
        assert len(verdict.evictions) <= 1
        evicted += [(second, one.uid) for one in verdict.evictions]
    return evicted


def test_best_effort_that_stalls_for_thirty_seconds_loses_its_largest_and_then_has_a_pause() -> None:
    assert run(thrashing(be("a", 9), be("b", 5)), 70) == [(30, "uid-a"), (60, "uid-a")]


def test_a_break_starts_the_time_again() -> None:
    assert run(thrashing(be("a", 9)), 58, breaks=28) == [(58, "uid-a")]


def test_without_reclaim_lately_it_is_not_memory_that_is_short() -> None:
    assert run(thrashing(be("a", 9, refaults=0)), 70) == []


def test_a_service_that_stalls_for_a_minute_counts_without_more() -> None:
    service = using(pod("s", QoSClass.LS), memory_full_stall_ppm=900_000, working_set_bytes=50 * GB)
    assert run(node([service, be("a", 9, refaults=0)]), 61) == [(60, "uid-a")]


def test_pods_without_pressure_are_not_evicted() -> None:
    assert run(thrashing(be("large", 90, stall_ppm=0), be("small", 1)), 31) == [(30, "uid-small")]
    assert run(thrashing(be("large", 90, stall_ppm=0)), 31) == []


def test_guaranteed_memory_does_not_count_as_size() -> None:
    state = thrashing(be("a", 9), be("b", 5))
    guarded = replace(state, knobs={KnobTarget("pods/a", Knob.MEMORY_LOW): str(8 * GB)})
    assert run(guarded, 31) == [(30, "uid-b")]


def test_without_growth_or_a_majority_the_largest_is_evicted() -> None:
    assert run(thrashing(be("a", 8), be("b", 9), be("c", 7)), 31) == [(30, "uid-b")]


def test_growth_is_measured_against_the_previous_average() -> None:
    config = replace(ON, largest_ppm=1_000_000)
    memory = MemoryPressureMemory()
    for second in range(1, 31):
        b = 5 if second < 30 else 8
        state = replace(thrashing(be("a", 9), be("b", b), be("c", 9)), at_us=second * SECOND)
        verdict, memory = decide(state, config, memory)
    assert [one.uid for one in verdict.evictions] == ["uid-b"]
    assert "160 %" in verdict.reasons[0].text


def test_a_pod_may_refuse_this_trigger() -> None:
    refusing = pod("a", annotations={EVICTION_POLICY: '["BEMemoryEvict"]'})
    use = using(refusing, working_set_bytes=9 * GB, memory_stall_ppm=5, refaults_per_s=1)
    assert run(thrashing(use, be("b", 1)), 31) == [(30, "uid-b")]


def test_averages_cover_current_pods_only() -> None:
    _, memory = decide(thrashing(be("a", 9)), ON, MemoryPressureMemory(averages=(("uid-gone", 1),)))
    assert [uid for uid, _ in memory.averages] == ["uid-a"]


@pytest.mark.parametrize("wrong", [{"best_effort_ppm": 0}, {"service_ppm": 1_000_001}, {"pause_us": -1}])
def test_figures(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        MemoryPressureConfig(**wrong)
