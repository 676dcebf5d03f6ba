"""Validation of percentages in configurations."""

from __future__ import annotations

from cotenant.model.errors import InvalidInput


def check_percent(field: str, value: object, least: int, most: int | None = None) -> None:
    """Raise `InvalidInput` unless `value` is a whole number of percent in least..most (None = no upper bound)."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        upper = "" if most is None else f" to {most}"
        raise InvalidInput(
            f"{field} percent",
            value,
            f"a whole number from {least}{upper}" if upper else f"a whole number, {least} or more",
        )
