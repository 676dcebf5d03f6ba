"""Which amount is written for a computed one, so that nodes are not rewritten at every measurement.

Computed amounts follow use, and each write of a node's status goes to every watcher of nodes. A smaller amount than the
one on the node is written at once, with some slack below it, so that a further small fall needs no write; a larger one
only when it exceeds the present by a band. Both are shares of the capacity.
Limits: up to slack + band of the capacity is not lent for the sake of fewer writes; bench.lending measures what that
costs.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class HysteresisBand:
    """Shares of the capacity."""

    slack: float = 0.02  # written below the computed amount
    raise_by: float = 0.06  # the least increase that is written

    def __post_init__(self) -> None:
        if not (0 <= self.slack < 1 and 0 <= self.raise_by < 1):
            raise InvalidInput("hysteresis", f"{self.slack}, {self.raise_by}", "shares from 0 to 1")


def to_write(computed: int, present: int | None, capacity: int, band: HysteresisBand) -> int:
    """The amount that should stand on the node; the present one where it may stay."""
    wanted = max(0, computed - int(band.slack * capacity))
    if present is None or computed < present:
        return wanted
    return wanted if wanted > present + band.raise_by * capacity else present
