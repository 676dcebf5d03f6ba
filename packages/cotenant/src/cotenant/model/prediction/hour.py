"""One hour of all series of use, as it is stored."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.arrays import Float
from cotenant.model.errors import InvalidInput

MAX_HOURS = 28 * 24  # that are kept


@dataclass(frozen=True, slots=True)
class HourOfUse:
    """`hour`: hours since 1970, UTC. Amounts are shares of each series' size."""

    hour: int
    series: tuple[str, ...]
    kinds: tuple[str, ...]  # of the same series
    peak: Float  # highest measurement of the hour
    last: Float  # its last

    def __post_init__(self) -> None:
        if not len(self.series) == len(self.kinds) == len(self.peak) == len(self.last):
            raise InvalidInput("hour of use", len(self.series), "as many kinds, peaks and last values as series")
