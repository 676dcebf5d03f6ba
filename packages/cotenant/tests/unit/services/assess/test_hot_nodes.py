"""Nodes that are used nearly whole, counted by hand."""

from __future__ import annotations

from math import nan
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cotenant.model.assess.history import AssessedHistory
from cotenant.services.assess.what_ifs.outcomes import _hot

STEP_S = 3600.0
SIZE = {"a": 10_000, "b": 1_000}


def hot(use: dict[str, list[float]], source: str = "") -> tuple[float | None, str]:
    """Of nodes by their use in the last steps of an hour; `c` is no node of the copy."""
    steps = len(next(iter(use.values()), ()))
    values = np.array(list(use.values()), np.float32).reshape(len(use), steps)
    history = AssessedHistory(0.0, STEP_S, tuple(use), values, values, source)

    def node(name: str) -> object:
        return SimpleNamespace(allocatable={"cpu": SIZE[name]}) if name in SIZE else None

    copy = SimpleNamespace(engine=SimpleNamespace(node=node))
    found = _hot(cast(Any, copy), cast(Any, SimpleNamespace(nodes=history)))
    return found.value, found.why


@pytest.mark.parametrize(
    ("use", "nodes"),
    [
        ({"a": [8_000.0] * 24, "b": [801.0] * 24}, 1.0),  # 80 % itself is not above it
        ({"a": [8_001.0] * 24, "b": [801.0] * 24, "c": [9e9] * 24}, 2.0),
        ({"a": [0.0] * 23 + [10_000.0]}, 1.0),  # one step of a day is more than 1 %
        ({"a": [10_000.0] * 24 + [0.0] * 24}, 0.0),  # the day before does not count
        ({"a": [nan] * 23 + [8_001.0], "b": [nan] * 24}, 1.0),  # nor do steps of which nothing is known
    ],
)
def test_a_node_is_hot_by_the_last_day(use: dict[str, list[float]], nodes: float) -> None:
    assert hot(use) == (nodes, "")


def test_without_use_of_a_node_that_is_there_it_is_not_known() -> None:
    assert hot({"c": [1.0] * 24}, "no history was given") == (None, "no history was given")
    assert hot({"a": []}) == (None, "use of nodes is not known")
    assert hot({}) == (None, "use of nodes is not known")
