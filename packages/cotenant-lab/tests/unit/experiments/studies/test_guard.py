"""The judgement of `guard`: calm windows count where there are lateness monitors, and slowness in them fails the
check.
"""

from collections.abc import Callable

import pytest

from cotenant_lab.experiments.harness import ArmBlock, ExperimentJudgement, ExperimentRound, Record
from cotenant_lab.experiments.measures.histogram import Histogram
from cotenant_lab.experiments.measures.windows import MIN_CALM, MeasuredWindow
from cotenant_lab.experiments.site.site import Conditions
from cotenant_lab.experiments.studies.guard import ALONE, REGULATED, UNREGULATED, GuardStudy

WINDOWS, REQUESTS = 100, 50  # of a block; in a window
FAST_US, SLOW_US, STALL_US = 300, 5_000, 8_000
EVERY = 5  # windows from one disturbance to the next

Place = Callable[[int], bool]


def nowhere(_: int) -> bool:
    return False


def at_disturbances(place: int) -> bool:
    return place % EVERY == 0


def away_from_them(place: int) -> bool:
    return place % EVERY not in (0, 1)


def block(slow: Place = nowhere, disturbed: Place = at_disturbances, witness: bool = True) -> Record:
    """Windows in which all requests took `FAST_US`, or `SLOW_US`; in disturbed ones the monitor of the plant was
    late.
    """
    windows = []
    for place in range(WINDOWS):
        latency = Histogram()
        for _ in range(REQUESTS):
            latency.add(SLOW_US if slow(place) else FAST_US)
        late_us = (STALL_US if disturbed(place) else 20) if witness else None
        windows.append(MeasuredWindow(1000 + place, late_us, latency, Histogram({10: REQUESTS})).to_list())
    counters = {"passed_us": 5_000_000, "batch_us": 4_000_000, "service_us": 500_000, "witness_us": 50_000}
    return {"witness": witness, "windows": windows, **counters}


def judged(regulated: Record, alone: Record | None = None, unregulated: Record | None = None) -> ExperimentJudgement:
    records = {
        ALONE: alone or block(),
        UNREGULATED: unregulated or block(slow=lambda _: True),
        REGULATED: regulated,
    }
    quiet = Conditions(5.0, 0.0, 0.0, None)
    rounds = [
        ExperimentRound(number, {arm: ArmBlock(arm, record, quiet) for arm, record in records.items()})
        for number in range(3)
    ]
    return GuardStudy().judge(rounds)


def verdicts(judgement: ExperimentJudgement) -> dict[str, bool]:
    return {check.what.removeprefix("p99 "): check.passed for check in judgement.checks if "p99" in check.what}


def test_slowness_in_calm_windows_of_the_regulated_arm_fails_the_check() -> None:
    judgement = judged(block(slow=away_from_them))
    assert verdicts(judgement) == {"regulated / alone": False, "unregulated / alone": True}
    assert judgement.checks[0].measured == pytest.approx(SLOW_US / FAST_US, rel=0.02)


def test_slowness_in_two_calm_windows_of_a_hundred_is_enough_to_fail() -> None:
    assert not verdicts(judged(block(slow=lambda place: place in (2, 3))))["regulated / alone"]


def test_slowness_in_disturbed_windows_only_passes_and_is_reported() -> None:
    judgement = judged(block(slow=at_disturbances))
    assert verdicts(judgement) == {"regulated / alone": True, "unregulated / alone": True}
    assert judgement.checks[0].measured == 1.0
    assert judgement.figures["judged"] == "calm windows"
    told = judgement.figures[REGULATED]
    assert told["p99_to_alone"]["ratio"] == 1.0
    assert told["all_windows"]["p99_to_alone"]["ratio"] == pytest.approx(SLOW_US / FAST_US, rel=0.02)
    assert told["calm_share_of_windows"] == 0.6  # the disturbed ones and those after them are left out
    assert told["late_share_of_windows"] == {"plant": 0.2, "load": 0.0}
    assert told["requests"] == 3 * 60 * REQUESTS
    assert any("p99 over all windows, ms: alone 0.30, unregulated 5.02, regulated 5.02" in n for n in judgement.notes)


def test_without_a_lateness_monitor_all_windows_are_judged() -> None:
    judgement = judged(block(slow=at_disturbances, witness=False))
    assert not verdicts(judgement)["regulated / alone"]
    assert judgement.figures["judged"] == "all windows"
    assert judgement.figures[REGULATED]["calm_share_of_windows"] is None
    assert any(note.startswith("No lateness monitor") for note in judgement.notes)


def test_a_block_with_too_few_calm_windows_is_disturbed() -> None:
    def often(place: int) -> bool:
        return place >= 100 * MIN_CALM

    guard = GuardStudy()
    assert guard.disturbed(block()) == ""
    assert guard.disturbed(block(disturbed=often)) == "only 19% of the windows were calm"
    assert guard.disturbed(block(disturbed=often, witness=False)) == ""
    few = dict(block())
    few["windows"] = few["windows"][:10]
    assert guard.disturbed(few) == "only 300 requests were due in calm windows"


def test_a_run_without_calm_windows_is_shown_but_does_not_pass() -> None:
    restless = block(disturbed=lambda _: True)
    judgement = judged(restless, restless, restless)
    assert not any(verdicts(judgement).values())
    assert judgement.figures[ALONE]["p99_us"] is None
    assert judgement.figures[ALONE]["all_windows"]["p99_us"] == pytest.approx(FAST_US, rel=0.01)


def test_the_p99_alone_that_discards_a_round_is_of_calm_windows() -> None:
    quiet = Conditions(5.0, 0.0, 0.0, None)

    def rounds(odd: Record) -> list[ExperimentRound]:
        alone = [block(), block(), odd, block(disturbed=lambda _: True)]
        return [ExperimentRound(number, {ALONE: ArmBlock(ALONE, entry, quiet)}) for number, entry in enumerate(alone)]

    assert GuardStudy().discard(rounds(block(slow=at_disturbances))) == {}
    assert set(GuardStudy().discard(rounds(block(slow=away_from_them)))) == {2}
