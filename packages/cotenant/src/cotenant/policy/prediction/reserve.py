"""What must stand above the course, for one horizon: by what earlier forecasts of the same kind were off.

A forecast at the end of an hour is `highest course of the horizon + carry x (last use - its course)`. How much of a
present excess is carried on is a regression over earlier forecasts, of the series' own and of its kind's. What came
later is compared: errors have a mean and a size by the hour of the day, and in units of that size a distribution, kept
as a histogram of the series and one of its kind. The reserve is a quantile of both together. Its level is corrected by
how often earlier bounds were exceeded (adaptive conformal inference), so a stated risk is kept on average whatever the
distribution is. It is raised above the stated risk only once so many bounds were judged that some were due to be
exceeded: a first calm week gives no right to more risk in the next. With `finite_sample` the quantile is that of split
conformal prediction, which keeps a risk on average over samples of any size and says much more after few.
Source: Gibbs and Candes, "Adaptive conformal inference under distribution shift", NeurIPS 2021; Vovk, Gammerman and
Shafer, "Algorithmic Learning in a Random World", 2005.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant.model.errors import InvalidInput
from cotenant.policy.prediction.course import DAY

LOWEST, HIGHEST, BINS = -5.0, 15.0, 400
STEP = (HIGHEST - LOWEST) / BINS
_LEAST_SIZE = 1e-4  # of a series' size: an hour that never erred is not certain


@dataclass(frozen=True, slots=True)
class ReserveSettings:
    """Weights; those in samples are of forecasts."""

    keep: float = 0.5 ** (1 / 672)  # of an older forecast, by the hour: half after four weeks
    carry_prior: float = 24.0
    hour_prior: float = 8.0  # of the mean and size of all hours in those of one
    kind_weight: float = 200.0  # of the kind's errors among a series' own
    correction: float = 0.02  # step of the level, by the hour
    earned: float = 10.0  # bounds that were due to be exceeded, before a level may rise above its risk
    series_prior: float = 24.0  # forecasts of the kind in the mean and size of a series' errors
    finite_sample: bool = False  # whether the quantile is that of one error more, which is above all that were seen
    warm: float = 24.0  # forecasts of the kind that were judged, before there is a reserve

    def __post_init__(self) -> None:
        if not (0 < self.keep <= 1 and self.correction >= 0 and self.earned >= 0):
            found = f"keep {self.keep}, correction {self.correction}, earned {self.earned}"
            raise InvalidInput("reserve settings", found, "a keep above 0 and at most 1, the others at least 0")


@dataclass(frozen=True, slots=True)
class PredictedReserve:
    """For S series of K kinds, one horizon, and R risks. Arrays are not changed after construction."""

    horizon: int  # hours
    risks: tuple[float, ...]
    kinds: Int  # [S]
    sums: Float  # [S, 5]: decayed weight, d, g, d x d, d x g of excess d and what came above the course g
    kind_sums: Float  # [K, 5]
    kind_prior_sums: Float  # [K, 5]: what other clusters learned of the kind, as forecasts; 0 = nothing
    error: Float  # [S, 24, 3]: decayed weight, sum, absolute sum about the mean, by hour of the origin
    kind_error: Float  # [K, 3]: the same of all hours
    kind_prior_error: Float  # [K, 3]
    counts: Float  # [S, bins]
    kind_counts: Float  # [K, bins]
    kind_prior_counts: Float  # [K, bins]
    levels: Float  # [S, R]
    ahead: Float  # [S, H, 3]: forecasts that are not judged yet: course, excess, origin's hour of the day
    bounds: Float  # [S, H, R]: what was said then
    judged: Int  # [S, R]: bounds that were judged
    exceeded: Int  # [S, R]


def new_reserve(horizon: int, risks: tuple[float, ...], kinds: Int) -> PredictedReserve:
    """Nothing learned."""
    if horizon < 1 or not risks or not all(0 < risk < 1 for risk in risks):
        raise InvalidInput(
            "prediction", f"{horizon} h, {risks}", "a horizon of at least 1 h, and risks between 0 and 1"
        )
    series, groups, count = len(kinds), int(kinds.max(initial=-1)) + 1, len(risks)
    return PredictedReserve(
        horizon,
        risks,
        kinds,
        np.zeros((series, 5)),
        np.zeros((groups, 5)),
        np.zeros((groups, 5)),
        np.zeros((series, DAY, 3)),
        np.zeros((groups, 3)),
        np.zeros((groups, 3)),
        np.zeros((series, BINS)),
        np.zeros((groups, BINS)),
        np.zeros((groups, BINS)),
        np.tile(np.array(risks), (series, 1)),
        np.full((series, horizon, 3), np.nan),
        np.full((series, horizon, count), np.nan),
        np.zeros((series, count), np.int64),
        np.zeros((series, count), np.int64),
    )


def carry(reserve: PredictedReserve, settings: ReserveSettings) -> Float:
    """`[S]`: the share of a present excess over the course that is expected of the horizon's highest use."""
    own = _moments(reserve.sums)
    kind = _moments(reserve.kind_sums + reserve.kind_prior_sums)[reserve.kinds]
    weight = reserve.sums[:, 0]
    along = weight * own[:, 1] + settings.carry_prior * kind[:, 1]
    across = weight * own[:, 0] + settings.carry_prior * kind[:, 0]
    return np.clip(np.where(across > 1e-12, along / np.maximum(across, 1e-12), 1.0), 0.0, 1.2)


