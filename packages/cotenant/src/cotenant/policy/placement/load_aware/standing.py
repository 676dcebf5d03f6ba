"""Load state of one node: its source, its use, its headroom, and how long that is valid.

A node may have a NodeMetric, a report of our own agent, both, or neither, and each grows stale. A NodeMetric that is
not expired wins, since it knows the pods; else a report that is still valid; else the rule for expired metrics, where
there is a metric; a node that never reported passes. One value holds everything, for the filter's arrays, for the score
and for users.
Limits: a report has no pods and no windows, so only the plain thresholds apply to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf, nan

from cotenant.model.machine.node_metric import NO_USE, NodeMetric, Use
from cotenant.policy.placement.load_aware.filtering import UNLIMITED, FilterThresholds, is_expired, room, rule_for
from cotenant.policy.placement.load_aware.forecast import NO_HISTORY, ForecastHistory
from cotenant.policy.placement.load_aware.scoring import look_for
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings, LoadShares, NodeThresholds
from cotenant.policy.placement.load_aware.usage import NodeLoad, Resident, UsageBasis, UsageView, load

REPORT_LIVES_S = 120.0
CLOSED = -(1 << 62)  # headroom of a node that accepts no pod

_NO_ROOM = Use(CLOSED, CLOSED)
_ALL_ROOM = Use(UNLIMITED, UNLIMITED)


class LoadSource(StrEnum):
    """Source of a node's figures."""

    METRIC = "NodeMetric"
    REPORT = "report"
    EXPIRED = "expired NodeMetric"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class LoadFacts:
    """What was reported about a node, with times on our clock."""

    metric: NodeMetric | None = None
    updated_s: float = nan
    report: NodeMetric | None = None
    reported_s: float = nan
    history: ForecastHistory = NO_HISTORY


@dataclass(frozen=True, slots=True)
class Side:
    """Load state for production pods, or for all others."""

    rule: FilterThresholds
    load: NodeLoad
    room: Use  # the largest estimate of a pod that fits; `UNLIMITED` where nothing is checked
    scored: NodeLoad


@dataclass(frozen=True, slots=True)
class LoadStanding:
    """The load state of one node."""

    size: Use  # capacity of the node
    source: LoadSource
    age_s: float  # of the figures in use, NaN for none
    updated_s: float  # of the figures in use, -inf for none
    is_closed: bool  # accepts no pod, because its use is unknown
    is_known: bool  # whether any figures are in use
    is_scored: bool
    usual: Side
    prod: Side
    due_s: float  # how long this is valid without further events


_BARE = Side(
    FilterThresholds(LoadShares(), UsageView()),
    NodeLoad(NO_USE, NO_USE, 0, UsageBasis.LAST),
    _ALL_ROOM,
    NodeLoad(NO_USE, NO_USE, 0, UsageBasis.LAST),
)


def standing(
    size: Use,
    own: NodeThresholds,
    facts: LoadFacts,
    residents: Sequence[Resident],
    settings: LoadAwareSettings,
    now_s: float,
) -> LoadStanding:
    """The load state of a node."""
    metric, report = facts.metric, facts.report
    fresh = metric is not None and not is_expired(now_s - facts.updated_s, settings)
    if metric is not None and fresh:
        lasts_s = facts.updated_s + settings.expires_s if settings.expires_s else inf
        return _stand(size, own, metric, facts, LoadSource.METRIC, facts.updated_s, residents, settings, now_s, lasts_s)
    if report is not None and now_s - facts.reported_s < REPORT_LIVES_S:
        until_s = facts.reported_s + REPORT_LIVES_S
        return _stand(
            size, own, report, facts, LoadSource.REPORT, facts.reported_s, residents, settings, now_s, until_s
        )
    if metric is None:
        return LoadStanding(size, LoadSource.NOBODY, nan, -inf, False, False, False, _BARE, _BARE, inf)
    if settings.filters_expired:
        closed = not settings.schedule_when_expired
        side = Side(_BARE.rule, _BARE.load, _NO_ROOM, _BARE.scored) if closed else _BARE
        age_s = now_s - facts.updated_s
        return LoadStanding(size, LoadSource.EXPIRED, age_s, -inf, closed, False, False, side, side, inf)
    return _stand(size, own, metric, facts, LoadSource.EXPIRED, facts.updated_s, residents, settings, now_s, inf)


def _stand(
    size: Use,
    own: NodeThresholds,
    metric: NodeMetric,
    facts: LoadFacts,
    source: LoadSource,
    updated_s: float,
    residents: Sequence[Resident],
    settings: LoadAwareSettings,
    now_s: float,
    until_s: float,
) -> LoadStanding:
    updated_s = -inf if updated_s != updated_s else updated_s
    loads: dict[UsageView, NodeLoad] = {}

    def loaded(look: UsageView) -> NodeLoad:
        if look not in loads:
            loads[look] = load(metric, updated_s, residents, look, facts.history, settings, now_s)
        return loads[look]

    def side(is_prod: bool) -> Side:
        rule, scored = rule_for(is_prod, settings, own), look_for(is_prod, settings)
        if metric.pods is None:
            rule = FilterThresholds(
                own.thresholds or settings.thresholds, UsageView(forecast=settings.forecast is not None)
            )
            scored = UsageView()
        if metric.use is None and not metric.pods:
            return _BARE  # it says when, and nothing else
        found = loaded(rule.look)
        return Side(rule, found, room(size, rule.thresholds, found.total), loaded(scored))

    usual = side(False)
    prod = side(True)
    begun = [
        resident.since_s + settings.expects_s
        for resident in residents
        if settings.expects_s and now_s < resident.since_s + settings.expects_s
    ]
    known = usual is not _BARE
    scored = known and source is not LoadSource.EXPIRED
    due_s = min([until_s, *begun])
    return LoadStanding(size, source, now_s - updated_s, updated_s, False, known, scored, usual, prod, due_s)
