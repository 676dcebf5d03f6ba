"""senpai: quiet lowers by at most one percent an interval, pressure raises at once, a stranger's write starts over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.node.node_pods import SECOND, node, pod, using

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_state import Alarm, GroupUse, NodeState
from cotenant.policy.nodeqos.memory.reclaim import GroupReclaim, ReclaimConfig, ReclaimKnob, ReclaimMemory, decide, step

MIB = 1 << 20
ON = ReclaimConfig()
HIGH = KnobTarget("pods/be", Knob.MEMORY_HIGH)


def state(second: int, stall_ppm: int | None = 0, current: int | None = 1000 * MIB, **more: object) -> NodeState:
    pods = [
        using(pod("be"), memory_bytes=current, memory_stall_ppm=stall_ppm),
        using(pod("service", QoSClass.LS), memory_bytes=5000 * MIB, memory_stall_ppm=0),
    ]
    return replace(node(pods, at_us=second * SECOND), **more)


def run(seconds: int, stall_ppm: int = 0, config: ReclaimConfig = ON) -> list[int]:
    memory, limits = ReclaimMemory(), []
    for second in range(seconds):
        verdict, memory = decide(state(second, stall_ppm), config, memory)
        assert verdict.reasons
        limits += [int(knob.value) for knob in verdict.knobs]
        assert {knob.target for knob in verdict.knobs} <= {HIGH}
    return limits


def test_it_starts_from_what_is_in_use_and_lowers_by_one_percent_after_each_quiet_interval() -> None:
    limits = run(13)
    assert limits[:6] == [1000 * MIB] * 6
    assert limits[6:12] == [990 * MIB] * 6
    assert limits[12] == 990 * MIB * 99 // 100 // 4096 * 4096


def test_stall_at_the_target_lowers_by_a_hundredth_of_a_percent() -> None:
    # 10 ms of stall in the interval: (target / stall / 10)^2 of 1 %
    memory = GroupReclaim("g", 1000 * MIB, 10_000, 0)
    after, reason, asked = step(memory, GroupUse("g", memory_bytes=1, memory_stall_ppm=0), 6 * SECOND, SECOND, None, ON)
    assert after.limit_bytes == (1000 * MIB - 1000 * MIB // 10_000) // 4096 * 4096
    assert asked == 1000 * MIB - after.limit_bytes
    assert sum(term.value for term in reason.terms) == after.limit_bytes


@pytest.mark.parametrize(("stall_ppm", "gives_ppm"), [(20_000, 10_000), (200_000, 1_000_000), (1_000_000, 1_000_000)])
def test_stall_over_the_target_raises_at_once_by_its_square(stall_ppm: int, gives_ppm: int) -> None:
    memory = GroupReclaim("g", 1000 * MIB, 0, 0)
    use = GroupUse("g", memory_bytes=1000 * MIB, memory_stall_ppm=stall_ppm)
    after, _, asked = step(memory, use, SECOND, SECOND, str(1000 * MIB), ON)
    assert after.limit_bytes == (1000 * MIB + 1000 * MIB * gives_ppm // 1_000_000) // 4096 * 4096
    assert asked == 0
    assert after.stall_us == 0


def test_small_stalls_add_up_within_an_interval() -> None:
    memory = ReclaimMemory()
    limits = []
    for second in range(6):
        verdict, memory = decide(state(second, stall_ppm=2_600), ON, memory)
        limits.append(int(verdict.knobs[0].value))
    assert limits[:4] == [1000 * MIB] * 4
    assert limits[4] > 1000 * MIB  # 4 x 2.6 ms


def test_a_limit_set_by_another_writer_restarts_the_controller() -> None:
    _, memory = decide(state(0), ON, ReclaimMemory())
    kept, memory = decide(state(1, knobs={HIGH: str(1000 * MIB)}, current=900 * MIB), ON, memory)
    assert kept.knobs[0].value == str(1000 * MIB)
    again, _ = decide(state(2, knobs={HIGH: "max"}, current=900 * MIB), ON, memory)
    assert again.knobs[0].value == str(900 * MIB)


def test_it_stays_within_its_bounds() -> None:
    _, memory = decide(state(0, current=10 * MIB), ON, ReclaimMemory())
    assert memory.groups[0].limit_bytes == 100 * MIB
    verdict, memory = decide(state(7, current=10 * MIB), ON, memory)
    assert verdict.knobs[0].value == str(100 * MIB)
    small = replace(ON, max_bytes=200 * MIB)
    assert decide(state(0), small, ReclaimMemory())[0].knobs[0].value == str(200 * MIB)


def test_unknown_stall_changes_nothing_and_forgets_nothing() -> None:
    _, memory = decide(state(0), ON, ReclaimMemory())
    verdict, after = decide(state(20, stall_ppm=None), ON, memory)
    assert [knob.value for knob in verdict.knobs] == [str(1000 * MIB)]
    assert after == memory
    assert decide(state(0, stall_ppm=None), ON, ReclaimMemory())[0].knobs == ()


def test_asking_back_once_leaves_no_limit() -> None:
    config = replace(ON, means=ReclaimKnob.RECLAIM)
    memory, asked = ReclaimMemory(), []
    for second in range(14):
        verdict, memory = decide(state(second), config, memory)
        asked += [(second, knob.target.knob, int(knob.value), knob.ttl_us) for knob in verdict.knobs]
    assert [(second, knob) for second, knob, _, _ in asked] == [(6, Knob.MEMORY_RECLAIM), (12, Knob.MEMORY_RECLAIM)]
    assert asked[0][2] == 10 * MIB
    assert all(ttl < 6 * SECOND for *_, ttl in asked)


def test_pods_that_left_are_dropped() -> None:
    _, memory = decide(state(0), ON, ReclaimMemory())
    assert decide(node(), ON, memory)[1] == ReclaimMemory()


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 1_000_000), st.integers(0, 1 << 40)), max_size=40))
def test_the_limit_is_always_whole_pages_within_bounds(ticks: list[tuple[int, int]]) -> None:
    memory = ReclaimMemory()
    for second, (stall_ppm, current) in enumerate(ticks):
        verdict, memory = decide(state(second, stall_ppm, current), ON, memory)
        limit = int(verdict.knobs[0].value)
        assert ON.min_bytes <= limit <= ON.max_bytes
        assert limit % 4096 == 0


@pytest.mark.parametrize(
    "wrong", [{"target_us": 0}, {"probe_max_ppm": 0}, {"backoff_max_ppm": 1_000_001}, {"max_bytes": 1}]
)
def test_constants(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        ReclaimConfig(**wrong)


def test_an_alarm_repeats_the_last_sample_and_is_not_counted_again() -> None:
    _, memory = decide(state(0), ON, ReclaimMemory())
    again = state(1, stall_ppm=1_000_000, alarms=(Alarm(SECOND, "", "memory"),))
    verdict, after = decide(again, ON, memory)
    assert after == memory
    assert [knob.value for knob in verdict.knobs] == [str(1000 * MIB)]


def test_without_the_knob_nothing_is_wanted() -> None:
    verdict, _ = decide(state(0, supported=frozenset()), ON, ReclaimMemory())
    assert verdict.knobs == ()
    assert verdict.reasons[0].text == "this machine has no memory.high"


@pytest.mark.slow
@pytest.mark.parametrize("hot_mib", [300, 900])
def test_the_limit_finds_what_the_group_really_needs(hot_mib: int) -> None:
    """A group that has 2000 MiB and touches `hot_mib` of it: it stalls by the square of what is missing."""
    memory, limit, stalls = ReclaimMemory(), 1 << 62, []
    for second in range(3600):
        held = min(2000 * MIB, limit)
        missing = max(0, hot_mib * MIB - held) / (hot_mib * MIB)
        stall_ppm = min(1_000_000, int(missing**2 * 10_000_000))
        verdict, memory = decide(state(second, stall_ppm, held), ON, memory)
        limit = int(verdict.knobs[0].value)
        if second >= 1800:
            stalls.append(stall_ppm)
    assert 0.9 * hot_mib * MIB <= limit <= 1.1 * hot_mib * MIB
    in_an_interval = sum(stalls) / len(stalls) * 6
    assert in_an_interval <= 2 * ON.target_us
