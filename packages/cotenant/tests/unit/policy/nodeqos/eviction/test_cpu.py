"""CPU eviction over time: windows, cool-down, who is leaving."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.node.node_pods import SECOND, node, pod, using

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_pod import NodePodPhase
from cotenant.model.machine.node_state import Alarm, GroupUse, NodeState
from cotenant.policy.nodeqos.eviction.cpu import CpuEvictionConfig, CpuEvictionMemory, best_effort_limit, decide, reads
from cotenant.policy.nodeqos.eviction.goals import AllocatableTrigger, Currency, UsedTrigger
from cotenant.policy.nodeqos.eviction.satisfaction import (
    Satisfaction,
    SatisfactionOf,
    SatisfactionTrigger,
    release,
    trusted,
)

USED = CpuEvictionConfig(used=UsedTrigger(80, 7999))
QUOTA = KnobTarget("be", Knob.CPU_MAX)
CPUS = KnobTarget("be", Knob.CPUSET_CPUS)


def at(second: int, state: NodeState) -> NodeState:
    return replace(state, at_us=second * SECOND)


def run(state: NodeState, config: CpuEvictionConfig, seconds: int) -> list[tuple[int, str]]:
    memory, evicted = CpuEvictionMemory(), []
    for second in range(1, seconds + 1):
        verdict, memory = decide(at(second, state), config, memory)
        assert verdict.reasons
        evicted += [(second, eviction.uid) for eviction in verdict.evictions]
    return evicted


def test_a_window_is_judged_once_a_third_of_it_is_filled_and_then_rests() -> None:
    state = node(
        [using(pod("a", priority=5000, labels={"koordinator.sh/eviction-enabled": "true"}), cpu_m=9000)], cpu_m=90_000
    )
    assert run(state, USED, 45) == [(20, "uid-a"), (40, "uid-a")]


def test_samples_older_than_the_window_are_forgotten() -> None:
    memory = CpuEvictionMemory()
    for second in range(1, 200):
        _, memory = decide(at(second, node(cpu_m=50)), USED, memory)
    assert [sample.at_us for sample in memory.samples] == [s * SECOND for s in range(140, 200)]


def test_one_peak_does_not_evict() -> None:
    memory = CpuEvictionMemory()
    for second in range(1, 61):
        verdict, memory = decide(at(second, node(cpu_m=100_000 if second == 60 else 10_000)), USED, memory)
    assert not verdict.evictions
    assert "11.5 CPU in use on average" in verdict.reasons[0].text


def test_the_first_sample_has_no_rates_and_is_no_sample() -> None:
    verdict, memory = decide(replace(node(cpu_m=None), interval_us=0), USED, CpuEvictionMemory())
    assert memory.samples == ()
    assert "too few" in verdict.reasons[0].text


def test_without_triggers_the_reason_says_so() -> None:
    verdict, _ = decide(node(), CpuEvictionConfig(), CpuEvictionMemory())
    assert [reason.text for reason in verdict.reasons] == ["no trigger is configured"]


def test_satisfaction_by_what_quota_and_cpuset_leave() -> None:
    config = CpuEvictionConfig(satisfaction=SatisfactionTrigger(30, 40), window_us=SECOND)
    pods = [using(pod(name, cpu_m=5000), cpu_m=1000) for name in ("a", "b")]
    knobs = {QUOTA: "400000 100000", CPUS: "0-1,4"}
    squeezed = node(pods, best_effort=GroupUse("be", cpu_m=2900), best_effort_group="be", knobs=knobs)
    assert best_effort_limit(squeezed) == 3000
    assert set(reads(squeezed)) == set(knobs)
    verdict, _ = decide(squeezed, config, CpuEvictionMemory())
    # 10 CPU asked for, 3 may be used: 30 %, so 40 % - 30 % of the requests have to go
    assert [eviction.uid for eviction in verdict.evictions] == ["uid-a"]
    assert verdict.evictions[0].frees_cpu_m == 5000
    assert verdict.reasons[0].terms[0].value == 1000
    wider = replace(squeezed, knobs={QUOTA: "max 100000", CPUS: "0-3"})
    assert best_effort_limit(wider) == 4000
    assert not decide(wider, config, CpuEvictionMemory())[0].evictions


def test_satisfaction_by_allocatable_needs_to_know_it() -> None:
    trigger = SatisfactionTrigger(30, 40, measured_against=SatisfactionOf.ALLOCATABLE)
    pods = [using(pod("a", cpu_m=5000), cpu_m=1000)]
    unknown = CpuEvictionConfig(satisfaction=trigger, window_us=SECOND)
    assert not decide(node(pods), unknown, CpuEvictionMemory())[0].evictions
    nothing_left = replace(unknown, pools_cpu_m=((Currency.REQUESTED_BATCH, 0),))
    assert decide(node(pods), nothing_left, CpuEvictionMemory())[0].evictions


def test_leaving_pods_are_counted_on_for_a_minute() -> None:
    config = CpuEvictionConfig(
        allocatable=AllocatableTrigger(80, 70, 7999), pools_cpu_m=((Currency.REQUESTED_BATCH, 1000),)
    )
    opted = {"koordinator.sh/eviction-enabled": "true"}
    going = using(pod("going", cpu_m=600, labels=opted, phase=NodePodPhase.TERMINATING), cpu_m=0)
    state = node([going, using(pod("b", cpu_m=600, labels=opted), cpu_m=0)])
    assert run(state, config, 62) == [(61, "uid-b")]


def test_unknown_pools_evict_no_pod() -> None:
    config = CpuEvictionConfig(allocatable=AllocatableTrigger(80, 70, 7999))
    verdict, _ = decide(node([using(pod("a", cpu_m=1000))]), config, CpuEvictionMemory())
    assert "not known" in verdict.reasons[0].text


def test_a_limit_below_one_cpu_counts_as_used() -> None:
    trigger = SatisfactionTrigger(30, 40)
    assert release(trigger, Satisfaction(1, 10_000, 900), Satisfaction(1, 10_000, 900)).cpu_m == 3100
    assert release(trigger, Satisfaction(1, 10_000, 1000), Satisfaction(1, 10_000, 1000)).cpu_m == 0
    assert release(trigger, Satisfaction(900, 10_000, 0), None).cpu_m == 0


def test_the_smaller_of_average_and_latest_counts() -> None:
    trigger = SatisfactionTrigger(30, 40)
    average, latest = Satisfaction(2000, 10_000, 2000), Satisfaction(2900, 10_000, 2900)
    assert release(trigger, average, latest).cpu_m == 1100
    assert release(trigger, latest, average).cpu_m == 1100
    assert release(trigger, average, Satisfaction(3100, 10_000, 3100)).cpu_m == 0
    assert release(trigger, average, None).text == "there is no recent measurement of best effort"


def test_trust_needs_a_third_of_the_window() -> None:
    assert trusted(20, 60 * SECOND, SECOND)
    assert not trusted(19, 60 * SECOND, SECOND)


@pytest.mark.parametrize("field", ["window_us", "cooldown_us", "patience_us"])
def test_times_are_not_negative(field: str) -> None:
    with pytest.raises(InvalidInput):
        CpuEvictionConfig(**{field: -1})


@pytest.mark.parametrize("marks", [(0, 50), (61, 70), (40, 39), (50, 100)])
def test_satisfaction_bounds(marks: tuple[int, int]) -> None:
    with pytest.raises(InvalidInput):
        SatisfactionTrigger(*marks)


def test_an_alarm_repeats_the_last_sample_and_is_not_counted_again() -> None:
    state = node(cpu_m=50)
    _, memory = decide(at(1, state), USED, CpuEvictionMemory())
    _, after = decide(replace(at(2, state), alarms=(Alarm(2 * SECOND, "", "cpu"),)), USED, memory)
    assert after.samples == memory.samples
