"""The comparison of guards: its statistics, the order of its kinds, and its verdict over records made by hand."""

from __future__ import annotations

import pytest
from bench.guard.__main__ import arms_of
from bench.guard.arms import AGAIN, ALONE, DEFAULT, KUBE, OURS, SLICE
from bench.guard.comparison import Comparison
from bench.guard.hogs import KINDS, chosen, spread
from bench.guard.tails import pooled_ratio

from cotenant.model.errors import InvalidInput
from cotenant_lab.experiments.harness import ArmBlock, ExperimentJudgement, ExperimentRound, Record
from cotenant_lab.experiments.measures.histogram import Histogram
from cotenant_lab.experiments.measures.windows import MeasuredWindow
from cotenant_lab.experiments.site.site import Conditions

QUIET = Conditions(3.0, 0.0, 0.0, None)
REQUESTS = 1000


def latency(usual_us: int, slow_us: int = 0, slow: int = 0) -> Histogram:
    return Histogram({usual_us: REQUESTS - slow, **({slow_us: slow} if slow else {})})


def block(usual_us: int, slow_us: int = 0, slow: int = 0, batch_us: int = 0, kind: str = "spin") -> Record:
    windows = [
        MeasuredWindow(index, 20, latency(usual_us, slow_us, slow), Histogram({10: REQUESTS})).to_list()
        for index in range(20)
    ]
    counters = {"passed_us": 3_000_000, "batch_us": batch_us, "service_us": 450_000, "monitor_us": 50_000}
    return {"kind": kind, "witness": True, "windows": windows, **counters}


def judged(ours: Record, kube: Record | None = None) -> ExperimentJudgement:
    records = {
        ALONE.name: block(200),
        AGAIN.name: block(204),
        KUBE.name: kube or block(200, 250, 20, batch_us=2_500_000),
        OURS.name: ours,
    }
    rounds = [
        ExperimentRound(number, {arm: ArmBlock(arm, record, QUIET) for arm, record in records.items()})
        for number in range(4)
    ]
    return Comparison((ALONE, AGAIN, KUBE, OURS), chosen("spin")).judge(rounds)


def test_the_ratio_of_pooled_tails_has_an_interval_that_holds_it() -> None:
    over = [latency(100, 200, slow) for slow in (0, 5, 5, 5)]
    estimate = pooled_ratio(over, [latency(100)] * 4, 0.998)
    assert (estimate.value, estimate.low, estimate.high) == (2.0, 1.0, 2.0)
    same = pooled_ratio(over, over, 0.998)
    assert (same.value, same.low, same.high) == (1.0, 1.0, 1.0)  # resampled in pairs: what is common stays common


def test_two_rounds_have_no_interval_and_no_requests_no_ratio() -> None:
    assert pooled_ratio([latency(100)] * 2, [latency(50)] * 2, 0.5).low is None
    assert pooled_ratio([Histogram()], [Histogram()], 0.5).value != pooled_ratio([], [], 0.5).value  # both NaN


def test_an_agent_that_keeps_the_tail_and_gives_the_rest_away_passes() -> None:
    judgement = judged(block(204, batch_us=2_000_000))
    assert [check.passed for check in judgement.checks] == [True] * 4
    assert judgement.checks[3].measured == 0.8  # two of the two and a half seconds that the service left
    assert judgement.figures["cotenant"]["spin"]["best_effort_of_idle"]["value"] == 0.8
    assert judgement.figures["alone again"]["p99_to_alone"]["value"] == 1.02


@pytest.mark.parametrize(
    ("ours", "passed"),
    [
        (block(212, batch_us=2_000_000), [False, True, True, True]),  # the tail a twentieth longer
        (block(222, batch_us=2_000_000), [False, False, False, True]),
        (block(200, 255, 5, batch_us=2_000_000), [True, True, False, True]),  # one request in two hundred
        (block(200, batch_us=1_800_000), [True, True, True, False]),  # a cut that costs too much
    ],
)
def test_each_pass_line_can_fail_alone(ours: Record, passed: list[bool]) -> None:
    assert [check.passed for check in judged(ours).checks] == passed


def test_rows_are_by_arm_and_then_by_kind_of_hog() -> None:
    rows = [row[:2] for row in judged(block(200, batch_us=2_000_000)).rows]
    together = [("alone", "–"), ("alone again", "–"), ("kube", "all"), ("cotenant", "all")]
    assert rows == [*together, ("kube", "spin"), ("cotenant", "spin")]


def test_a_round_whose_tail_alone_is_far_above_the_median_is_left_out() -> None:
    comparison = Comparison((ALONE, OURS), chosen("spin"))
    rounds = [
        ExperimentRound(number, {ALONE.name: ArmBlock("alone", block(tail), QUIET)})
        for number, tail in enumerate((200, 210, 900))
    ]
    assert set(comparison.discard(rounds)) == {2}


def test_the_kinds_take_turns() -> None:
    kinds = chosen("spin,fork")
    assert [spread(kinds, number).name for number in range(4)] == ["spin", "fork", "spin", "fork"]
    assert {kind.name for kind in chosen(",".join(KINDS))} == {"spin", "memory", "fork", "disk"}


def test_names_that_do_not_exist_are_refused_and_alone_is_always_there() -> None:
    assert arms_of("slice,cotenant") == (ALONE, SLICE, OURS)
    assert arms_of(",".join(arm.name for arm in DEFAULT)) == DEFAULT
    for wrong in (lambda: arms_of("cotenant,cfs"), lambda: chosen("spin,net")):
        with pytest.raises(InvalidInput):
            wrong()
