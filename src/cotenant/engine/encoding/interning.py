"""Bits for values, given back when nobody uses a value any more.

Problem: taints and selectors come and go for as long as a cluster lives, and a word has 64 bits. Choice: every use of a value is counted; the
bit of a value without uses goes to the next new value, lowest first. Limits: the owner clears what the bit meant before it reuses it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Bits(Generic[T]):
    """Which bit each value in use has, and how often it is used."""

    def __init__(self) -> None:
        self._bits: dict[T, int] = {}
        self._uses: dict[T, int] = {}
        self._free: list[int] = []
        self._next = 0

    def __len__(self) -> int:
        """How many values have a bit."""
        return len(self._bits)

    def __contains__(self, value: T) -> bool:
        return value in self._bits

    def __iter__(self) -> Iterator[tuple[T, int]]:
        return iter(self._bits.items())

    def __getitem__(self, value: T) -> int:
        return self._bits[value]

    def use(self, value: T) -> tuple[int, bool]:
        """The value's bit, and whether it is new to it. One use more."""
        bit = self._bits.get(value)
        if bit is not None:
            self._uses[value] += 1
            return bit, False
        if self._free:
            bit = heappop(self._free)
        else:
            bit = self._next
            self._next += 1
        self._bits[value], self._uses[value] = bit, 1
        return bit, True

    def drop(self, value: T) -> int | None:
        """One use less; the bit, if it was the last."""
        self._uses[value] -= 1
        if self._uses[value]:
            return None
        del self._uses[value]
        bit = self._bits.pop(value)
        heappush(self._free, bit)
        return bit
