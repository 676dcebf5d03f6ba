"""`cotenant lab gpus`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput
from cotenant_lab.cli.gpus import GOALS, as_object, report, table
from cotenant_lab.gpuworld.comparing import GpuComparison, result_of
from cotenant_lab.gpuworld.config import GpuWorldConfig
from cotenant_lab.gpuworld.world import GpuOutcome
from cotenant_lab.statistics import Interval

CONFIG = GpuWorldConfig()


def outcome(missed: float, offline_cards: float, evictions: int = 0) -> GpuOutcome:
    return GpuOutcome(90_000, missed, 812.5, 84.4, offline_cards, 0.0123, 160, evictions)


def test_the_table_and_the_object_have_every_policy_and_the_goals() -> None:
    rows = {
        "cotenant": (outcome(0.005, 13.1, 7), outcome(0.008, 12.9, 6)),
        "dedicated": (outcome(0.004, 8.1), outcome(0.005, 8.2)),
        "mps-blind": (outcome(0.105, 15.1, 9), outcome(0.055, 14.9, 9)),
    }
    results = tuple(result_of(CONFIG, name, "2 jobs a card", outcomes) for name, outcomes in rows.items())
    found = GpuComparison((5, 6), (8,), results)
    lines = table(found)
    assert max(map(len, lines)) <= 110
    assert [line.split()[0] for line in lines[1:4]] == ["cotenant", "dedicated", "mps-blind"]
    assert sum("goal at" in line for line in lines) == 2  # spot is not there
    assert "evictions %  lost %   queue s" in lines[0]
    shown = json.loads(json.dumps(as_object(found)))
    assert [row["policy"] for row in shown["rows"]] == ["cotenant", "dedicated", "mps-blind"]
    assert len(shown["rows"][0]["by_seed"]) == 2
    assert {goal["bound"] for goal in shown["goals"]} == {1.5, 0.45}
    assert {goal["policy"] for goal in shown["goals"]} == {"cotenant"}
    both = GpuComparison((5, 6), (8,), (*results, result_of(CONFIG, "cotenant-headroom", "one", rows["cotenant"])))
    assert sum("goal at" in line for line in table(both)) == 4


def test_a_goal_is_met_by_the_whole_interval() -> None:
    more, fewer = GOALS[0], GOALS[1]
    assert more.is_met(Interval(1.7, 0.1, 10))
    assert not more.is_met(Interval(1.55, 0.1, 10))
    assert fewer.is_met(Interval(0.3, 0.1, 10))
    assert not fewer.is_met(Interval(0.4, 0.1, 10))


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("20-21", "21-22", "all", 1), "--tuning-seeds"),
        (("20-21", "30-31", "cotenant,nobody", 1), "--policies"),
        (("20-21", "30-31", "all", 0), "--jobs"),
        (("x", "30-31", "all", 1), "--seeds"),
    ],
)
def test_bad_input_names_its_field(arguments: tuple[str, str, str, int], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        report(*arguments, as_json=False)
    assert caught.value.field == field


def test_a_file_of_requests_that_is_none_is_refused(tmp_path: Path) -> None:
    few = tmp_path / "few.csv"
    few.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n")
    with pytest.raises(InvalidInput, match="at least 100"):
        report("5-6", "8-9", "spot", 1, (few,), as_json=False)
    with pytest.raises(InvalidInput, match=r"absent\.csv"):
        report("5-6", "8-9", "spot", 1, (tmp_path / "absent.csv",), as_json=False)
