"""Values numbered in the order of their first appearance, up to a bound.

Problem: hosts, sources and peers become integers in arrays, and a sender may invent them without end. Choice: number 0 stands for `other`, which also takes what comes after
the bound, and what comes after the share of its namespace (`shares.py`). Limits: a number is never given back.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from cotenant.engine.traces.shares import Shares

T = TypeVar("T", bound=Hashable)


class BoundedTable(Generic[T]):
    """A numbering of values; `table[number]` is the value."""

    def __init__(self, other: T, most: int) -> None:
        self._room: Shares[str] = Shares(most)
        self._values = [other]
        self._numbers = {other: 0}

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, number: int) -> T:
        return self._values[number]

    def number(self, value: T, namespace: str = "") -> int:
        """The value's number; 0 where there is no room for it."""
        number = self._numbers.get(value)
        if number is None:
            if not self._room.has_room(namespace):
                return 0
            self._room.take(namespace)
            number = self._numbers[value] = len(self._values)
            self._values.append(value)
        return number
