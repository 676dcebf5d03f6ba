"""Numbers that are offered again: pods that come back get their own, and later ones what they would have got."""

from __future__ import annotations

import pytest

from cotenant.engine.encoding.pod_numbers import PodNumbers
from cotenant.model.errors import Permanent


def some() -> PodNumbers:
    """Four pods, two of which left."""
    numbers = PodNumbers()
    for name in "abcd":
        numbers.add(name, 0)
    for name in "bc":
        numbers.release(numbers.remove(name))
    return numbers


def test_pods_get_the_numbers_that_are_offered_and_later_ones_those_of_before() -> None:
    mine, twin = some(), some()
    before, size = list(mine.free), len(mine)
    for name in ("x", "y", "z", "v"):  # two of them beyond those that were free
        mine.add(name, 0)
    for name in ("a", "v", "y", "d", "x", "z"):
        mine.release(mine.remove(name))
    mine.offer([3, 0], before, size)
    assert [mine.add("d", 0), mine.add("a", 0)] == [3, 0]
    assert [mine.add(f"p{i}", 0) for i in range(5)] == [twin.add(f"p{i}", 0) for i in range(5)]


def test_all_free_numbers_must_be_offered() -> None:
    numbers = some()
    with pytest.raises(Permanent, match="numbers of pods are free"):
        numbers.offer([0], list(numbers.free), len(numbers))