def above(reserve: PredictedReserve, hour: int, settings: ReserveSettings) -> Float:
    """`[S, R]`: what stands above course and carried excess for a forecast made in this hour of the day; NaN while the
    kind has too few judged forecasts.
    """
    mean, size = _errors(reserve, hour % DAY, settings)
    return mean[:, None] + size[:, None] * _quantiles(reserve, settings)


def judge(reserve: PredictedReserve, highest: Float, settings: ReserveSettings) -> PredictedReserve:
    """After the forecast of `horizon` hours ago: `highest` is `[S]`, the highest use since; NaN = unknown."""
    course, excess, origin = (reserve.ahead[:, 0, part] for part in range(3))
    came = highest - course
    known = ~np.isnan(came) & ~np.isnan(excess)
    if not known.any():
        return reserve
    day = int(origin[known][0])
    off = np.where(known, came - carry(reserve, settings) * excess, 0.0)
    mean, size = _errors(reserve, day, settings)
    has_mean = (reserve.error[..., 0].sum(axis=1) > 0) | (_errors_of_kinds(reserve)[:, 0] > 0)
    has_size = known & (size > _LEAST_SIZE) & has_mean
    z = np.where(has_size, (off - mean) / np.maximum(size, _LEAST_SIZE), 0.0)
    counts, kind_counts = reserve.counts * settings.keep, reserve.kind_counts * settings.keep
    bins = np.clip(((z - LOWEST) / STEP).astype(np.int64), 0, BINS - 1)
    rows = np.flatnonzero(has_size)
    counts[rows, bins[rows]] += 1.0
    np.add.at(kind_counts, (reserve.kinds[rows], bins[rows]), 1.0)
    error = reserve.error.copy()
    cell = error[:, day]
    cell[known] *= settings.keep**DAY
    cell[known, 0] += 1.0
    cell[known, 1] += off[known]
    distance = np.abs(off - np.where(has_mean, mean, off))
    cell[known, 2] += distance[known]
    kind_error = reserve.kind_error * settings.keep
    np.add.at(kind_error, reserve.kinds[known], np.stack([np.ones_like(off), off, distance], axis=1)[known])
    said = reserve.bounds[:, 0]
    was_said = known[:, None] & ~np.isnan(said)
    over = was_said & (highest[:, None] > said)
    risks = np.array(reserve.risks)
    step = settings.correction * (risks - over) * was_said
    judged = reserve.judged + was_said
    highest_level = np.where(judged * risks >= settings.earned, np.minimum(4 * risks, 0.5), risks)
    levels = np.clip(reserve.levels + step * risks / 0.05, risks / 10, highest_level)
    moved = np.stack([np.ones_like(came), excess, came, excess * excess, excess * came], axis=1)
    moved = np.where(known[:, None], moved, 0.0)
    kind_sums = reserve.kind_sums * settings.keep
    np.add.at(kind_sums, reserve.kinds, moved)
    return replace(
        reserve,
        sums=reserve.sums * settings.keep + moved,
        kind_sums=kind_sums,
        error=error,
        kind_error=kind_error,
        counts=counts,
        kind_counts=kind_counts,
        levels=levels,
        judged=judged,
        exceeded=reserve.exceeded + over,
    )


