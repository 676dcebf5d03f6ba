"""A figure of a report: a number with its unit, its definition and its interval, or why there is none.

A number without a definition starts an argument, one without an interval hides how little is known. So a figure cannot
be made without both; where a count has no interval, it says that it is a count.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from cotenant.model.errors import InvalidInput

COUNTED = "counted at the moment of the copy: there is no interval"


@dataclass(frozen=True, slots=True)
class AssessedFigure:
    """One number. `interval` says what `low` to `high` is, or why it is not given; `why` why there is no value."""

    key: str
    title: str
    value: float | None
    unit: str
    definition: str
    interval: str
    low: float | None = None
    high: float | None = None
    why: str = ""

    def __post_init__(self) -> None:
        if (self.value is None) != bool(self.why):
            raise InvalidInput(f"figure {self.key}", self.value, "a value, or the sentence why there is none")
        if not (self.definition and self.interval):
            raise InvalidInput(f"figure {self.key}", "", "a definition and what is known of its interval")
        for number in (self.value, self.low, self.high):
            if number is not None and not isfinite(number):
                raise InvalidInput(f"figure {self.key}", number, "a finite number")


def counted(key: str, title: str, value: float, unit: str, definition: str) -> AssessedFigure:
    """What was counted or summed, and not measured."""
    return AssessedFigure(key, title, value, unit, definition, COUNTED)


def unknown(key: str, title: str, unit: str, definition: str, why: str) -> AssessedFigure:
    """A figure that cannot be given."""
    return AssessedFigure(key, title, None, unit, definition, "none, as there is no value", why=why)
