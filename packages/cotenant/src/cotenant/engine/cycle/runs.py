"""Divides a queue into runs of pods that are placed together, and pods that are placed alone.

The compiled placement takes thousands of pods in one call, but a pod with rules about others depends on the pods placed
before it. Pods without applicable rules go together in one call, and so do pods of which only the number per row
matters; each of the others is placed alone, on the rows that are allowed at that point; the order of the queue is kept.
Limits: one pod with rules ends a run.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from cotenant.engine.framework.budget import OverBudget
from cotenant.engine.framework.node_rules import Repeating
from cotenant.engine.state.narrowing import EVERYWHERE, Narrowing
from cotenant.model.arrays import Float, Int, Mask

_Left = TypeVar("_Left", Mask, Int)


class Preferring(Protocol):
    """Places one pod with preferences: on the best of the allowed rows by the profile's score plus
    `preferences(rows)`.
    """

    def __call__(self, position: int, allowed: Mask, preferences: Callable[[Int], Float], /) -> int:
        """The row, -1 = none; the pod is added to the ledger's arrays."""
        ...


def place_in_runs(
    narrowing: Narrowing,
    numbers: Int,
    compiled: Callable[[Int, Mask], Int],
    preferring: Preferring | None = None,
    repeating: Callable[[Int, Int], Int] | None = None,
) -> Int:
    """Place pods in this order and assign them. Returns `int64` rows, -1 = none.

    `compiled(positions, allowed)` places the pods at these positions of `numbers` on the allowed rows and returns their
    rows; `preferring` places one that has preferences. Without it, preferences are ignored. `repeating(positions,
    times)` places a run of pods of which each row takes so many; without it they are placed one by one, on the same
    rows.
    """
    return _Queue(narrowing, numbers, compiled, preferring, repeating).place()


class _Queue:
    """One queue being placed."""

    def __init__(
        self,
        narrowing: Narrowing,
        numbers: Int,
        compiled: Callable[[Int, Mask], Int],
        preferring: Preferring | None,
        repeating: Callable[[Int, Int], Int] | None,
    ) -> None:
        self._narrowing = narrowing
        self._all = numbers
        self._numbers: list[int] = numbers.tolist()
        self._compiled = compiled
        self._preferring = preferring
        self._repeating = repeating
        self._rows: Int = np.full(len(numbers), -1, dtype=np.int64)

    def place(self) -> Int:
        """Place all pods."""
        start = 0
        for position in range(len(self._numbers)):
            if position >= start:
                start = self._place_apart(start, position)
        self._run(np.arange(start, len(self._numbers)), EVERYWHERE, self._compiled)
        return self._rows

    def _place_apart(self, start: int, position: int) -> int:
        """If this pod cannot be part of the run from `start`, place that run and the pod. Returns the start of the
        next run.
        """
        narrowing, number = self._narrowing, self._numbers[position]
        try:
            run = self._run_length(position) if self._repeating is not None else 0
            if self._repeating is not None and run:
                self._run(np.arange(start, position), EVERYWHERE, self._compiled)
                node_rules = narrowing.repeating_rules(number) or ()
                times = np.minimum.reduce([rule.times(number) for rule in node_rules])
                if times.any():
                    self._run(np.arange(position, position + run), times, self._repeating)
                return position + run
            preferences = self._preferring is not None and narrowing.has_preferences(number)
            if not (preferences or narrowing.has_expected or narrowing.is_narrowed(number)):
                return start
        except OverBudget:
            self._run(np.arange(start, position), EVERYWHERE, self._compiled)
            return position + 1
        self._run(np.arange(start, position), EVERYWHERE, self._compiled)
        try:
            self._place_one(position, number, preferences)
        except OverBudget:
            self._rows[position] = -1  # raised before a node is chosen
        return position + 1

    def _place_one(self, position: int, number: int, preferences: bool) -> None:
        narrowing = self._narrowing
        allowed = narrowing.allowed_with_expected(number)
        if len(allowed) and not allowed.any():
            return
        if self._preferring is not None and preferences:
            row = self._rows[position] = self._preferring(
                position, allowed, partial(narrowing.preference_score, number)
            )
            if row >= 0:
                narrowing.place(number, int(row))
        else:
            self._run(np.array([position]), allowed, self._compiled)

    def _run_length(self, position: int) -> int:
        """The number of equal pods from here on that need only a number of pods per row; 0 if this pod is not of
        that kind.
        """
        first = self._alike(self._numbers[position])
        if first is None:
            return 0
        end = position + 1
        while end < len(self._numbers) and self._alike(self._numbers[end]) == first:
            end += 1
        return end - position

    def _alike(self, number: int) -> Hashable:
        narrowing = self._narrowing
        node_rules: tuple[Repeating, ...] = narrowing.repeating_rules(number) or ()
        if not node_rules or narrowing.has_expected or narrowing.has_rules(number) or narrowing.has_soft_terms(number):
            return None
        answers = [rule.alike(number) for rule in node_rules]
        return None if None in answers else tuple(answers)

    def _run(self, positions: Int, allowed: _Left, compiled: Callable[[Int, _Left], Int]) -> None:
        if len(positions) == 0:
            return
        found = compiled(positions, allowed)
        self._rows[positions] = found
        placed = found >= 0
        self._narrowing.place_all(self._all[positions[placed]].tolist(), found[placed].tolist())
