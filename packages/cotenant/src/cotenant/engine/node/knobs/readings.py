"""The current values of the knobs that policies read: which to read next, and what was last read or confirmed.

Policies compare current with desired values, for some knobs of every group, and reading them all each second would cost
more than the policies. A value is trusted for a while, ours from the keeper's answer; unknown values are read at once,
old ones a few at a time, oldest first.
Limits: a foreign write is seen when its knob is read again, or when the keeper finds it at the next renewal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from cotenant.model.machine.knob import KnobTarget

_MIN_A_TICK = 8


class KnobReadings:
    """Values of the knobs that policies read."""

    def __init__(self, age_us: int, period_us: int) -> None:
        self._age_us = age_us
        self._period_us = period_us
        self._targets: dict[KnobTarget, int | None] = {}  # when it was last read or confirmed; None = never
        self._values: dict[KnobTarget, str] = {}
        self._confirmed: dict[KnobTarget, str] = {}  # of all knobs that the keeper holds, read or not
        self._view: Mapping[KnobTarget, str] | None = None

    def __len__(self) -> int:
        return len(self._targets)

    def track(self, targets: set[KnobTarget]) -> None:
        """Track these knobs, and only these."""
        self._targets = {target: self._targets.get(target) for target in sorted(targets, key=_place)}
        self._values = {target: value for target, value in self._values.items() if target in self._targets}
        self._view = None

    def due(self, now_us: int) -> tuple[KnobTarget, ...]:
        """What to read before the next sample, sorted."""
        unknown = [target for target, at in self._targets.items() if at is None]
        old = [(at, target) for target, at in self._targets.items() if at is not None and now_us - at >= self._age_us]
        few = max(_MIN_A_TICK, -(-2 * len(self._targets) * self._period_us // self._age_us))
        old.sort(key=lambda entry: (entry[0], _place(entry[1])))
        return tuple(sorted((*unknown, *(target for _, target in old[:few])), key=_place))

    def read(self, asked: tuple[KnobTarget, ...], knobs: Mapping[KnobTarget, str], now_us: int) -> None:
        """Take in the result of reading `asked`; targets missing in `knobs` could not be read and are unknown.
        Further targets in `knobs` are taken too.
        """
        for target in asked:
            if target in self._targets:
                self._targets[target] = now_us
                if target not in knobs and self._values.pop(target, None) is not None:
                    self._view = None
        for target, value in knobs.items():
            self._set(target, value, now_us)

    def confirmed(self, target: KnobTarget, value: str, now_us: int) -> None:
        """The keeper confirmed this value."""
        self._confirmed[target] = value
        self._set(target, value, now_us)

    def forget(self, target: KnobTarget) -> None:
        """It changed to an unknown value: read it again."""
        self._confirmed.pop(target, None)
        if target in self._targets:
            self._targets[target] = None
            if self._values.pop(target, None) is not None:
                self._view = None

    def forget_groups(self, groups: frozenset[str], now_us: int) -> None:
        """These groups are new: values read just now are theirs, all others are read again."""
        for target, at in self._targets.items():
            if target.group in groups and (at != now_us or target not in self._values):
                self.forget(target)

    def _set(self, target: KnobTarget, value: str, now_us: int) -> None:
        if target in self._targets:
            self._targets[target] = now_us
            if self._values.get(target) != value:
                self._values[target] = value
                self._view = None

    def stands(self, targets: Iterable[KnobTarget]) -> Mapping[KnobTarget, str]:
        """What stands of these knobs as far as it is known: as read, else as the keeper confirmed it."""
        known = ((target, self._values.get(target) or self._confirmed.get(target)) for target in targets)
        return {target: value for target, value in known if value is not None}

    def values(self) -> Mapping[KnobTarget, str]:
        """All known values, as an immutable mapping."""
        if self._view is None:
            self._view = MappingProxyType({target: self._values[target] for target in sorted(self._values, key=_place)})
        return self._view


def _place(target: KnobTarget) -> tuple[str, str]:
    return target.group, target.knob
