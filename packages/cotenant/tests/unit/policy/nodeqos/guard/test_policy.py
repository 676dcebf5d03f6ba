from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.policy.nodeqos.nodes import SECOND_US, health, in_use, node

from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_pod import NodePodPhase
from cotenant.model.machine.node_state import Alarm, NodeState, ServiceHealth
from cotenant.model.machine.run_queue import Blame, NoCulprit
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant.policy.nodeqos.guard.policy import Ceiling, GuardMemory, judge
from cotenant.policy.nodeqos.guard.track import GuardMode, Track

CONFIG = GuardConfig()
OBJECTIVE_US = 1000


def at(second: float, told: ServiceHealth | None = None, batch_m: int = 8000, **signals: int) -> NodeState:
    web = in_use("web", 4000, health=told, signals=signals, objective_p99_us=OBJECTIVE_US)
    return node([web, in_use("batch", batch_m, QoSClass.BE)], at_s=second)


def run(states: list[NodeState], memory: GuardMemory | None = None) -> tuple[list[Ceiling], GuardMemory]:
    memory = memory or GuardMemory()
    ceilings = []
    for state in states:
        ceiling, memory = judge(state, CONFIG, memory)
        ceilings.append(ceiling)
    return ceilings, memory


def test_without_pods_to_protect_there_is_no_limit_and_no_state() -> None:
    (ceiling,), memory = run([node([in_use("batch", 5000, QoSClass.BE)])])
    assert (ceiling.cpu_m, ceiling.mode, ceiling.protects, memory) == (16_000, GuardMode.OFF, False, GuardMemory())


def test_ended_pods_are_not_protected() -> None:
    over = in_use("web", 0, health=health(5000), objective_p99_us=OBJECTIVE_US, phase=NodePodPhase.OVER)
    (ceiling,), _ = run([node([over, in_use("batch", 8000, QoSClass.BE)])])
    assert ceiling.mode is GuardMode.OFF


PRODUCT = Labels.of({"app.kubernetes.io/part-of": "cotenant"})


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        ({}, GuardMode.CUT),
        ({"ours": True}, GuardMode.OFF),
        ({"labels": PRODUCT}, GuardMode.OFF),
        ({"labels": Labels.of({"app.kubernetes.io/part-of": "shop"})}, GuardMode.CUT),
        ({"labels": PRODUCT, "objective_p99_us": OBJECTIVE_US, "health": health(2500)}, GuardMode.CUT),
    ],
    ids=["anybody's", "the agent's own", "another part of the product", "of another product", "with an objective"],
)
def test_the_products_own_pods_are_no_victims_without_an_objective(fields: dict[str, Any], mode: GuardMode) -> None:
    waiting = in_use("agent", 100, signals={"run_delay_ppm": 119_000}, **fields)
    (ceiling,), _ = run([node([waiting, in_use("batch", 8000, QoSClass.BE)])])
    assert ceiling.mode is mode


def test_it_starts_without_a_limit_and_cuts_at_once_to_half_of_what_is_used() -> None:
    (calm, cut), _ = run([at(0, health(500)), at(1, health(2500))])
    assert (calm.cpu_m, calm.mode) == (16_000, GuardMode.GROW)
    assert (cut.cpu_m, cut.mode) == (4000, GuardMode.CUT)
    assert "slack -150 %" in cut.reason.text


def test_a_slight_miss_stops_growth_at_once_and_cuts_when_it_lasts() -> None:
    ceilings, _ = run([at(0, health(500)), *(at(second, health(1200)) for second in (1, 2, 3))])
    assert [ceiling.mode for ceiling in ceilings] == [GuardMode.GROW, GuardMode.HOLD, GuardMode.HOLD, GuardMode.CUT]
    ceilings, _ = run([at(0, health(500)), at(1, health(1200)), at(2, health(500))])
    assert [ceiling.mode for ceiling in ceilings] == [GuardMode.GROW, GuardMode.HOLD, GuardMode.HOLD]


def test_close_to_the_objective_nothing_grows_and_nothing_is_cut() -> None:
    _, memory = run([at(0, health(960))])
    ceilings, _ = run([at(second, health(930)) for second in range(1, 60)], memory)
    assert {(ceiling.cpu_m, ceiling.mode) for ceiling in ceilings} == {(4000, GuardMode.HOLD)}


def test_growth_waits_for_calm_and_is_a_tenth_of_the_node_every_two_seconds() -> None:
    _, memory = run([at(0, health(960))])
    ceilings, _ = run([at(second, health(500)) for second in range(1, 17)], memory)
    assert [ceiling.cpu_m for ceiling in ceilings[:9]] == [4000] * 9
    assert [ceiling.cpu_m for ceiling in ceilings[9:]] == [5600, 5600, 7200, 7200, 8800, 8800, 10400]


