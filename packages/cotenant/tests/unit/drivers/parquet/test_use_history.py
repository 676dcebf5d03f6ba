"""Use by the hour in files: what is read again, what is bounded, and what a broken file costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cotenant.drivers.parquet.use_history import UseHistoryFile
from cotenant.model.errors import InvalidInput
from cotenant.model.prediction.hour import HourOfUse

pytest.importorskip("polars", reason="polars is not installed (cotenant[history])")
BEGIN_H = 480_000


def _hour(hour: int, *names: str) -> HourOfUse:
    peak = np.array([0.25 + 0.5 * (hour % 2)] * len(names))
    return HourOfUse(hour, names, ("kind",) * len(names), peak, peak / 2)


def test_hours_are_read_as_they_were_stored(tmp_path: Path) -> None:
    history = UseHistoryFile(tmp_path / "made" / "anew")
    for hour in range(BEGIN_H, BEGIN_H + 30):
        history.store(_hour(hour, "a", "b") if hour % 3 else _hour(hour, "b"))
    found = list(UseHistoryFile(tmp_path / "made" / "anew").hours(BEGIN_H + 30))
    assert [stored.hour for stored in found] == list(range(BEGIN_H, BEGIN_H + 30))
    assert [len(stored.series) for stored in found[:4]] == [1, 2, 2, 1]
    assert found[1].peak.tolist() == [0.75, 0.75]
    assert found[1].last.tolist() == [0.375, 0.375]


def test_an_hour_that_is_stored_again_counts_once(tmp_path: Path) -> None:
    history = UseHistoryFile(tmp_path)
    history.store(_hour(BEGIN_H, "a"))
    history.store(_hour(BEGIN_H, "a", "b"))
    (found,) = history.hours(BEGIN_H + 1)
    assert found.series == ("a", "b")


def test_old_files_are_removed_and_hours_of_the_future_left_out(tmp_path: Path) -> None:
    history = UseHistoryFile(tmp_path, max_hours=48)
    for hour in range(BEGIN_H, BEGIN_H + 24 * 6, 6):
        history.store(_hour(hour, "a"))
    assert len(list(tmp_path.glob("*.parquet"))) <= 4
    hours = [found.hour for found in history.hours(BEGIN_H + 24 * 5)]
    assert min(hours) >= BEGIN_H + 24 * 5 - 48
    assert max(hours) < BEGIN_H + 24 * 5


@pytest.mark.parametrize("damage", [b"", b"PAR1 no table", b"\x00" * 4096])
def test_a_broken_file_is_named_and_costs_its_day_only(tmp_path: Path, damage: bytes) -> None:
    history = UseHistoryFile(tmp_path)
    for day in range(3):
        history.store(_hour(BEGIN_H + 24 * day, "a"))
    second = sorted(tmp_path.glob("*.parquet"))[1]
    second.write_bytes(damage)
    assert [found.hour for found in history.hours(BEGIN_H + 100)] == [BEGIN_H, BEGIN_H + 48]
    assert list(history.unreadable) == [second.name]


def test_a_place_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="history-dir"):
        UseHistoryFile(tmp_path / "file")
