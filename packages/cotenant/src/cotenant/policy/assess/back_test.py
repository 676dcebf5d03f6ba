"""Predictors tried on the past: from the first part of a history they predict the rest, and what they said is compared
with what was.

At each origin (every six hours from the first third of the history on) a predictor sees what was known then, and says
below which amount each node's use will stay in the next day but for the stated risk; the rest of the capacity could
have been lent. Figures, over all nodes and origins:

    realised risk   share of node-steps in which use was above what was said
    pinball loss    mean of risk x (said - used) where use stayed below, of (1 - risk) x (used - said) where it did not;
                    percent of the capacity; the less the better, and least for the true quantile
    lent            mean of what could have been lent, percent of the capacity
    squeezed        share of the lent amount that was not there, because use and it exceeded the capacity
    error           how far the lent amounts of all nodes were from those that would have met the risk exactly: the same
                    course by time of day, moved by each node's own (1 - risk) quantile of the miss; percent of the
                    latter, mean of the absolute value over origins

Limits: all that is lent counts as used, so `squeezed` is an upper bound; use within a step is not seen; nodes without
known use or capacity are left out and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np

from cotenant.model.arrays import Float, Mask
from cotenant.model.assess.history import AssessedHistory, Float32
from cotenant.model.errors import InvalidInput
from cotenant.policy.assess.day_profile import DayProfile
from cotenant.policy.assess.predictor import DAY_S, Past, Predictor
from cotenant.policy.assess.rivals import RIVALS
from cotenant.policy.assess.rows import quantiles

MIN_KNOWN = 0.5  # of a node's steps within the horizon, for it to be judged there


@dataclass(frozen=True, slots=True)
class BackTestOutcome:
    """What came of one origin's predictions."""

    at_s: float  # the origin; the horizon begins here
    horizon_s: float
    judged: int  # nodes
    steps: int  # node-steps with known use
    exceeded: int  # of those, above what was said
    lent: float  # sum over node-steps, in units of the resource
    squeezed: float  # of that, not there
    in_hindsight: float  # what would have met the risk exactly
    capacity: float
    pinball: float  # sum over node-steps, each a share of its capacity


@dataclass(frozen=True, slots=True)
class PredictorScore:
    """A predictor's figures over all origins, percent; see above. `risk_low` and `risk_high`: 95 % of the realised
    risk by the spread of its days, which is wide where days are few; NaN for fewer than two.
    """

    name: str
    risk_pct: float
    risk_low_pct: float
    risk_high_pct: float
    pinball_pct: float
    lent_pct: float
    squeezed_pct: float
    error_pct: float
    outcomes: tuple[BackTestOutcome, ...]


@dataclass(frozen=True, slots=True)
class BackTest:
    """All predictors on one history; `scores[0]` is ours."""

    stated_risk: float
    scores: tuple[PredictorScore, ...]
    left_out: int  # nodes without use or capacity
    verdict: str

    @property
    def best_rival(self) -> PredictorScore | None:
        """The rival with the least pinball loss."""
        return _best(self.scores[1:])


def past_of(history: AssessedHistory, resource: str, requested: Float, capacity: Float) -> Past:
    """One resource (`cpu` or `memory`) of a history, with requests and capacities in its unit, one a series."""
    if resource not in ("cpu", "memory"):
        raise InvalidInput("resource", resource, "cpu or memory")
    use = history.cpu_m if resource == "cpu" else history.memory_mib
    for name, values in (("requested", requested), ("capacity", capacity)):
        if len(values) != len(use):
            raise InvalidInput(name, len(values), f"one for each of {len(use)} series")
    return Past(use, history.step_s, requested.astype(np.float64), capacity.astype(np.float64))