def test_an_objective_missed_for_ten_seconds_stops_best_effort_work_for_five_minutes() -> None:
    ceilings, memory = run([at(second, health(1200)) for second in range(12)])
    assert [ceiling.mode for ceiling in ceilings] == [GuardMode.CUT] * 10 + [GuardMode.DISABLED] * 2
    assert ceilings[-1].cpu_m == CONFIG.disabled_cpu_m
    later, memory = run([at(12, health(300)), at(310, health(300))], memory)
    assert {ceiling.mode for ceiling in later} == {GuardMode.DISABLED}
    (after,), _ = run([at(312, health(300))], memory)
    assert after.mode is GuardMode.GROW
    assert after.cpu_m == CONFIG.disabled_cpu_m + 1600


def test_no_cut_goes_below_a_tenth_of_the_node_and_none_raises_the_ceiling() -> None:
    ceilings, _ = run([at(second, health(960), batch_m=8000) for second in range(8)])
    assert [entry.cpu_m for entry in ceilings] == [4000, 2000, 1600, 1600, 1600, 1600, 1600, 1600]
    stopped = GuardMemory(Track(mode=GuardMode.CUT, ceiling_m=20))
    (ceiling,), _ = run([at(0, health(960))], stopped)
    assert ceiling.cpu_m == 20


def test_a_report_of_the_time_before_the_cut_does_not_cut_again() -> None:
    old = ServiceHealth(window_us=4 * SECOND_US, requests=1000, p99_us=960, over_objective=0, age_us=0)
    ceilings, _ = run([at(0, health(960)), at(1, old), at(2, old), at(3, old)])
    assert [ceiling.cpu_m for ceiling in ceilings] == [4000, 4000, 4000, 2000]
    assert "waits for the effect" in ceilings[1].reason.text


@pytest.mark.parametrize(
    ("told", "signals", "mode", "words"),
    [
        (health(960, requests=19), {}, GuardMode.GROW, "only 19 requests"),
        (health(960, age_us=16 * SECOND_US), {}, GuardMode.GROW, "its latency is 16 s old"),
        (None, {}, GuardMode.GROW, "no signal but its use (no latency is reported) [usage only]"),
        (None, {"run_delay_ppm": 800_000, "cpu_stall_ppm": 0}, GuardMode.CUT, "waited 20 % of its CPU time"),
        (None, {"run_delay_ppm": 400_000}, GuardMode.HOLD, "[run delay]"),
        (None, {"cpu_stall_ppm": 300_000}, GuardMode.CUT, "stalled on CPU 30 % of the time"),
        (None, {"cpu_stall_ppm": 100_000}, GuardMode.HOLD, "[pressure]"),
        (health(500), {"run_delay_ppm": 800_000}, GuardMode.HOLD, "slack 50 %, but ns/web waited 20 %"),
        (health(960), {"throttled_ppm": 100_000}, GuardMode.HOLD, "its own limit throttles it"),
    ],
)
def test_the_best_signal_there_is_decides_and_the_reason_names_it(told, signals, mode, words) -> None:
    (ceiling,), _ = run([at(0, told, **signals)])
    assert ceiling.mode is mode
    assert words in ceiling.reason.text


@pytest.mark.parametrize(
    ("requests", "late", "mode", "words"),
    [
        (16, 16, GuardMode.CUT, "16 of only 16 requests were late"),
        (5, 5, GuardMode.CUT, "5 of only 5 requests were late"),
        (19, 9, GuardMode.GROW, "only 19 requests in its latency window"),
        (4, 4, GuardMode.GROW, "only 4 requests in its latency window"),
        (1, 1, GuardMode.GROW, "only 1 requests in its latency window"),
        (0, 0, GuardMode.GROW, "only 0 requests in its latency window"),
    ],
)
def test_few_requests_tell_a_latency_where_most_of_them_were_late(requests, late, mode, words) -> None:
    """A service that hardly answers any more has small windows just then; a trickle of requests is no victim."""
    (ceiling,), _ = run([at(0, health(2500, requests, late))])
    assert ceiling.mode is mode
    assert words in ceiling.reason.text


def test_few_late_requests_cut_but_do_not_stop_best_effort_work_for_minutes() -> None:
    ceilings, _ = run([at(second, health(2500, 9, 9)) for second in range(30)])
    assert {ceiling.mode for ceiling in ceilings} == {GuardMode.CUT}
    assert ceilings[-1].cpu_m == 1600


@pytest.mark.parametrize(
    ("blame", "mode", "words"),
    [
        ((Blame("pods/web/c", "pods/batch/c", 90), Blame("pods/web", "pods/web", 10)), GuardMode.CUT, "90 % of that"),
        ((Blame("pods/web", "pods/web", 90), Blame("pods/web", NoCulprit.IDLE, 10)), GuardMode.GROW, "0 % of that"),
        ((Blame("pods/other", "pods/other", 90),), GuardMode.CUT, "of its CPU time for a CPU ("),
        (None, GuardMode.CUT, "of its CPU time for a CPU ("),
    ],
)
def test_only_waiting_behind_best_effort_work_counts_where_that_was_watched(blame, mode, words) -> None:
    (ceiling,), _ = run([replace(at(0, None, run_delay_ppm=1_000_000), blame=blame)])
    assert ceiling.mode is mode
    assert words in ceiling.reason.text


