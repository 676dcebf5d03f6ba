"""Bits for values; a bit is freed when its value is no longer used.

Taints and selectors come and go over a cluster's lifetime, and a word has 64 bits. Uses of a value are counted; the bit
of a value without uses goes to the next new value, lowest bit first.
Limits: the owner clears a freed bit in its arrays before the bit is used again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Bits(Generic[T]):
    """Maps each value in use to a bit, and counts its uses."""

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
        """Add a use of the value. Returns its bit, and whether the value had none before."""
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
        """Remove a use of the value. Returns its bit if that was the last use."""
        self._uses[value] -= 1
        if self._uses[value]:
            return None
        del self._uses[value]
        bit = self._bits.pop(value)
        heappush(self._free, bit)
        return bit
