"""Seeds as users write them: a number, ranges, lists, and what is refused."""

from __future__ import annotations

import pytest

from cotenant.model.errors import InvalidInput
from cotenant_lab.seeds import MAX_SEEDS, read_seeds


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        (3, (0, 1, 2)),
        ("3", (0, 1, 2)),
        ("20-29", tuple(range(20, 30))),
        ("0-4,20-29", (*range(5), *range(20, 30))),
        (" 7-7 ", (7,)),
        ("5, 3", (5, 3)),
        (str(MAX_SEEDS), tuple(range(MAX_SEEDS))),
    ],
)
def test_what_names_seeds(text: int | str, seeds: tuple[int, ...]) -> None:
    assert read_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("29-20", "ranges that ascend, e.g. 20-29"),
        ("0-4,3", "each seed once; 3 is named twice"),
        ("", "a number of seeds"),
        (",", "a number of seeds"),
        ("3,", "a number of seeds"),
        ("nan", "a number of seeds"),
        ("1.5", "a number of seeds"),
        ("-3", "a number of seeds"),
        ("1-2-3", "a number of seeds"),
        ("²", "a number of seeds"),
        ("0", "at least 1"),
        (-1, "a number of seeds"),
        (MAX_SEEDS + 1, "at most"),
        (f"0-{MAX_SEEDS}", "at most"),
        ("9999999999-9999999999", "seeds up to"),
        ("1-99999999999999999999", "a number of seeds"),
    ],
)
def test_what_does_not_is_refused(text: int | str, expected: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_seeds(text, "--seeds")
    assert refused.value.field == "--seeds"
    assert expected in str(refused.value)
