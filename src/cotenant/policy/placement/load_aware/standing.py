"""How one node stands: whose figures count, what it uses by them, how much more it may use, and until when that holds.

Problem: a node may have a NodeMetric, a report of our own agent, both, or neither, and each grows old. Choice: a NodeMetric that is not expired wins, since it knows the pods; else
a report that is still believed; else the rule for expired metrics, where there is a metric; a node of which nobody ever told passes. One value says it
all, for the filter's arrays, for the score and for people. Limits: a report knows no pods and no windows, so it is held against the plain thresholds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf, nan

from cotenant.model.machine.node_metric import NO_USE, NodeMetric, Use
from cotenant.policy.placement.load_aware.filtering import UNLIMITED, Rule, is_expired, room, rule_for
from cotenant.policy.placement.load_aware.forecast import NO_HISTORY, NodeHistory
from cotenant.policy.placement.load_aware.scoring import look_for
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings, NodeThresholds, Shares
from cotenant.policy.placement.load_aware.usage import Basis, Load, Look, Resident, load

REPORT_LIVES_S = 120.0
CLOSED = -(1 << 62)  # room of a node that takes no pod

_NO_ROOM = Use(CLOSED, CLOSED)
_ALL_ROOM = Use(UNLIMITED, UNLIMITED)


class Source(StrEnum):
    """Whose figures count."""

    METRIC = "NodeMetric"
    REPORT = "report"
    EXPIRED = "expired NodeMetric"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Facts:
    """What was told of a node, with the times on our clock."""

    metric: NodeMetric | None = None
    updated_s: float = nan
    report: NodeMetric | None = None
    reported_s: float = nan
    history: NodeHistory = NO_HISTORY


@dataclass(frozen=True, slots=True)
class Side:
    """As production pods, or all others, are judged."""

    rule: Rule
    load: Load
    room: Use  # what a pod's estimate may be at most; `UNLIMITED` where nothing is looked at
    scored: Load


@dataclass(frozen=True, slots=True)
class Standing:
    """Of one node."""

    size: Use  # what the node has
    source: Source
    age_s: float  # of the figures that count, NaN for none
    updated_s: float  # of the figures that count, -inf for none
    is_closed: bool  # takes no pod, because nobody knows what it uses
    is_known: bool  # some figures count
    is_scored: bool
    usual: Side
    prod: Side
    due_s: float  # until when this holds if nothing happens


_BARE = Side(
    Rule(Shares(), Look()), Load(NO_USE, NO_USE, 0, Basis.LAST), _ALL_ROOM, Load(NO_USE, NO_USE, 0, Basis.LAST)
)


def standing(
    size: Use,
    own: NodeThresholds,
    facts: Facts,
    residents: Sequence[Resident],
    settings: LoadAwareSettings,
    now_s: float,
) -> Standing:
    """How a node stands."""
    metric, told = facts.metric, facts.report
    fresh = metric is not None and not is_expired(now_s - facts.updated_s, settings)
    if metric is not None and fresh:
        lasts_s = facts.updated_s + settings.expires_s if settings.expires_s else inf
        return _stand(size, own, metric, facts, Source.METRIC, facts.updated_s, residents, settings, now_s, lasts_s)
    if told is not None and now_s - facts.reported_s < REPORT_LIVES_S:
        until_s = facts.reported_s + REPORT_LIVES_S
        return _stand(size, own, told, facts, Source.REPORT, facts.reported_s, residents, settings, now_s, until_s)
    if metric is None:
        return Standing(size, Source.NOBODY, nan, -inf, False, False, False, _BARE, _BARE, inf)
    if settings.filters_expired:
        closed = not settings.schedule_when_expired
        side = Side(_BARE.rule, _BARE.load, _NO_ROOM, _BARE.scored) if closed else _BARE
        age_s = now_s - facts.updated_s
        return Standing(size, Source.EXPIRED, age_s, -inf, closed, False, False, side, side, inf)
    return _stand(size, own, metric, facts, Source.EXPIRED, facts.updated_s, residents, settings, now_s, inf)


def _stand(
    size: Use,
    own: NodeThresholds,
    metric: NodeMetric,
    facts: Facts,
    source: Source,
    updated_s: float,
    residents: Sequence[Resident],
    settings: LoadAwareSettings,
    now_s: float,
    until_s: float,
) -> Standing:
    updated_s = -inf if updated_s != updated_s else updated_s
    loads: dict[Look, Load] = {}

    def loaded(look: Look) -> Load:
        if look not in loads:
            loads[look] = load(metric, updated_s, residents, look, facts.history, settings, now_s)
        return loads[look]

    def side(is_prod: bool) -> Side:
        rule, scored = rule_for(is_prod, settings, own), look_for(is_prod, settings)
        if metric.pods is None:
            rule = Rule(own.thresholds or settings.thresholds, Look(forecast=settings.forecast is not None))
            scored = Look()
        if metric.use is None and not metric.pods:
            return _BARE  # it says when, and nothing else
        found = loaded(rule.look)
        return Side(rule, found, room(size, rule.thresholds, found.total), loaded(scored))

    usual = side(False)
    prod = side(True)
    begun = [
        each.since_s + settings.expects_s
        for each in residents
        if settings.expects_s and now_s < each.since_s + settings.expects_s
    ]
    known = usual is not _BARE
    scored = known and source is not Source.EXPIRED
    due_s = min([until_s, *begun])
    return Standing(size, source, now_s - updated_s, updated_s, False, known, scored, usual, prod, due_s)
