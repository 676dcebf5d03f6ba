"""Sizes tried on the past: what a workload would have been given by what was known, against what the day after needed.

A size is one amount for the whole horizon: the highest of what a predictor says that use stays below. It is compared
with the real peak, the (1 - risk) quantile of the workload's use in the horizon:

    short    share of workloads whose use was above the size for longer than the stated risk
    over     what sizes have beyond real peaks, where they do, percent of the sum of peaks
    error    |sum of sizes - sum of peaks|, percent of the latter
    pinball  mean loss of the size as that quantile, each workload in units of its own mean use, percent

At several origins each workload counts once an origin. One day says little: what wins on it may be luck.
Limits: means over a step, so a size for bursts within a step needs another source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np

from cotenant.model.arrays import Float
from cotenant.model.assess.history import Float32
from cotenant.model.counted import counted
from cotenant.model.errors import InvalidInput
from cotenant.policy.assess.predictor import DAY_S, Past, Predictor
from cotenant.policy.assess.rivals import RIVALS
from cotenant.policy.assess.rows import means, quantiles
from cotenant.policy.assess.size_blend import SizeBlend

_MAX_SERIES = 4000  # predicted at a time: what is kept of earlier errors is many times the history
MIN_KNOWN = 0.5  # of a series' steps in both parts


@dataclass(frozen=True, slots=True)
class SizeScore:
    """A predictor's figures, percent; NaN where nothing could be judged."""

    name: str
    judged: int
    short_pct: float
    over_pct: float
    error_pct: float
    pinball_pct: float


@dataclass(frozen=True, slots=True)
class SizeTest:
    """All predictors on one history; `scores[0]` is ours."""

    stated_risk: float
    scores: tuple[SizeScore, ...]
    verdict: str


def sizes(past: Past, risk: float, horizon: int, predictor: Predictor | None = None) -> Float:
    """The size of each series for the next `horizon` columns; NaN where nothing is known."""
    found = np.full(len(past.use), np.nan)
    for begin in range(0, len(past.use), _MAX_SERIES):
        some = slice(begin, begin + _MAX_SERIES)
        part = Past(past.use[some], past.step_s, past.requested[some], past.capacity[some])
        found[some] = quantiles((predictor or SizeBlend()).below(part, horizon, risk), 1.0)
    return found


def size_test(
    past: Past,
    *,
    risk: float = 0.01,
    horizon_s: float = DAY_S,
    ours: Predictor | None = None,
    rivals: Sequence[Predictor] = RIVALS,
    origins: Sequence[int] = (),
) -> SizeTest:
    """Sizes by what is known at each of these columns; by default once, before the last horizon, or before the last
    third of a short history.
    """
    if not 0 < risk < 1:
        raise InvalidInput("risk", risk, "between 0 and 1")
    steps = past.use.shape[1]
    horizon = max(1, min(round(horizon_s / past.step_s), steps // 3))
    at = [origin for origin in origins if 0 < origin <= steps - horizon] if origins else [steps - horizon]
    scores = tuple(_over(predictor, past, at, horizon, risk) for predictor in (ours or SizeBlend(), *rivals))
    return SizeTest(risk, scores, _verdict(risk, scores, len(at)))


def _over(predictor: Predictor, past: Past, origins: Sequence[int], horizon: int, risk: float) -> SizeScore:
    known, real, size = [], [], []
    for origin in origins:
        before = past.until(origin)
        known.append(_known(before.use))
        real.append(past.use[:, origin : origin + horizon])
        size.append(sizes(before, risk, horizon, predictor))
    if not origins:
        nan = float("nan")
        return SizeScore(predictor.name, 0, nan, nan, nan, nan)
    return _score(predictor.name, np.concatenate(known), np.concatenate(real), np.concatenate(size), risk)


def _score(name: str, known_before: Float, real: Float32, size: Float, risk: float) -> SizeScore:
    kept = ~np.isnan(size) & (known_before >= MIN_KNOWN) & (_known(real) >= MIN_KNOWN)
    size, real = size[kept], real[kept]
    peak, mean = quantiles(real, 1.0 - risk), means(real)
    if not len(size) or peak.sum() <= 0:
        nan = float("nan")
        return SizeScore(name, len(size), nan, nan, nan, nan)
    miss = real - size[:, None]
    loss = np.nanmean(np.where(miss > 0, (1.0 - risk) * miss, -risk * miss), axis=1)
    return SizeScore(
        name,
        len(size),
        100 * float((peak > size).mean()),
        100 * float(np.maximum(0.0, size - peak).sum() / peak.sum()),
        100 * float(abs(size.sum() - peak.sum()) / peak.sum()),
        100 * float(np.mean(loss[mean > 0] / mean[mean > 0])) if (mean > 0).any() else 0.0,
    )


def _verdict(risk: float, scores: Sequence[SizeScore], origins: int) -> str:
    ours = scores[0]
    rivals = [rival for rival in scores[1:] if not isnan(rival.pinball_pct)]
    if isnan(ours.pinball_pct):
        return "The history is too short to try sizes: nothing is known of how good they are."
    said = (
        f"Of {counted(ours.judged, 'size')}, worked out at {counted(origins, 'time')} of the history, "
        f"{ours.short_pct:.2g} % would have been too small for more than {100 * risk:g} % of the day after, and sizes "
        f"would have been {ours.over_pct:.2g} % beyond the peaks"
    )
    if not rivals:
        return f"{said}; there is no rival to compare with."
    best = min(rivals, key=lambda rival: rival.pinball_pct)
    word = "better" if ours.pinball_pct < best.pinball_pct else "not better"
    losses = f"loss {ours.pinball_pct:.3g} against {best.pinball_pct:.3g}"
    return f"{said}; ours was {word} than the best rival, {best.name} ({losses})."


def _known(values: Float32) -> Float:
    return (~np.isnan(values)).mean(axis=1) if values.shape[1] else np.zeros(len(values))
