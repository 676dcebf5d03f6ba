"""Percentages of configurations, checked once and in the same words."""

from __future__ import annotations

from cotenant.model.errors import InvalidInput


def check_percent(field: str, value: object, least: int, most: int | None = None) -> None:
    """Raises `InvalidInput` unless `value` is a whole number of percent in least..most (None = no upper end)."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        upper = "" if most is None else f" to {most}"
        raise InvalidInput(
            f"{field} percent",
            value,
            f"a whole number from {least}{upper}" if upper else f"a whole number, {least} or more",
        )
