"""Tables of text on a terminal: what folds where there is no room."""

from __future__ import annotations

import pytest

from cotenant.cli import tables

POD = "colocation/checkout-service-0008-7d9f8b6c5d-x2x4z"


def printed(capsys: pytest.CaptureFixture[str], headings: tuple[str, ...], row: tuple[str, ...]) -> list[str]:
    tables.print_words(headings, [row])
    return [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]


def test_headings_fold_before_the_longest_column_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    heads = ("pod", "share of the objective", "share of the neighbours' objectives")
    lines = printed(capsys, heads, (POD, "75 -> 146", "1 -> 2"))
    assert lines[-1].split() == [POD, "75", "->", "146", "1", "->", "2"]
    assert lines[3].split() == ["pod", "objective", "objectives"]  # the last line of the headings


def test_no_column_becomes_a_strip_of_letters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    cells = tuple(f"cell-{i}-of-a-row" for i in range(5))
    lines = printed(capsys, ("pod", "a", "b", "c", "d", "e"), (POD, *cells))
    assert max(map(len, lines)) <= 60
    assert len(lines) <= 10  # a strip of letters would take one line a letter