def origins_of(past: Past, horizon: int, every_s: float = 6 * 3600.0, first_share: float = 1 / 3) -> tuple[int, ...]:
    """Columns at which predictions are made: each has a whole horizon ahead. Empty where the history is too short."""
    steps = past.use.shape[1]
    every = max(1, round(every_s / past.step_s))
    first = max(1, -(-round(steps * first_share) // every) * every)
    return tuple(range(first, steps - horizon + 1, every))


def outcome(past: Past, said: Float32, origin: int, start_s: float, risk: float) -> BackTestOutcome:
    """What came of `said`, `[series, horizon]` in the resource's unit, from column `origin` on."""
    real = past.use[:, origin : origin + said.shape[1]].astype(np.float64)
    said = said[:, : real.shape[1]].astype(np.float64)
    known = ~np.isnan(real) & ~np.isnan(said)
    kept = (known.mean(axis=1) >= MIN_KNOWN) & _usable(past.capacity)
    real, said, known, capacity = real[kept], said[kept], known[kept], past.capacity[kept, None]
    miss = np.where(known, real - said, np.nan)
    lent = np.where(known, np.clip(capacity - said, 0.0, capacity), 0.0)
    short = np.where(known, np.clip(real + lent - capacity, 0.0, lent), 0.0)
    moved = said + quantiles(miss.astype(np.float32), 1.0 - risk)[:, None]
    hindsight = np.where(known, np.clip(capacity - moved, 0.0, capacity), 0.0)
    loss = np.where(miss > 0, (1.0 - risk) * miss, -risk * miss) / capacity
    return BackTestOutcome(
        at_s=start_s + origin * past.step_s,
        horizon_s=said.shape[1] * past.step_s,
        judged=int(kept.sum()),
        steps=int(known.sum()),
        exceeded=int((known & (miss > 0)).sum()),
        lent=float(lent.sum()),
        squeezed=float(short.sum()),
        in_hindsight=float(hindsight.sum()),
        capacity=float(np.where(known, capacity, 0.0).sum()),
        pinball=float(np.nansum(loss)),
    )


def score(name: str, outcomes: Sequence[BackTestOutcome]) -> PredictorScore:
    """A predictor's figures over all origins."""
    judged = [found for found in outcomes if found.steps]
    if not judged:
        nan = float("nan")
        return PredictorScore(name, nan, nan, nan, nan, nan, nan, nan, ())
    steps = sum(found.steps for found in judged)
    lent, capacity = sum(found.lent for found in judged), sum(found.capacity for found in judged)
    risk = sum(found.exceeded for found in judged) / steps
    spread = _spread(judged)
    errors = [abs(found.lent - found.in_hindsight) / found.in_hindsight for found in judged if found.in_hindsight > 0]
    return PredictorScore(
        name,
        100 * risk,
        100 * max(0.0, risk - spread),
        100 * (risk + spread),
        100 * sum(found.pinball for found in judged) / steps,
        100 * lent / capacity,
        100 * sum(found.squeezed for found in judged) / lent if lent > 0 else 0.0,
        100 * float(np.mean(errors)) if errors else float("nan"),
        tuple(judged),
    )


def back_test(
    past: Past,
    start_s: float,
    *,
    risk: float = 0.01,
    horizon_s: float = DAY_S,
    ours: Predictor | None = None,
    rivals: Sequence[Predictor] = RIVALS,
    every_s: float = 6 * 3600.0,
    first_share: float = 1 / 3,
) -> BackTest:
    """Try all predictors. A history shorter than three times the horizon is tried on a third of itself at a time;
    the first origin is after `first_share` of it.
    """
    if not 0 < risk < 1:
        raise InvalidInput("risk", risk, "between 0 and 1")
    steps = past.use.shape[1]
    horizon = max(1, min(round(horizon_s / past.step_s), steps // 3))
    origins = origins_of(past, horizon, min(every_s, horizon * past.step_s / 2), first_share)
    predictors = (ours or DayProfile(), *rivals)
    usable = _usable(past.capacity) & ~np.isnan(past.use).all(axis=1)
    scores = tuple(
        score(
            predictor.name,
            [
                outcome(past, said, origin, start_s, risk)
                for origin, said in zip(origins, predictor.below_each(past, origins, horizon, risk), strict=True)
            ],
        )
        for predictor in predictors
    )
    return BackTest(risk, scores, int((~usable).sum()), verdict_of(risk, scores))


def verdict_of(risk: float, scores: Sequence[PredictorScore]) -> str:
    """One sentence: whether the stated risk was kept, and whether ours was better than the best rival."""
    ours, best = scores[0], _best(scores[1:])
    if isnan(ours.risk_pct):
        return "The history is too short for a back-test: nothing is known of how good the predictions are."
    stated = 100 * risk
    kept = f"Use was above what was predicted in {ours.risk_pct:.2g} % of the time, at a stated risk of {stated:g} %"
    if best is None:
        return f"{kept}; there is no rival to compare with."
    loss = f"pinball loss {ours.pinball_pct:.3g} against {best.pinball_pct:.3g} % of the capacity"
    if ours.pinball_pct < best.pinball_pct:
        return f"{kept}; ours was better than the best rival, {best.name} ({loss})."
    return f"{kept}; ours was not better than the best rival, {best.name} ({loss})."


def _best(rivals: Sequence[PredictorScore]) -> PredictorScore | None:
    judged = [rival for rival in rivals if not isnan(rival.pinball_pct)]
    return min(judged, key=lambda rival: rival.pinball_pct, default=None)


def _spread(outcomes: Sequence[BackTestOutcome]) -> float:
    """Half of the 95 % interval of the risk: origins that share part of their horizon count as one day."""
    by_day: dict[int, tuple[int, int]] = {}
    for found in outcomes:
        day = int((found.at_s - outcomes[0].at_s) // max(found.horizon_s, 1.0))
        exceeded, steps = by_day.get(day, (0, 0))
        by_day[day] = (exceeded + found.exceeded, steps + found.steps)
    shares = np.array([exceeded / steps for exceeded, steps in by_day.values()])
    return 1.96 * float(shares.std(ddof=1)) / len(shares) ** 0.5 if len(shares) > 1 else float("nan")


def _usable(capacity: Float) -> Mask:
    return np.asarray(np.isfinite(capacity) & (capacity > 0))
