"""What reports, clocks, kubelets and servers do to sizes: counters that jump, workloads of an hour, refusals that stay,
resizes that are deferred for ever, leaders whose clocks are apart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import nan

import pytest
from tests.fakes.cluster.sizing_world import BIG, MIB, NOW_S, World, pending, pod

from cotenant.engine.sizing.clocks import LONGEST_QUIET_S
from cotenant.engine.sizing.reports import MAX_AGE_S, Reports
from cotenant.model.machine.node_metric import NO_USE, MeasuredPod, NodeMetric, Use
from cotenant.model.sizes.container import ContainerSize
from cotenant.model.sizes.right_sizing import SizingMode, SizingOutcome, SizingPhase
from cotenant.model.traces.objective import Indicator, ObjectiveState, ObjectiveStatus

DAY_S, YEAR_S = 86_400, 365 * 86_400.0
NODE = Use(8000, 32 << 30)
LEAP = 1 << 32


def report(at_s: float, use: Use, age_s: float = 0.0, node: str = "n1") -> NodeMetric:
    return NodeMetric(node, age_s, pods={"ns/a": MeasuredPod(use)}, updated_s=at_s)


# ---- counters


@pytest.mark.parametrize(
    "jumped", [Use(LEAP, 900 * MIB), Use(1000, 900 * MIB + LEAP), Use(1000, 1 << 62), Use(8801, 900 * MIB)]
)
def test_a_report_of_more_than_there_is_sets_no_size_and_is_counted(jumped: Use) -> None:
    sizes: list[ContainerSize] = []
    for use in (Use(1000, 900 * MIB), jumped):
        world = World(mode=SizingMode.SUGGEST)
        world.engine.reports = Reports({"n1": NODE}.get)
        world.engine.metric_seen(report(NOW_S + 1, use), NOW_S + 1)
        assert world.run(600, lambda of=world: of.status.suggestion is not None)
        assert world.engine.reports.impossible == (use is jumped)
        assert world.status.suggestion is not None
        sizes.append(world.status.suggestion.after)
    assert sizes[0] == sizes[1]


def test_a_counter_that_began_anew_shrinks_nothing() -> None:
    world = World(mode=SizingMode.SUGGEST)
    assert world.run(600, lambda: world.status.suggestion is not None)
    before = world.status.suggestion
    world.use = NO_USE
    world.run(900)
    assert before is not None
    assert world.status.suggestion is not None
    assert world.status.suggestion.after == before.after


def test_reports_are_told_once_whatever_their_clock_says() -> None:
    reports = Reports(lambda node: None)
    told = [
        (100.0, 0.0, True),
        (100.0, 5.0, False),  # the same again
        (40.0, 0.0, False),  # one that was overtaken
        (160.0, 0.0, True),
        (160.0 - YEAR_S, 0.0, True),  # its clock was set right
        (220.0 - YEAR_S, YEAR_S, True),  # or is a year behind
        (nan, nan, False),
    ]
    assert [reports.is_new(report(at_s, NO_USE, age_s)) for at_s, age_s, _ in told] == [new for _, _, new in told]
    assert not reports.is_new(report(500.0, NO_USE, MAX_AGE_S + 1, "n2"))  # old, for all that is known
    assert reports.is_new(report(560.0, NO_USE, MAX_AGE_S + 1, "n2"))
    reports.node_gone("n2")
    assert not reports.is_new(report(560.0, NO_USE, MAX_AGE_S + 1, "n2"))


def test_a_node_whose_clock_is_an_hour_behind_is_measured() -> None:
    world = World(mode=SizingMode.SUGGEST)
    world.is_reporting = False
    for minute in range(5):
        at_s = NOW_S + 60.0 * minute
        world.engine.metric_seen(report(at_s - 3600, Use(700 + minute, 10 * MIB), 3600.0), at_s)
    world.run(5)
    assert world.status.history.cpu_m == (704,)


def test_a_report_that_is_told_again_and_again_proves_nothing() -> None:
    world = World(replicas=1, mode=SizingMode.ACT)
    world.reach(SizingPhase.PROOF)
    world.is_reporting = False
    again, overtaken = report(world.now_s + 1, world.use), report(world.now_s - 59, world.use)

    def told() -> bool:
        world.engine.metric_seen(again, world.now_s)
        world.engine.metric_seen(overtaken, world.now_s)
        return bool(world.status.receipts)

    assert world.run(1200, told)
    assert "nothing was measured" in world.status.receipts[0].why


# ---- histories


def test_two_hours_with_a_day_between_are_no_day_of_history() -> None:
    world = World(mode=SizingMode.SUGGEST)
    world.spec(min_history_s=float(DAY_S))
    world.run(600)
    world.now_s += 30 * 3600
    world.run(600)
    assert world.status.state == "learning"
    assert world.status.message == "2.0 h of its use are known, a size needs 24 h"  # of two hours something is
    for _ in range(24):
        world.now_s += 3600
        world.run(35)
    assert world.status.suggestion is not None


# ---- who refuses, and who defers


def test_an_undo_that_is_refused_is_asked_for_ever_more_seldom() -> None:
    world = World(mode=SizingMode.ACT, objective="fast")
    world.engine.objective_seen(objective(ObjectiveState.OK))
    world.reach(SizingPhase.WHOLE)
    world.refuses, asked = "exceeded quota: q, requested: requests.cpu=1, used: 9, limited: 9", len(world.resized)
    world.engine.objective_seen(objective(ObjectiveState.BURNING))
    assert world.run(3600, lambda: bool(world.status.receipts))
    assert world.status.receipts[0].outcome is SizingOutcome.UNDONE
    assert "not yet back" in world.status.receipts[0].why
    tries = Counter(name for name, _ in world.resized[asked:])
    assert set(tries.values()) == {6}  # in 15 minutes: at once, after 20, 40, 80, 160, 320 s
    assert world.run(60) is False


def test_what_was_refused_to_a_pod_made_anew_is_said_and_asked_again_after_an_hour() -> None:
    world = World(mode=SizingMode.ACT)
    assert world.run(7200, lambda: bool(world.status.receipts))
    world.refuses, asked = "maximum cpu usage per Container is 1", len(world.resized)
    world.put(pod("d"))
    world.run(3500)
    assert len(world.resized) == asked + 1
    assert world.status.message == f"pods made anew keep the template's size: {world.refuses}"
    world.refuses = ""
    world.run(300)
    assert world.pods["d"].containers[0].size == world.status.receipts[0].after


def test_a_pod_made_anew_that_is_deferred_for_ever_gets_its_size_back_and_is_left_for_a_day() -> None:
    world = World(mode=SizingMode.ACT)
    assert world.run(7200, lambda: bool(world.status.receipts))
    world.kubelet, asked = pending("Deferred"), len(world.resized)
    world.put(pod("d"))
    world.run(600)
    assert [size for _, size in world.resized[asked:]] == [world.status.receipts[0].after, BIG]
    assert world.pods["d"].pending == ""
    assert world.status.message == "pods made anew keep the template's size: d: Deferred for 305 s: no room"
    world.now_s += DAY_S - 900
    world.run(300)
    assert len(world.resized) == asked + 2
    world.run(900)
    assert len(world.resized) == asked + 4


# ---- clocks of leaders


def objective(state: ObjectiveState) -> ObjectiveStatus:
    return ObjectiveStatus("ns/fast", "ns", "web", Indicator.LATENCY, state=state)


@pytest.mark.parametrize("phase", [SizingPhase.FIRST, SizingPhase.PROOF, SizingPhase.REST, SizingPhase.WHOLE])
def test_a_change_that_a_leader_with_a_clock_a_year_ahead_began_is_ended_by_the_next(phase: SizingPhase) -> None:
    world = World(mode=SizingMode.ACT)
    world.reach(phase)
    world.now_s -= YEAR_S
    world.restart()
    assert world.run(7200, lambda: bool(world.status.receipts))
    assert world.status.receipts[0].outcome is SizingOutcome.DONE
    assert world.sizes() == {world.status.receipts[0].after}


def test_what_that_leader_left_neither_stops_the_histories_nor_pauses_for_a_year() -> None:
    world = World(mode=SizingMode.ACT)
    world.refuses = "no"
    assert world.run(7200, lambda: bool(world.status.receipts))
    world.now_s -= YEAR_S
    world.restart()
    world.use = Use(1700, 900 * MIB)
    world.run(1200)
    history = world.status.history
    assert 0 <= int(world.now_s // 3600) - (history.first_hour + len(history.cpu_m) - 1) <= 1
    assert max(history.cpu_m) == 1700
    assert world.status.quiet_until_s <= world.now_s + LONGEST_QUIET_S


def test_clocks_a_minute_apart_change_nothing() -> None:
    world = World(mode=SizingMode.ACT)
    world.reach(SizingPhase.PROOF)
    stored = world.status
    world.now_s -= 59.0
    world.restart()
    world.run(5)
    assert world.status.change == stored.change


def test_the_hour_before_the_last_is_not_taken_for_a_wrong_clock() -> None:
    world = World(mode=SizingMode.SUGGEST)
    world.run(1200)
    before = world.status.history
    world.now_s -= 3600.0
    world.restart()
    world.run(1200)
    assert replace(world.status.history, cpu_m=(), memory_mib=()) == replace(before, cpu_m=(), memory_mib=())
