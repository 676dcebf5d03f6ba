"""Values numbered in the order of their first appearance, up to a bound.

Hosts, sources and peers become integers in arrays, a sender may invent them without end, and pods come and go for
weeks. Number 0 stands for `other`, which also takes what comes after the bound, and what comes after the share of its
holder (`shares.py`); a part is reserved for proven holders. Where there is no room, values that were not used for
`IDLE_S` give their numbers back: nothing that has such a number is held for so long.
Limits: a value is reckoned to the holder that brought it first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Set
from dataclasses import dataclass
from typing import Generic, TypeVar

from cotenant.engine.traces.shares import HolderShares

IDLE_S = 3600.0
SWEEP_S = 60.0  # between two looks for idle values

T = TypeVar("T", bound=Hashable)


@dataclass(slots=True)
class _Held:
    number: int
    holder: str
    used_s: float


class BoundedTable(Generic[T]):
    """A numbering of values; `table[number]` is the value. Times are of any clock."""

    def __init__(self, other: T, most: int, freed: Callable[[Set[int]], None] = lambda numbers: None) -> None:
        """`freed` is called with numbers that will mean something else."""
        self._room: HolderShares[str] = HolderShares(most)
        self._other, self._freed = other, freed
        self._values = [other]
        self._held: dict[T, _Held] = {}
        self._free: list[int] = []
        self._swept_s = float("-inf")

    def __len__(self) -> int:
        """With `other`."""
        return len(self._held) + 1

    def __getitem__(self, number: int) -> T:
        return self._values[number]

    def number(self, value: T, holder: str = "", now_s: float = 0.0, *, is_proven: bool = True) -> int:
        """The value's number; 0 where there is no room for it."""
        held = self._held.get(value)
        if held is not None:
            held.used_s = now_s
            return held.number
        if value == self._other or not (
            self._room.has_room(holder, is_proven=is_proven) or self._sweep(holder, is_proven, now_s)
        ):
            return 0
        self._room.take(holder)
        if self._free:
            number = self._free.pop()
            self._values[number] = value
        else:
            number = len(self._values)
            self._values.append(value)
        self._held[value] = _Held(number, holder, now_s)
        return number

    def _sweep(self, holder: str, is_proven: bool, now_s: float) -> bool:
        """Take the numbers of idle values back; whether there is room then."""
        if abs(now_s - self._swept_s) < SWEEP_S:
            return False
        self._swept_s = now_s
        idle = [value for value, held in self._held.items() if now_s - held.used_s > IDLE_S]
        for value in idle:
            held = self._held.pop(value)
            self._room.give_back(held.holder)
            self._values[held.number] = self._other
            self._free.append(held.number)
        if idle:
            self._freed(frozenset(self._free))
        return self._room.has_room(holder, is_proven=is_proven)
