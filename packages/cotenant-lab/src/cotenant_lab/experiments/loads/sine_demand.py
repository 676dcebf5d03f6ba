"""A sinusoidal demand for CPU, known exactly for any stretch of time.

Delivered CPU is read from a counter at instants that are never exact; the demand must be known for just that stretch.
The integral in closed form.
Limits: one CPU, so shares are between 0 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi

from cotenant.model.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class SineDemand:
    """From `low` to `high` of a CPU with the period `period_s`, beginning at the mean and rising."""

    low: float = 0.10
    high: float = 0.70
    period_s: float = 20.0

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 1:
            raise InvalidInput("sine", f"{self.low:g} to {self.high:g}", "shares of a CPU, 0 <= low < high <= 1")
        if self.period_s <= 0:
            raise InvalidInput("period", self.period_s, "above 0 seconds")

    def work_s(self, until_s: float) -> float:
        """CPU seconds demanded from 0 to `until_s`."""
        mean, swing = (self.low + self.high) / 2, (self.high - self.low) / 2
        turn = 2 * pi / self.period_s
        return mean * until_s + swing * (1 - cos(turn * until_s)) / turn
