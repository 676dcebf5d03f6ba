"""A queue cut into runs that are judged together, and pods that must be judged by themselves.

Problem: the compiled placement takes thousands of pods in one call, but a pod with rules about others depends on who was placed right before it. Choice:
pods about which no rule is go together in one call, pods of which only their number a row counts too, and each of the others alone, on the rows
that are left to it at its turn; the order of the queue is kept. Limits: one pod with rules ends a run.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from cotenant.engine.framework.node_rules import Repeating
from cotenant.engine.state.narrowing import EVERYWHERE, Narrowing
from cotenant.model.arrays import Float, Int, Mask

_Left = TypeVar("_Left", Mask, Int)


class Preferring(Protocol):
    """Places one pod with wishes: the best of the allowed rows by the profile's score plus `wishes(rows)`."""

    def __call__(self, position: int, allowed: Mask, wishes: Callable[[Int], Float], /) -> int:
        """The row, -1 = waits; the ledger's arrays have the pod."""
        ...


def place_in_runs(
    narrowing: Narrowing,
    numbers: Int,
    compiled: Callable[[Int, Mask], Int],
    preferring: Preferring | None = None,
    repeating: Callable[[Int, Int], Int] | None = None,
) -> Int:
    """Place pods in this order; `int64` rows, -1 = waits. Those placed are seated.

    `compiled(positions, allowed)` places the pods at these positions of `numbers` on the allowed rows and returns their rows;
    `preferring` places one that has wishes. Without it, wishes are not heard. `repeating(positions, times)` places a run of pods of
    which each row takes so many; without it they are placed one by one, on the same rows.
    """
    return _Queue(narrowing, numbers, compiled, preferring, repeating).place()


class _Queue:
    """One queue on its way."""

    def __init__(
        self,
        narrowing: Narrowing,
        numbers: Int,
        compiled: Callable[[Int, Mask], Int],
        preferring: Preferring | None,
        repeating: Callable[[Int, Int], Int] | None,
    ) -> None:
        self._narrowing = narrowing
        self._numbers: list[int] = numbers.tolist()
        self._compiled = compiled
        self._preferring = preferring
        self._repeating = repeating
        self._rows: Int = np.full(len(numbers), -1, dtype=np.int64)

    def place(self) -> Int:
        """All of it."""
        start = 0
        if not self._narrowing.is_unconstrained(self._numbers):
            for position in range(len(self._numbers)):
                if position >= start:
                    start = self._place_apart(start, position)
        self._run(np.arange(start, len(self._numbers)), EVERYWHERE, self._compiled)
        return self._rows

    def _place_apart(self, start: int, position: int) -> int:
        """Place this pod, and the run from `start` that comes before it, if it cannot be part of that run; where the next run starts."""
        narrowing, number = self._narrowing, self._numbers[position]
        run = self._run_length(position) if self._repeating is not None else 0
        if self._repeating is not None and run:
            self._run(np.arange(start, position), EVERYWHERE, self._compiled)
            keepers = narrowing.repeating_rules(number) or ()
            times = np.minimum.reduce([each.times(number) for each in keepers])
            if times.any():
                self._run(np.arange(position, position + run), times, self._repeating)
            return position + run
        wishes = self._preferring is not None and narrowing.has_preferences(number)
        if not (wishes or narrowing.has_expected or narrowing.is_narrowed(number)):
            return start
        self._run(np.arange(start, position), EVERYWHERE, self._compiled)
        allowed = narrowing.allowed_with_expected(number)
        if len(allowed) and not allowed.any():
            return position + 1
        if self._preferring is not None and wishes:
            row = self._rows[position] = self._preferring(
                position, allowed, partial(narrowing.preference_score, number)
            )
            if row >= 0:
                narrowing.place(number, int(row))
        else:
            self._run(np.array([position]), allowed, self._compiled)
        return position + 1

    def _run_length(self, position: int) -> int:
        """How many pods from here on only ask how many of them a row takes, and are alike in that; 0 if this one is not such a pod."""
        first = self._alike(self._numbers[position])
        if first is None:
            return 0
        end = position + 1
        while end < len(self._numbers) and self._alike(self._numbers[end]) == first:
            end += 1
        return end - position

    def _alike(self, number: int) -> Hashable:
        narrowing = self._narrowing
        keepers: tuple[Repeating, ...] = narrowing.repeating_rules(number) or ()
        if not keepers or narrowing.has_expected or narrowing.has_rules(number) or narrowing.has_soft_terms(number):
            return None
        answers = [each.alike(number) for each in keepers]
        return None if None in answers else tuple(answers)

    def _run(self, positions: Int, allowed: _Left, compiled: Callable[[Int, _Left], Int]) -> None:
        if len(positions) == 0:
            return
        found = compiled(positions, allowed)
        self._rows[positions] = found
        placed = found >= 0
        numbers = [self._numbers[position] for position in positions[placed].tolist()]
        self._narrowing.place_all(numbers, found[placed].tolist())
