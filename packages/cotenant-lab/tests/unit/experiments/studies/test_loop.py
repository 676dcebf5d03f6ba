"""What the loop experiment concludes from its blocks, without running it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cotenant.model.errors import Permanent
from cotenant_lab.experiments.harness import ArmBlock, ExperimentRound
from cotenant_lab.experiments.loads.ride_load import Dispatch
from cotenant_lab.experiments.measures.histogram import Histogram
from cotenant_lab.experiments.site.model_server import MODEL_SERVER
from cotenant_lab.experiments.site.site import Conditions
from cotenant_lab.experiments.studies.loop import ALONE, REGULATED, UNREGULATED, LoopStudy, recovered_s

CALM = Conditions(1.0, 0.0, 0.0, 0.0)


def seconds(*missed: int) -> dict[float, tuple[int, int]]:
    """Ten requests a second, so many of them over."""
    return {float(second): (10, over) for second, over in enumerate(missed)}


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ((0, 0, 0, 0, 0, 0, 0, 0), 0.0),
        ((0, 0, 9, 9, 0, 0, 0, 0, 0), 2.0),
        ((0, 0, 9, 0, 0, 9, 0, 0, 0, 0), 4.0),  # two good seconds are not enough
        ((0, 0, 9, 9, 9, 9, 9), None),
        ((0, 0, 9, 9, 9, 0, 0), None),  # it ends too soon to tell
        ((9, 9, 0, 0, 0, 0, 0), 0.0),  # before it arrived
    ],
)
def test_recovered_is_where_the_first_good_stretch_begins(missed: tuple[int, ...], expected: float | None) -> None:
    assert recovered_s(seconds(*missed), 2.0, 0.05, 3.0) == expected


def test_without_requests_nothing_is_concluded() -> None:
    assert recovered_s({}, 2.0, 0.05, 3.0) is None


def record(p99_us: Mapping[int, int], loop: LoopStudy, seconds_: int, **more: Any) -> dict[str, Any]:
    slots = []
    for index in range(seconds_ * 2):
        found = Histogram()
        for _ in range(10):
            found.add(p99_us.get(index // 2, 10_000))
        slots.append([index, found.pairs()])
    return {"slots": slots, "watched": [], "status": {}, "threshold_ms": 20.0, "offline_us": 8_000_000, **more}


def one_round(culprit: str, number: int = 0, **alone: int) -> ExperimentRound:
    loop = LoopStudy()
    late = dict.fromkeys(range(loop.calm_s, loop.calm_s + loop.steady_s), 90_000)
    burning = [{"second": loop.calm_s + 1, "burn": 12.5, "beside": {"shop/per-token": 3.5}}]
    story = {"text": ["x"], "incidents": [{"culprit": culprit}] if culprit else []}
    blocks = {
        ALONE: record(
            dict.fromkeys(range(99), alone.get("us", 10_000)), loop, loop.calm_s + loop.steady_s, offline_us=0
        ),
        UNREGULATED: record(late, loop, loop.calm_s + loop.steady_s, watched=burning),
        REGULATED: record(
            dict.fromkeys(range(loop.calm_s, loop.calm_s + 6), 90_000),
            loop,
            loop.calm_s + loop.trouble_s,
            story=story,
            agent={"decisions": []},
            offline_us=2_000_000,
        ),
    }
    return ExperimentRound(number, {arm: ArmBlock(arm, found, CALM) for arm, found in blocks.items()})


def test_a_round_that_recovers_passes() -> None:
    judged = LoopStudy(threshold_ms=20.0).judge([one_round("experiment/hog")])
    assert all(check.passed for check in judged.checks), [(check.what, check.measured) for check in judged.checks]
    assert judged.figures["recovered_s"] == [6.0]
    assert judged.figures["p99_to_alone"]["unregulated"] > 8
    assert judged.figures["offline_share"] == [0.25]


def test_an_objective_beside_has_its_burn_and_decides_nothing() -> None:
    application = replace(MODEL_SERVER, beside=("shop/per-token",))
    judged = LoopStudy(threshold_ms=20.0, application=application).judge([one_round("experiment/hog")])
    assert judged.figures["burn_beside"] == {"shop/per-token": [3.5]}
    assert dict(zip(judged.columns, judged.rows[0], strict=True))["burn per-token"] == "3.5"
    plain = LoopStudy(threshold_ms=20.0).judge([one_round("experiment/hog")])
    assert [check.what for check in judged.checks] == [check.what for check in plain.checks]


def test_an_innocent_or_no_cause_fails() -> None:
    for culprit in ("", "experiment/backup"):
        judged = LoopStudy(threshold_ms=20.0).judge([one_round(culprit)])
        failed = [check.what for check in judged.checks if not check.passed]
        assert failed == ["hog named as the cause, share of rounds"]


def test_a_round_whose_application_alone_misses_is_left_out() -> None:
    loop = LoopStudy(threshold_ms=20.0)
    bad = one_round("")
    blocks = {**bad.blocks, ALONE: bad.blocks[UNREGULATED]}
    assert list(loop.discard([ExperimentRound(3, blocks)])) == [3]
    assert loop.discard([bad]) == {}


def test_a_round_whose_application_alone_was_far_slower_than_usual_is_left_out() -> None:
    """It keeps its objective, and would make the comparison with the regulated arm easy."""
    rounds = [one_round("", number) for number in range(3)] + [one_round("", 3, us=19_000)]
    assert LoopStudy(threshold_ms=20.0).discard(rounds) == {3: "alone, p99 was 19.07 ms, 1.9 times the usual"}


def test_answers_are_separated_and_errors_end_the_load() -> None:
    received = bytearray(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}"
    )
    assert Dispatch().replies(received) == 1
    received += b"   "
    assert Dispatch().replies(received) == 1
    assert received == bytearray()
    with pytest.raises(Permanent, match="500"):
        Dispatch().replies(bytearray(b"HTTP/1.1 500 OK\r\nContent-Length: 0\r\n\r\n"))
