"""Burn rates of an objective's error budget, the alerts over two windows, and its state.

One threshold on the error ratio either misses a slow loss or fires on every short one. The multi-window alerts of the
SRE workbook: a rule names the share of the budget that may be used up within its long window; the factor follows, share
x period / long window, and both the long and the short window must exceed it, the short one with enough requests.
Windows are those of 30 days; a period below seven days scales them, down to one slot of the counts. Without requests
there is no burn rate, and no data is a state of its own.
Limits: requests are judged, not time slices; a factor above 1 / (1 - target) cannot be reached.

Source: B. Beyer et al., The Site Reliability Workbook, chapter 5, table 5-8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cotenant.model.traces.objective import AlertSeverity, ObjectiveState, ServiceObjective

SLOT_S = 10  # the finest counts
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_SCALED_BELOW_S = 7 * _DAY_S
_PERIOD_S = 30 * _DAY_S  # of the tables that the windows are from


@dataclass(frozen=True, slots=True)
class CountedRequests:
    """Requests of a window."""

    requests: int
    bad: int


@dataclass(frozen=True, slots=True)
class BurnRule:
    """An alert: `share` of the budget within `long_s` fires it. `factor` is the burn rate that this is."""

    severity: AlertSeverity
    share: float
    long_s: int
    short_s: int
    factor: float


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule applied."""

    rule: BurnRule
    long_burn: float | None
    short_burn: float | None
    enough: bool  # requests in the short window
    firing: bool


@dataclass(frozen=True, slots=True)
class ObjectiveStanding:
    """An objective judged. `ratio` and `budget_left` are None without requests in its window."""

    state: ObjectiveState
    ratio: float | None  # of good requests
    budget_left: float | None  # share of the window's budget: 1 = untouched, below 0 = exceeded
    burn: Mapping[int, float | None]  # by window, seconds
    alerts: tuple[Alert, ...]
    requests: int
    bad: int


_TABLE = (
    (AlertSeverity.FAST, 0.02, _HOUR_S, 5 * _MINUTE_S),
    (AlertSeverity.FAST, 0.05, 6 * _HOUR_S, 30 * _MINUTE_S),
    (AlertSeverity.SLOW, 0.10, _DAY_S, 2 * _HOUR_S),
    (AlertSeverity.SLOW, 0.10, 3 * _DAY_S, 6 * _HOUR_S),
)


def rules(window_s: int) -> tuple[BurnRule, ...]:
    """The rules of an objective with this window, the fastest first."""
    scale = 1.0 if window_s >= _SCALED_BELOW_S else window_s / _PERIOD_S
    found = []
    for severity, share, long_s, short_s in _TABLE:
        long_of = max(SLOT_S, round(long_s * scale))
        short_of = max(SLOT_S, round(short_s * scale))
        found.append(BurnRule(severity, share, long_of, short_of, share * window_s / long_of))
    return tuple(found)


def burn_rate(counted: CountedRequests, budget_ppm: int) -> float | None:
    """Bad requests relative to those allowed: 1 just meets the objective. None without requests."""
    return counted.bad * 1e6 / (counted.requests * budget_ppm) if counted.requests else None


def windows(objective: ServiceObjective) -> tuple[int, ...]:
    """Every window that a judgement needs, seconds, ascending."""
    found = {objective.window_s}
    for rule in rules(objective.window_s):
        found |= {rule.long_s, rule.short_s}
    return tuple(sorted(found))


def judge(
    objective: ServiceObjective, counted: Callable[[int], CountedRequests], covered_s: float
) -> ObjectiveStanding:
    """The objective judged; `counted` gives the requests of the last so many seconds.

    `covered_s`: how far the counts go back. The budget is that of the whole window at the present rate of requests, so
    ten bad minutes after the start do not use up four weeks.
    """
    of_window = {window_s: counted(window_s) for window_s in windows(objective)}
    burn = {window_s: burn_rate(entry, objective.budget_ppm) for window_s, entry in of_window.items()}
    alerts = []
    for rule in rules(objective.window_s):
        long_burn, short_burn = burn[rule.long_s], burn[rule.short_s]
        enough = of_window[rule.short_s].requests >= objective.min_events
        exceeded = all(value is not None and value > rule.factor for value in (long_burn, short_burn))
        firing = exceeded and enough and rule.severity in objective.labels
        alerts.append(Alert(rule, long_burn, short_burn, enough, firing))
    whole = of_window[objective.window_s]
    rate = burn[objective.window_s]
    used = None if rate is None else rate * min(1.0, max(0.0, covered_s) / objective.window_s)
    if of_window[alerts[0].rule.long_s].requests == 0:
        state = ObjectiveState.NO_DATA
    elif used is not None and used > 1.0 and whole.requests >= objective.min_events:
        state = ObjectiveState.EXHAUSTED
    elif any(alert.firing for alert in alerts):
        state = ObjectiveState.BURNING
    else:
        state = ObjectiveState.OK
    return ObjectiveStanding(
        state,
        None if used is None else 1.0 - whole.bad / whole.requests,
        None if used is None else 1.0 - used,
        burn,
        tuple(alerts),
        whole.requests,
        whole.bad,
    )


def unreachable(objective: ServiceObjective) -> tuple[BurnRule, ...]:
    """Rules whose factor not even failing requests alone would reach."""
    highest = 1e6 / objective.budget_ppm
    return tuple(
        rule for rule in rules(objective.window_s) if rule.severity in objective.labels and rule.factor >= highest
    )


def window_name(seconds: int) -> str:
    """As dashboards write it: 5m, 6h, 3d; 90s where it is not whole."""
    for unit, name in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "m")):
        if seconds % unit == 0:
            return f"{seconds // unit}{name}"
    return f"{seconds}s"
