"""The culprit experiment's judgement of its rounds, and the file of latency windows; tests/node has a real run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cotenant_lab.experiments.harness import ArmBlock, ExperimentRound
from cotenant_lab.experiments.loads.windowed_service import line
from cotenant_lab.experiments.site.site import Conditions
from cotenant_lab.experiments.studies.culprit import NEIGHBOUR, OWN_LOAD, OWN_QUOTA, Culprit
from cotenant_lab.experiments.studies.culprit_watch import METHODS, WindowFile

CALM = Conditions(1.0, 0.0, 0.0, None)


def record(guilty: str | None, named: str | None) -> dict[str, Any]:
    answer = {"named": named, "after_s": named and 1.5, "causes": {"pod": 1}, "reason": ""}
    return {
        "guilty": guilty,
        "answers": dict.fromkeys(METHODS, answer),
        "why_no_probe": "no BTF",
        "p99_ms": {"calm": 2.0, "trouble": 30.0},
        "curve": [[-0.5, None], [0.5, 2.0]],
    }


def a_round(number: int, named: str | None, load: str | None = None, quota: str | None = None) -> ExperimentRound:
    records = {
        NEIGHBOUR: record("plant/batch-1", named),
        OWN_LOAD: record(None, load),
        OWN_QUOTA: record(None, quota),
    }
    return ExperimentRound(number, {arm: ArmBlock(arm, entry, CALM) for arm, entry in records.items()})


def test_nine_of_ten_pass_and_one_innocent_fails() -> None:
    rounds = [a_round(number, "plant/batch-1" if number else None) for number in range(10)]
    judged = Culprit().judge(rounds)
    assert [check.passed for check in judged.checks] == [True, True]
    found = judged.figures["methods"]["all"]
    assert (found["guilty_named_first"], found["nobody_named"], found["innocent_named"]) == (9, 1, 0)
    assert found["own_rounds"] == 20
    assert any("no BTF" in note for note in judged.notes)
    judged = Culprit().judge([*rounds, a_round(10, "plant/batch-2", quota="plant/batch-0")])
    assert [check.passed for check in judged.checks] == [False, False]


def test_the_newest_complete_window_is_the_services_health(tmp_path: Path) -> None:
    path = tmp_path / "windows.jsonl"
    latency = WindowFile(path)
    assert latency.health(1) is None
    first, second = line(1_000_000, 500_000, [1000] * 99 + [9000], 6000), line(1_500_000, 500_000, [2000] * 50, 6000)
    assert json.loads(first)["over"] == 1
    path.write_text(first + "\n" + second[:10])
    health = latency.health(1_200_000)
    assert health is not None
    assert (health.requests, health.over_objective, health.age_us) == (100, 1, 200_000)
    with path.open("a") as file:
        file.write(second[10:] + "\n")
    health = latency.health(1_600_000)
    assert health is not None
    assert (health.requests, health.p99_us, health.window_us) == (50, 2000, 500_000)
