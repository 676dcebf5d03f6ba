"""The antagonist experiment's judgement of its rounds; tests/node has a real run."""

from __future__ import annotations

from typing import Any

from cotenant_lab.experiments.harness import ArmBlock, ExperimentRound
from cotenant_lab.experiments.site.site import Conditions
from cotenant_lab.experiments.studies.antagonist import ARM, Antagonist, _p99

CALM = Conditions(1.0, 0.0, 0.0, None)


def a_round(number: int, capped: str | None = "plant/batch-1", **named: str | None) -> ExperimentRound:
    """A round whose guilty one is batch-1, with whom each way named."""
    record: dict[str, Any] = {
        "guilty": "plant/batch-1",
        "ways": {
            way: {"first": name, "capped": name, "after_s": name and 3.0 + number, "said": ""}
            for way, name in named.items()
        },
        "why_no_probe": "" if "blame" in named else "no BTF",
        "capped": capped,
        "alone": 0.1,
        "together": 1.0 + number,
        "under_cap": 0.2,
        "p99_us": {"alone": 1000, "together": 4000, "under_cap": 1200},
        "use_m": {f"plant/batch-{guest}": 150 for guest in range(4)},
        "curve": [[0.5, 1.0, 200]],
    }
    return ExperimentRound(number, {ARM: ArmBlock(ARM, record, CALM)})


def test_an_empty_and_a_wrong_top_place_both_count_as_wrong() -> None:
    rounds = [
        a_round(0, run_delay="plant/batch-1", psi="plant/batch-2", blame="plant/batch-1"),
        a_round(1, run_delay="plant/batch-1", psi=None, blame="plant/batch-1"),
    ]
    judged = Antagonist().judge(rounds)
    assert judged.figures["ways"]["run_delay"] == {
        "top_place": 1.0,
        "capped_right": 2,
        "capped_wrong": 0,
        "median_s": 3.5,
    }
    assert judged.figures["ways"]["psi"] == {
        "top_place": 0.0,
        "capped_right": 0,
        "capped_wrong": 1,
        "median_s": None,
    }
    assert [check.passed for check in judged.checks] == [True, False, True]


def test_relief_covers_rounds_in_which_the_guilty_group_was_capped() -> None:
    rounds = [a_round(0, run_delay="plant/batch-1"), a_round(9, capped="plant/batch-3", run_delay="plant/batch-3")]
    figures = Antagonist().judge(rounds).figures
    assert figures["capped_right"] == 1
    assert figures["waiting_s_per_cpu_s"] == {"alone": 0.1, "together": 1.0, "under_cap": 0.2}
    assert figures["p99_us"]["under_cap"] == 1200


def test_a_method_that_this_machine_lacks_is_left_out_and_named() -> None:
    judged = Antagonist().judge([a_round(0, run_delay="plant/batch-1", psi="plant/batch-1")])
    assert judged.figures["ways"].keys() == {"run_delay", "psi"}
    assert any("no BTF" in note for note in judged.notes)


def test_requests_are_separated_by_due_time() -> None:
    requests = [(1_000_000, 10), (2_000_000, 500), (3_100_000, 900), (3_900_000, 20)]
    assert _p99(requests, 1_500_000, 3_000_000) == {"alone": 10, "together": 500, "under_cap": 20}
