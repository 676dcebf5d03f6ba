"""How many replicas a service will want, as a normal distribution some steps ahead: its day, and how today departs.

The mean is what was wanted at that time of earlier days, plus today's departure from it, which fades as departures of
earlier steps did. The deviation is that of the forecasts that were made so many steps ahead and have come true.
Limits: linear; days are alike but for their level; with less than a day of history the latest value stands for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import NormalDist

STEP_S = 600.0  # between measurements
_LEAST_SD = 0.25  # a count that never departed from its day may yet do so


@dataclass(slots=True)
class DemandForecast:
    """One service's history, a value a step of ten minutes."""

    day_s: float
    _at: list[int] = field(default_factory=list)  # steps, from any origin
    _wanted: dict[int, int] = field(default_factory=dict)
    _errors: dict[int, list[float]] = field(default_factory=dict)  # by steps ahead
    _pending: dict[tuple[int, int], float] = field(default_factory=dict)  # (step, steps ahead) -> forecast

    def seen(self, now_s: float, wanted: int, ahead: int) -> None:
        """One more value, and what it says of the forecasts for it. Forecasts go `ahead` steps."""
        step = round(now_s / STEP_S)
        self._at.append(step)
        self._wanted[step] = wanted
        for steps in range(1, ahead + 1):
            made = self._pending.pop((step, steps), None)
            if made is not None:
                self._errors.setdefault(steps, []).append(wanted - made)
        if self._day_before(step) is not None:
            for steps in range(1, ahead + 1):
                self._pending[step + steps, steps] = self._mean(steps)

    def quantile(self, steps: int, rate: float) -> float:
        """What will be wanted at most so many steps ahead, with probability `rate`."""
        errors = self._errors.get(steps, [])
        deviation = max(_LEAST_SD, sqrt(sum(error * error for error in errors) / len(errors))) if errors else _LEAST_SD
        return self._mean(steps) + NormalDist().inv_cdf(rate) * deviation

    def _mean(self, steps: int) -> float:
        now = self._at[-1]
        then, usual = self._day_before(now + steps), self._day_before(now)
        if then is None or usual is None:
            return float(self._wanted[now])
        return then + self._fading(steps) * (self._wanted[now] - usual)

    def _day_before(self, step: int) -> float | None:
        """The mean of earlier days at that time."""
        day = round(self.day_s / STEP_S)
        known = [self._wanted[back] for back in range(step - day, self._at[0] - 1, -day) if back in self._wanted]
        return sum(known) / len(known) if known else None

    def _fading(self, steps: int) -> float:
        """What is left of a departure after so many steps: the regression of departures on earlier ones, 0 to 1."""
        known = {step: self._day_before(step) for step in self._at}
        departures = {step: self._wanted[step] - usual for step, usual in known.items() if usual is not None}
        pairs = [(departures[step], after) for step in departures if (after := departures.get(step + 1)) is not None]
        return min(1.0, max(0.0, _slope(pairs))) ** steps


def _slope(pairs: Sequence[tuple[float, float]]) -> float:
    square = sum(first * first for first, _ in pairs)
    return sum(first * second for first, second in pairs) / square if square else 0.0