def test_best_effort_work_that_hardly_runs_is_not_cut() -> None:
    (ceiling,), _ = run([at(0, health(1200), batch_m=100)])
    assert (ceiling.mode, ceiling.cpu_m) == (GuardMode.HOLD, 16_000)
    assert "is not the cause" in ceiling.reason.text


def test_errors_burned_of_late_forbid_growth_although_the_latency_is_back() -> None:
    bad = [at(second, health(960, over=100)) for second in range(20)]
    _, memory = run(bad)
    ceilings, _ = run([at(second, health(500)) for second in range(20, 60)], memory)
    assert {ceiling.mode for ceiling in ceilings} == {GuardMode.HOLD}
    assert "budget burned" in ceilings[0].reason.text


@pytest.mark.parametrize(
    ("group", "cuts"), [("pods/web", True), ("pods/web/c", True), ("", True), ("pods/batch", False)]
)
def test_an_alarm_of_a_protected_pod_cuts_without_a_new_sample(group: str, cuts: bool) -> None:
    _, memory = run([at(0, health(500))])
    alarmed = replace(at(0, health(500)), at_us=300_000, alarms=(Alarm(300_000, group, "cpu", 150_000),))
    (ceiling,), _ = run([alarmed], memory)
    assert (ceiling.cpu_m == 4000) is cuts


@pytest.mark.parametrize(("stall_ppm", "mode"), [(25_000, GuardMode.HOLD), (300_000, GuardMode.CUT)])
def test_a_moment_s_wait_behind_work_that_yields_already_only_stops_growth(stall_ppm: int, mode: GuardMode) -> None:
    _, memory = run([at(0, health(500))])
    alarmed = replace(at(0, health(500)), at_us=300_000, alarms=(Alarm(300_000, "pods/web", "cpu", stall_ppm),))
    ceiling, _ = judge(alarmed, CONFIG, memory, yielding=True)
    assert ceiling.mode is mode


def stolen(second: float, steal_ppm: int, **signals: int) -> NodeState:
    state = at(second, health(2500), **signals)
    return replace(state, host=replace(state.host, steal_ppm=steal_ppm))


def test_during_cpu_steal_late_requests_cut_only_with_waiting_behind_best_effort() -> None:
    calm = at(0, health(500))
    (_, held), _ = run([calm, stolen(1, 50_000, run_delay_ppm=0)])
    assert held.mode is GuardMode.HOLD
    assert "the hypervisor took CPU time" in held.reason.text
    (_, waited), _ = run([calm, stolen(1, 50_000, run_delay_ppm=2_000_000)])
    (_, unknown), _ = run([calm, stolen(1, 50_000)])
    (_, little), _ = run([calm, stolen(1, 1_000, run_delay_ppm=0)])
    assert {waited.mode, unknown.mode, little.mode} == {GuardMode.CUT}
    ceilings, _ = run([calm, stolen(1, 50_000, run_delay_ppm=0), *(stolen(s, 0, run_delay_ppm=0) for s in (2, 4, 6))])
    assert [ceiling.mode for ceiling in ceilings[1:]] == [GuardMode.HOLD] * 3 + [GuardMode.CUT]


def test_an_alarm_of_memory_is_not_about_cpu() -> None:
    (ceiling,), _ = run([replace(at(0, health(500)), alarms=(Alarm(0, "", "memory"),))])
    assert ceiling.mode is GuardMode.GROW


def test_the_worst_signal_decides_and_pods_that_left_are_dropped() -> None:
    fine = in_use("fine", 1000, health=health(100), objective_p99_us=OBJECTIVE_US)
    bad = in_use("bad", 1000, health=health(990), objective_p99_us=OBJECTIVE_US)
    batch = in_use("batch", 8000, QoSClass.BE)
    (ceiling,), memory = run([node([fine, bad, batch])])
    assert "ns/bad" in ceiling.reason.text
    assert [burn.uid for burn in memory.burns] == ["uid-fine", "uid-bad"]
    _, memory = run([node([fine, batch], at_s=1)], memory)
    assert [burn.uid for burn in memory.burns] == ["uid-fine"]


def test_a_clock_that_goes_back_causes_no_growth_and_no_error() -> None:
    _, memory = run([at(100, health(960))])
    (ceiling,), _ = run([at(50, health(500))], memory)
    assert (ceiling.mode, ceiling.cpu_m) == (GuardMode.HOLD, 4000)


def test_terms_in_milli_cpu_add_up_to_the_ceiling() -> None:
    ceilings, _ = run([at(0, health(500)), at(1, health(960)), *(at(second, health(500)) for second in range(2, 20))])
    for ceiling in ceilings:
        assert sum(term.value for term in ceiling.reason.terms if term.unit == "mCPU") == ceiling.cpu_m


@pytest.mark.parametrize(
    "wrong",
    [
        {"cut_below_ppm": 200_000},
        {"min_requests": 0},
        {"cool_down_us": -1},
        {"cut_ppm": 1_000_001},
        {"delay_hold_ppm": 300_000},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        GuardConfig(**wrong)
