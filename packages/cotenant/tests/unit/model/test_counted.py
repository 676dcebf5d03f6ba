"""A number with its noun."""

from __future__ import annotations

import pytest

from cotenant.model.counted import counted


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods"), (1000, "1,000 pods"), (-1, "-1 pods")]
)
def test_one_is_singular(number: int, words: str) -> None:
    assert counted(number, "pod") == words


def test_a_plural_of_its_own() -> None:
    assert [counted(number, "bus", "buses") for number in (1, 2)] == ["1 bus", "2 buses"]
    assert [counted(number, "pod is", "pods are") for number in (1, 2)] == ["1 pod is", "2 pods are"]
