"""Spans of time in explanations, as a person reads them."""

from __future__ import annotations

import pytest

from cotenant.engine.node.decision_log import _span


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0.0 s"),
        (0, "0.0 s"),
        (0.25, "0.2 s"),
        (1.5, "1.5 s"),
        (119.9, "119.9 s"),
        (120, "2 min"),
        (7199, "119 min"),
        (7200, "2 h"),
        (10_799, "2 h"),
        (86_400, "24 h"),
    ],
)
def test_spans(seconds: float, words: str) -> None:
    assert _span(int(seconds * 1_000_000)) == words
