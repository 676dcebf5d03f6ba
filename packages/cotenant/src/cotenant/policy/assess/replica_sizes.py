"""Below which amount the use of any replica will stay, by the rule that was right on this workload's own past.

No rule is best everywhere, so none is believed: at the end of each of the last days every candidate said a size by what
was known then, and the day that followed was held against it. The rule that is taken is the one with the smallest sizes
of those that kept the stated risk over these days together; where none kept it, or fewer than `MIN_TRIALS` days could
be tried, it is the highest value ever measured and a margin. The trial that is reported chooses for each day by the
days before it only, so it is a trial of the choice too, not of its winner in hindsight.

No size is below what kept the risk over all that was known: after a holiday the last days say that little is needed,
every rule that follows them was right so far, and the first working day would prove it wrong. Days without load give
the others no more leave to be exceeded (`bench.holiday`). A workload whose use fell for good keeps its size until the
history has forgotten the days before.

A series is the worst replica at each step, so that the size fits every replica. Values above what a node has are no
use: a counter jumped; they count as unknown.
Limits: means over a step; the days tried are few, so a risk below their number of steps cannot be told from none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant.model.assess.history import Float32
from cotenant.model.errors import InvalidInput
from cotenant.model.sizes.recommendation import SizeBackTest, SizeBasis
from cotenant.policy.assess.day_profile import DayProfile
from cotenant.policy.assess.predictor import Past, Predictor
from cotenant.policy.assess.rivals import BorgPeak, LastDayPeak, VpaHistogram
from cotenant.policy.assess.rows import quantiles
from cotenant.policy.assess.use import ranges

MIN_TRIALS = 3
MAX_TRIALS = 7
MARGIN_PCT = 15  # on the highest value, where no rule was tried
_MAX_SERIES = 2000  # predicted at a time
_SETS_IT = 0.95  # of the size: hours above it set it
_MAX_HOURS = 4  # weekdays shown
_BUSY, _QUIET = 0.75, 0.6  # a day is quiet whose highest value is below this part of that quantile of the days'
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

CANDIDATES: tuple[Predictor, ...] = (DayProfile(), BorgPeak(), VpaHistogram(), LastDayPeak())


@dataclass(frozen=True, slots=True)
class _Tried:
    """What every candidate said at the end of every tried day: `[candidates, days, series]`."""

    said: Float
    exceeded: Int
    known: Int  # [days, series]


def worst_replica(use: Float32, groups: Sequence[int], count: int) -> Float32:
    """The highest known value at each step over the rows of each group, `[count, steps]`; group -1 is left out."""
    found = np.full((count, use.shape[1]), np.nan, np.float32)
    for row, group in enumerate(groups):
        if group >= 0:
            found[group] = np.fmax(found[group], use[row])
    return found


def replica_sizes(
    past: Past, start_s: float, risk: float, margin_pct: int = MARGIN_PCT
) -> tuple[SizeBasis | None, ...]:
    """The amount of each series; None where nothing is known of it. `past.capacity`: of the largest node that a replica
    ran on, NaN = unknown.
    """
    if not 0 < risk < 1:
        raise InvalidInput("risk", risk, "between 0 and 1")
    if margin_pct < 0:
        raise InvalidInput("margin", margin_pct, "0 or more percent")
    found: list[SizeBasis | None] = []
    for begin in range(0, len(past.use), _MAX_SERIES):
        some = slice(begin, begin + _MAX_SERIES)
        part = Past(past.use[some], past.step_s, past.requested[some], past.capacity[some])
        found += _some(part, start_s, risk, margin_pct)
    return tuple(found)


def _some(past: Past, start_s: float, risk: float, margin_pct: int) -> list[SizeBasis | None]:
    with np.errstate(invalid="ignore"):
        jumped = past.use > past.capacity[:, None]
        jumped |= past.use < 0
    use = np.where(jumped, np.float32(np.nan), past.use)
    past = past._replace(use=use)
    tried = _try(past, risk)
    highest = quantiles(use, 1.0)
    days = tried.known.shape[0]
    next_day = past.steps_a_day
    now = np.array([quantiles(rule.below(past, next_day, risk), 1.0) for rule in CANDIDATES]) if days else np.empty(0)
    least = _least(use, risk, next_day)
    found: list[SizeBasis | None] = []
    for row in range(len(use)):
        if np.isnan(highest[row]):
            found.append(None)
            continue
        safe = highest[row] * (1 + margin_pct / 100)
        rule = _chosen(tried, row, days, risk)
        if rule is None or np.isnan(now[rule][row]):
            name, size = f"highest measured and {margin_pct} %", safe
        else:
            name, size = CANDIDATES[rule].name, float(now[rule][row])
            if size < least[row]:
                name, size = f"{name}, raised to what kept the risk over all days", float(least[row])
        found.append(
            SizeBasis(
                float(size),
                name,
                float(highest[row]),
                hours_that_set(use[row], start_s, past.step_s, min(size, highest[row])),
                _trial(tried, past, row, risk, margin_pct),
                int(jumped[row].sum()),
            )
        )
    return found


def _origins(past: Past) -> list[int]:
    """The first columns of the last whole days, each with a whole day before it."""
    steps, a_day = past.use.shape[1], past.steps_a_day
    return [first for first in (steps - a_day * back for back in range(MAX_TRIALS, 0, -1)) if first >= a_day]


def _least(use: Float32, risk: float, a_day: int) -> Float:
    """By series: the lowest value that is exceeded in at most a share `risk` of the known steps of busy days; NaN where
    none is known.
    """
    known = ~np.isnan(use)
    steps = _busy_steps(use, a_day)
    ordered = np.sort(np.where(known, use, np.float32(-np.inf)), axis=1)
    at = use.shape[1] - 1 - np.floor(risk * steps).astype(np.int64)
    found = ordered[np.arange(len(use)), np.maximum(at, 0)].astype(np.float64)
    return np.where(known.any(axis=1), found, np.nan)


def _busy_steps(use: Float32, a_day: int) -> Int:
    """How many known steps lie on days that are not quiet: a week of holidays, in which nothing can be exceeded, would
    allow the ordinary week beside it twice as much. Days end where the history ends.
    """
    series, steps = use.shape
    days = -(-steps // a_day)
    whole = np.full((series, days * a_day), np.nan, np.float32)
    whole[:, days * a_day - steps :] = use
    by_day = whole.reshape(series, days, a_day)
    highest = np.fmax.reduce(by_day, axis=2)
    with np.errstate(invalid="ignore"):
        quiet = highest < _QUIET * quantiles(highest, _BUSY)[:, None]
    counted: Int = np.where(quiet, 0, (~np.isnan(by_day)).sum(axis=2)).sum(axis=1)
    return counted


def _try(past: Past, risk: float) -> _Tried:
    origins, a_day = _origins(past), past.steps_a_day
    series = len(past.use)
    said = np.full((len(CANDIDATES), len(origins), series), np.nan)
    exceeded = np.zeros((len(CANDIDATES), len(origins), series), np.int64)
    known = np.zeros((len(origins), series), np.int64)
    for day, origin in enumerate(origins):
        known[day] = (~np.isnan(past.use[:, origin : origin + a_day])).sum(axis=1)
    least = [_least(past.use[:, :origin], risk, a_day) for origin in origins]
    for number, rule in enumerate(CANDIDATES if origins else ()):
        for day, below in enumerate(rule.below_each(past, origins, a_day, risk)):
            size = np.maximum(quantiles(below, 1.0), least[day])
            said[number, day] = size
            real = past.use[:, origins[day] : origins[day] + a_day]
            with np.errstate(invalid="ignore"):
                exceeded[number, day] = (real > size[:, None]).sum(axis=1)
    return _Tried(said, exceeded, known)


def _chosen(tried: _Tried, row: int, days: int, risk: float) -> int | None:
    """The rule with the smallest sizes of those that kept the risk over the first `days`; None where none did."""
    known = tried.known[:days, row]
    if (known > 0).sum() < MIN_TRIALS:
        return None
    best, best_size = None, float("inf")
    for rule in range(len(CANDIDATES)):
        said = tried.said[rule, :days, row]
        if np.isnan(said[known > 0]).any() or tried.exceeded[rule, :days, row].sum() > risk * known.sum():
            continue
        size = float(np.nanmean(said))
        if size < best_size:
            best, best_size = rule, size
    return best


def _trial(tried: _Tried, past: Past, row: int, risk: float, margin_pct: int) -> SizeBackTest:
    """Every tried day by the choice that was possible before it."""
    days = steps = exceeded = 0
    a_day = past.steps_a_day
    for day, origin in enumerate(_origins(past)):
        known = int(tried.known[day, row])
        if not known:
            continue
        rule = _chosen(tried, row, day, risk)
        if rule is not None and not np.isnan(tried.said[rule, day, row]):
            over = int(tried.exceeded[rule, day, row])
        else:
            before = past.use[row, :origin]
            if np.isnan(before).all():
                continue
            size = float(np.nanmax(before)) * (1 + margin_pct / 100)
            with np.errstate(invalid="ignore"):
                over = int((past.use[row, origin : origin + a_day] > size).sum())
        days, steps, exceeded = days + 1, steps + known, exceeded + over
    return SizeBackTest(days, steps, exceeded)


def hours_that_set(use: Float32, start_s: float, step_s: float, size: float) -> str:
    """Weekdays and hours (UTC) whose use comes within 5 % of the size, such as `Mon 9-11, Tue 9`, and when it was
    highest.
    """
    with np.errstate(invalid="ignore"):
        columns = np.flatnonzero(use >= _SETS_IT * size)
    peak = int(np.nanargmax(use))
    when = datetime.fromtimestamp(start_s + peak * step_s, UTC)
    if not len(columns):
        columns = np.array([peak])
    hours: dict[int, set[int]] = {}
    for column in columns.tolist():
        at = datetime.fromtimestamp(start_s + column * step_s, UTC)
        hours.setdefault(at.weekday(), set()).add(at.hour)
    days = sorted(hours)[:_MAX_HOURS]
    shown = ", ".join(f"{_WEEKDAYS[day]} {ranges(sorted(hours[day]))}h" for day in days)
    more = f" and {len(hours) - len(days)} more days" if len(hours) > len(days) else ""
    return f"{shown}{more} (highest {when:%Y-%m-%d %H:%M} UTC)"
