"""Selectors of devices, as the engine is given them: an evaluator of expressions is no part of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from cotenant.model.claims.devices import OfferedDevice
from cotenant.model.errors import InvalidInput


class Selectors(Protocol):
    """Evaluates expressions, each result once."""

    @property
    def spent(self) -> int:
        """Steps that evaluations, and reading their expressions, have cost so far."""
        ...

    def matches(self, expression: str, driver: str, device: OfferedDevice) -> bool:
        """Whether a device of a driver is selected. Raises `InvalidInput` where the expression has no answer."""
        ...


@dataclass(frozen=True)
class NoSelectors:
    """Where nothing evaluates expressions: claims without selectors work."""

    spent: ClassVar[int] = 0

    def matches(self, expression: str, driver: str, device: OfferedDevice) -> bool:
        """Raises `InvalidInput`."""
        raise InvalidInput("selector", expression, "no selector", "nothing here evaluates CEL")
