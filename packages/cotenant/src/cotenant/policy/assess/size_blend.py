"""Our size of a workload: the mean of three sizes that err in different ways.

    size = (last day's peak + 0.95 x highest so far + highest of the day profile's amounts) / 3

The day profile alone is beyond the peak, since the highest of 288 amounts that each keep a risk keeps a smaller one;
the last day's peak is short where days differ, and the highest so far never forgets. The pinball loss is convex in the
size, so a mean of sizes loses at most the mean of their losses, and less where they err apart. The three and their
equal weights were chosen on the halves of the traces that nothing is reported of; weights by each workload's own past
losses were tried there too, and were worse: a day at 1 % has too few errors to choose by.
Limits: where every day is the same, it is a percent or two short of the peak, by its second part.
Source: Bates and Granger, "The combination of forecasts", Operational Research Quarterly 1969.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.model.assess.history import Float32
from cotenant.policy.assess.day_profile import DayProfile
from cotenant.policy.assess.predictor import Past, flat
from cotenant.policy.assess.rivals import LastDayPeak
from cotenant.policy.assess.rows import quantiles

HIGHEST_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class SizeBlend:
    """See above; where one of the three is unknown, the mean of the others."""

    name: str = "blend of sizes (ours)"

    def below(self, past: Past, horizon: int, risk: float) -> Float32:
        """See `Predictor`."""
        return next(iter(self.below_each(past, (past.use.shape[1],), horizon, risk)))

    def below_each(self, past: Past, origins: Sequence[int], horizon: int, risk: float) -> Iterator[Float32]:
        """See `Predictor`; the day profile keeps its courses from one origin to the next."""
        for origin, course in zip(origins, DayProfile().below_each(past, origins, horizon, risk), strict=True):
            before = past.until(origin)
            last = LastDayPeak().below(before, 1, risk)[:, 0].astype(np.float64)
            three = np.array([last, HIGHEST_SHARE * quantiles(before.use, 1.0), quantiles(course, 1.0)])
            known = ~np.isnan(three)
            mean = np.where(known, three, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
            yield flat(np.where(known.any(axis=0), mean, np.nan), horizon)
