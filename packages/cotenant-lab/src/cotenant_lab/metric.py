"""What a figure of the lab is: its unit, which direction is better and what determines it; and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, isnan, log10
from typing import Literal

Unit = Literal["fraction", "index", "ratio", "seconds", "microseconds", "count"]
Better = Literal["higher", "lower", "neither"]
Owner = Literal["policy", "load", "trace", "machine"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One field of `Measures`. `owner`: what determines the figure; "load" and "trace" figures do not rank policies.

    `subject`: what one value of its distribution belongs to, where the distribution is plotted.
    """

    name: str
    title: str
    short: str  # column heading, at most 11 characters
    unit: Unit
    better: Better
    owner: Owner
    definition: str
    subject: str = ""

    @property
    def ranks(self) -> bool:
        """Whether a better figure is a merit of the policy."""
        return self.better != "neither" and self.owner == "policy"

    @property
    def scale(self) -> float:
        """The factor for display: fractions are shown in percent."""
        return 100.0 if self.unit == "fraction" else 1.0

    @property
    def suffix(self) -> str:
        """The unit as shown in a heading."""
        return {"fraction": "%", "index": "", "ratio": "x", "seconds": "s", "microseconds": "us", "count": ""}[
            self.unit
        ]


OWNER_WORDS: dict[Owner, str] = {
    "policy": "the policy's",
    "load": "follows from the load",
    "trace": "the trace's",
    "machine": "of code and machine",
}


def decimals(metric: Metric, half_width: float) -> int:
    """Number of decimals to show: two digits of the interval's half width, within the unit's usual range.

    `half_width` is in the unit of the value as stored (fractions 0..1); NaN or 0 gives the unit's usual number.
    """
    usual = {"fraction": 2, "index": 3, "ratio": 2, "seconds": 1, "microseconds": 1, "count": 1}[metric.unit]
    least = {"fraction": 2, "index": 3, "ratio": 2, "seconds": 0, "microseconds": 0, "count": 0}[metric.unit]
    shown = half_width * metric.scale
    if isnan(shown) or shown <= 0:
        return usual
    return max(least, min(usual, 1 - int(log10(shown) // 1)))


def show(metric: Metric, value: float, half_width: float = float("nan"), places: int | None = None) -> str:
    """A value and its interval as text, without the unit: `99.98 ±0.01`, `–` where not defined."""
    if not isfinite(value):
        return "–" if isnan(value) else "∞"
    digits = decimals(metric, half_width) if places is None else places
    text = f"{value * metric.scale:,.{digits}f}"
    if text.startswith("-") and not text.strip("-0.,"):
        text = text[1:]  # no minus before a zero
    if not isfinite(half_width):
        return text
    return f"{text} ±{half_width * metric.scale:,.{digits}f}"
