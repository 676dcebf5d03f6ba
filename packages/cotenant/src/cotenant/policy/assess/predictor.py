"""What every predictor of use is given, and what it answers: ours and rivals' see the same.

The question of lending and of sizes is one: below which amount will use stay, but for a stated share of the time?
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from cotenant.model.arrays import Float
from cotenant.model.assess.history import Float32
from cotenant.policy.assess.rows import quantiles

DAY_S = 86_400.0


class Past(NamedTuple):
    """What is known of one resource of some series up to now: all amounts in one unit."""

    use: Float32  # [series, steps]; NaN = unknown; the last column ends now
    step_s: float
    requested: Float  # [series]; NaN = unknown
    capacity: Float  # [series]; of the node, or NaN for pods and workloads

    def until(self, step: int) -> Past:
        """What was known at this column."""
        return self._replace(use=self.use[:, :step])

    @property
    def steps_a_day(self) -> int:
        """Columns of one day."""
        return max(1, round(DAY_S / self.step_s))


class Predictor(Protocol):
    """A rule that says of each of the next `horizon` columns below which amount use will stay but for the share
    `risk` of the time.
    """

    @property
    def name(self) -> str:
        """As a table shows it."""

    def below(self, past: Past, horizon: int, risk: float) -> Float32:
        """`[series, horizon]`; NaN where the rule can say nothing."""

    def below_each(self, past: Past, origins: Sequence[int], horizon: int, risk: float) -> Iterator[Float32]:
        """What `below` would have said at each of these columns, in order."""


class OneByOne:
    """For predictors that gain nothing by answering several origins together."""

    __slots__ = ()

    def below(self, past: Past, horizon: int, risk: float) -> Float32:
        """See `Predictor`."""
        raise NotImplementedError

    def below_each(self, past: Past, origins: Sequence[int], horizon: int, risk: float) -> Iterator[Float32]:
        """See `Predictor`."""
        for origin in origins:
            yield self.below(past.until(origin), horizon, risk)


def flat(amounts: Float, horizon: int) -> Float32:
    """The same amount in every column."""
    return np.repeat(amounts.astype(np.float32)[:, None], horizon, axis=1)


@dataclass(frozen=True, slots=True)
class HeldMaximum:
    """A predictor's highest amount of the horizon, for all of it: what is decided once and then stands."""

    of: Predictor

    @property
    def name(self) -> str:
        """As a table shows it."""
        return f"{self.of.name}, held"

    def below(self, past: Past, horizon: int, risk: float) -> Float32:
        """See `Predictor`."""
        return flat(quantiles(self.of.below(past, horizon, risk), 1.0), horizon)

    def below_each(self, past: Past, origins: Sequence[int], horizon: int, risk: float) -> Iterator[Float32]:
        """See `Predictor`."""
        for said in self.of.below_each(past, origins, horizon, risk):
            yield flat(quantiles(said, 1.0), horizon)
