"""What nodes used is stored by the hour, and a manager that starts anew predicts by it at once."""

from __future__ import annotations

import logging
from math import pi, sin
from pathlib import Path

import pytest

from cotenant.drivers.parquet.use_history import UseHistoryFile
from cotenant.engine.manager.predicting import MAX_UNSTORED, NodePrediction
from cotenant.model.cluster.labels import NO_LABELS
from cotenant.model.cluster.qos import PriorityClass
from cotenant.policy.overcommit.peak import MeasuredPodUse
from cotenant.services.manager.kept_use import KeptUse

pytest.importorskip("polars", reason="polars is not installed (cotenant[history])")
BEGIN_H, HOURS = 480_000, 4 * 24


def _learn(prediction: NodePrediction, kept: KeptUse, hours: int = HOURS) -> None:
    for hour in range(hours):
        pods = {
            "a": MeasuredPodUse(PriorityClass.PROD, 9000, round(4000 + 2000 * sin(hour / 12 * pi) + 50 * (hour % 5)))
        }
        prediction.learn("n", NO_LABELS, "batch-cpu", pods, 10_000, (BEGIN_H + hour) * 3600.0)
        kept.store()


def _amount(prediction: NodePrediction) -> object:
    pods = {"a": MeasuredPodUse(PriorityClass.PROD, 9000, 4000)}
    at_s = (BEGIN_H + HOURS - 0.5) * 3600.0
    return prediction.amount("n", "batch-cpu", pods, 10_000, 0, 0.05, None, at_s)


@pytest.mark.slow
def test_a_restart_goes_on_with_what_was_stored(tmp_path: Path) -> None:
    first, second = NodePrediction(), NodePrediction()
    _learn(first, KeptUse(UseHistoryFile(tmp_path), first))
    assert KeptUse(UseHistoryFile(tmp_path), second).replay((BEGIN_H + HOURS) * 3600.0) == HOURS - 1
    assert _amount(second) is not None
    assert _amount(NodePrediction()) is None


def test_without_a_folder_nothing_piles_up() -> None:
    prediction = NodePrediction()
    kept = KeptUse(None, prediction)
    assert not kept.is_on
    assert kept.replay(0.0) == 0
    for hour in range(3 * MAX_UNSTORED):
        pods = {"a": MeasuredPodUse(PriorityClass.PROD, 1, 1)}
        prediction.learn("n", NO_LABELS, "batch-cpu", pods, 10, (BEGIN_H + hour) * 3600.0)
    assert len(prediction.finished()) == MAX_UNSTORED


def test_what_cannot_be_stored_is_said_and_stored_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "history"
    prediction = NodePrediction()
    history = UseHistoryFile(folder)
    folder.rmdir()
    folder.write_text("in the way")
    kept = KeptUse(history, prediction)
    with caplog.at_level(logging.WARNING):
        _learn(prediction, kept, 3)
    assert "is not stored yet" in caplog.text
    folder.unlink()
    folder.mkdir()
    kept.store()
    assert len(list(history.hours(BEGIN_H + 3))) == 2
