"""The recovery experiment's judgement of its rounds."""

from __future__ import annotations

from typing import Any

from cotenant_lab.experiments.harness import ArmBlock, ExperimentRound
from cotenant_lab.experiments.site.site import Conditions
from cotenant_lab.experiments.studies.recovery import ARM, Recovery

CALM = Conditions(1.0, 0.0, 0.0, None)


def a_round(number: int, **changes: Any) -> ExperimentRound:
    record: dict[str, Any] = {
        "guilty": "plant/batch-1",
        "culprit": "plant/batch-1",
        "capped": {"plant/batch-1": 1.5},
        "recovered_s": 4.0,
        "proven": True,
        "p99_ms": {"calm": 2.0, "before": 400.0, "after": None},
        "curve": [[-0.5, 2.0], [0.5, 400.0]],
    }
    return ExperimentRound(number, {ARM: ArmBlock(ARM, record | changes, CALM)})


def test_a_run_in_which_every_round_is_right_passes() -> None:
    judged = Recovery().judge([a_round(number) for number in range(10)])
    assert all(check.passed for check in judged.checks)
    assert judged.figures["recovered_s"] == 4.0
    assert judged.figures["p99_ms"] == {"calm": 2.0, "before": 400.0, "after": None}


def test_a_limited_innocent_and_a_late_recovery_fail() -> None:
    innocent = a_round(0, capped={"plant/batch-1": 1.5, "plant/batch-2": 3.0})
    late = a_round(1, recovered_s=21.0)
    nothing = a_round(2, culprit=None, capped={}, recovered_s=None, proven=False)
    judged = Recovery().judge([innocent, late, nothing])
    assert [check.passed for check in judged.checks] == [False, False, False, False]
    assert judged.figures["innocent"] == 1
    assert judged.figures["rounds_right"] == 2