def promised(reserve: PredictedReserve, hour: int, course: Float, excess: Float, bounds: Float) -> PredictedReserve:
    """With the forecast that was made at the end of this hour, to be judged after the horizon."""
    made = np.stack([course, excess, np.full(len(course), float(hour % DAY))], axis=1)
    return replace(
        reserve,
        ahead=np.concatenate([reserve.ahead[:, 1:], made[:, None]], axis=1),
        bounds=np.concatenate([reserve.bounds[:, 1:], bounds[:, None]], axis=1),
    )


def _moments(sums: Float) -> Float:
    """Variance of the excess and its covariance with what came."""
    weight = np.maximum(sums[:, 0], 1e-9)
    mean_d, mean_g = sums[:, 1] / weight, sums[:, 2] / weight
    variance = np.maximum(0.0, sums[:, 3] / weight - mean_d * mean_d)
    return np.stack([variance, sums[:, 4] / weight - mean_d * mean_g], axis=1)


def _errors(reserve: PredictedReserve, day: int, settings: ReserveSettings) -> tuple[Float, Float]:
    """`[S]` mean and size of the errors of forecasts made in this hour of the day and its neighbours; a series that has
    just begun errs like its kind.
    """
    whole, of_kind = reserve.error.sum(axis=1), _errors_of_kinds(reserve)
    near = reserve.error[:, [(day - 1) % DAY, day, (day + 1) % DAY]].sum(axis=1)
    weight = np.minimum(settings.series_prior, of_kind[:, :1])
    of_all = (whole[:, 1:] + weight * of_kind[:, 1:] / np.maximum(of_kind[:, :1], 1e-9)) / np.maximum(
        whole[:, :1] + weight, 1e-9
    )
    prior = settings.hour_prior
    found = (near[:, 1:] + prior * of_all) / (near[:, :1] + prior)
    return found[:, 0], np.maximum(found[:, 1], _LEAST_SIZE)


def _errors_of_kinds(reserve: PredictedReserve) -> Float:
    """`[S, 3]`: of each series' kind, others' with it."""
    found: Float = (reserve.kind_error + reserve.kind_prior_error)[reserve.kinds]
    return found


def _quantiles(reserve: PredictedReserve, settings: ReserveSettings) -> Float:
    """`[S, R]`, in sizes of errors."""
    of_kinds = reserve.kind_counts + reserve.kind_prior_counts
    of_kind = of_kinds.sum(axis=1)
    weight = settings.kind_weight / np.maximum(of_kind, 1e-9)
    both = reserve.counts + (of_kinds * weight[:, None])[reserve.kinds]
    seen = reserve.counts.sum(axis=1) + np.minimum(of_kind, settings.kind_weight)[reserve.kinds]
    whole = np.cumsum(both, axis=1)
    total = whole[:, -1]
    found = np.empty((len(both), len(reserve.risks)))
    for at in range(len(reserve.risks)):
        share = 1.0 - reserve.levels[:, at]
        if settings.finite_sample:
            share = np.minimum(1.0, share * (1.0 + 1.0 / np.maximum(seen, 1.0)))
        wanted = share * total
        found[:, at] = LOWEST + STEP * (1 + (whole < wanted[:, None] * (1 - 1e-12)).sum(axis=1))
    return np.where((of_kind[reserve.kinds] >= settings.warm)[:, None], found, np.nan)
