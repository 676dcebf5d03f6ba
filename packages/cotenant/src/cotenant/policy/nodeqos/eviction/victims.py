"""Choice of victims: candidates in order, until every goal is reached, and the remaining shortfall.

Several triggers fire at once, pods have opted in or out, some are terminating already; no pod should be evicted for
what is freed soon anyway. Goals are processed one after another (best effort, allocatable, used). Each takes its own
candidates in its own order until its amounts are reached; what a victim frees counts towards every goal, and so does
what terminating pods will free. Order for triggers of best effort only: priority, then the largest; in general:
eviction priority, priority, sub-priority, then the largest. Among equals, pods whose owners mark them come last
(model/cluster/disruption.py). A pod that frees nothing of what is short is skipped; `strict_order` evicts it too, as
Koordinator does, so that a pod never outlives one of higher priority.

Limits: greedy in order, so fewer pods may have sufficed. Programs outside Kubernetes are never candidates, nor are pods
that no source has named yet: their class and priority are guesses, and nobody could be asked to evict them. A shortfall
that cannot be met is reported (`VictimChoice.short`).

Source: Koordinator, pkg/koordlet/qosmanager/plugins/util (order and accounting; its unit error in the memory path is
not repeated).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import nan

import msgspec

from cotenant.model.cluster.annotations import DO_NOT_DISRUPT, PREFER_NO_EVICTION, SAFE_TO_EVICT
from cotenant.model.cluster.disruption import Mover, goes_last, read_marks
from cotenant.model.cluster.labels import SUB_PRIORITY
from cotenant.model.cluster.qos import effective_class
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.node_state import PodUse
from cotenant.policy.nodeqos.eviction.goals import POOL, Currency, EvictionGoal, EvictionTrigger
from cotenant.policy.nodeqos.wording import cpu, size

EVICTION_ENABLED = "koordinator.sh/eviction-enabled"  # label: "true" opts in
EVICTION_POLICY = "koordinator.sh/eviction-policy"  # annotation: JSON list of the triggers that may evict the pod
EVICTION_PRIORITY = "koordinator.sh/eviction-priority"  # annotation: integer, lower is evicted first


@dataclass(frozen=True, slots=True)
class EvictionCandidate:
    """A pod as eviction sees it; amounts of one resource, milli-CPU or bytes."""

    uid: str
    key: str
    best_effort: bool
    opted_in: bool
    priority: int
    sub_priority: int
    eviction_priority: int
    allowed: frozenset[str] | None  # triggers that may evict it; None = all
    leaving: bool
    pool: Currency
    requested: int
    used: int | None
    goes_last: bool = False  # by its owner's marks: after others of equal rank

    def frees(self, currency: Currency) -> int:
        """What evicting it frees in a currency."""
        if currency is Currency.USED:
            return self.used or 0
        return self.requested if currency is self.pool else 0

    def eligible(self, goal: EvictionGoal) -> bool:
        """Whether the goal's trigger may evict it."""
        if self.allowed is not None and goal.trigger.value not in self.allowed:
            return False
        if goal.trigger.best_effort_only:
            return self.best_effort
        return self.opted_in and self.priority <= goal.priority_threshold


@dataclass(frozen=True, slots=True)
class VictimChoice:
    """The victims with their goals, in order, and the remaining shortfall."""

    victims: tuple[tuple[EvictionCandidate, EvictionGoal], ...]
    freed: tuple[tuple[Currency, int], ...]  # by the victims and by terminating pods
    short: tuple[tuple[EvictionTrigger, Currency, int], ...]


def shortfalls(choice: VictimChoice, unit: str) -> tuple[Reason, ...]:
    """Reasons for shortfalls that remain after evicting every eligible pod; `unit` as in `EvictionGoal`'s terms:
    "mCPU" or "bytes".
    """
    write = cpu if unit == "mCPU" else size
    return tuple(
        Reason(
            f"evict:{trigger}",
            f"{write(amount)} ({currency}) remains short: no other pod is eligible",
            (DecisionTerm("short", amount, unit),),
        )
        for trigger, currency, amount in choice.short
    )


def not_named(rule: str, pods: Iterable[PodUse]) -> tuple[Reason, ...]:
    """The reason for leaving out pods that are known by their cgroups alone; none where there are none."""
    count = sum(not entry.pod.is_named and entry.pod.phase is not NodePodPhase.OVER for entry in pods)
    if not count:
        return ()
    text = f"pods known by their groups alone: {count}; neither counted nor evicted until a source names them"
    return (Reason(rule, text, (DecisionTerm("pods not named", count, ""),)),)


def candidate(pod: NodePod, requested: int, used: int | None) -> EvictionCandidate | None:
    """A pod as a candidate; None where it has ended, is a host application or is not named yet."""
    if pod.phase is NodePodPhase.OVER or pod.host_application or not pod.is_named:
        return None
    band = effective_class(pod.priority_class, pod.qos)
    priority = pod.priority or band.default_priority
    has_label = pod.sub_priority != 0 or pod.labels.get(SUB_PRIORITY) is not None
    return EvictionCandidate(
        uid=pod.uid,
        key=pod.key,
        best_effort=pod.best_effort,
        opted_in=pod.labels.get(EVICTION_ENABLED) == "true",
        priority=priority,
        sub_priority=pod.sub_priority if has_label else priority,
        eviction_priority=_integer(pod.annotations.get(EVICTION_PRIORITY)),
        allowed=_allowed(pod.annotations.get(EVICTION_POLICY)),
        leaving=pod.phase is NodePodPhase.TERMINATING,
        pool=POOL[band],
        requested=requested,
        used=used,
        goes_last=_goes_last(pod),
    )


def choose(
    goals: Sequence[EvictionGoal],
    candidates: Sequence[EvictionCandidate],
    strict_order: bool = False,
    overdue: frozenset[str] = frozenset(),
) -> VictimChoice:
    """The victims of all goals, each pod at most once. `overdue`: pods that should have terminated by now and no
    longer count as freeing anything.
    """
    freed: dict[Currency, int] = {}
    victims: list[tuple[EvictionCandidate, EvictionGoal]] = []
    chosen: set[str] = set()
    for leaving in candidates:
        if leaving.leaving and leaving.uid not in overdue:
            _add(freed, leaving)

    def missing(goal: EvictionGoal) -> list[tuple[Currency, int]]:
        return [
            (currency, amount - freed.get(currency, 0))
            for currency, amount in goal.amounts
            if amount > freed.get(currency, 0)
        ]

    for goal in goals:
        for one in sorted((c for c in candidates if not c.leaving and c.eligible(goal)), key=_order(goal)):
            short = missing(goal)
            if not short:
                break
            if one.uid in chosen or (not strict_order and not any(one.frees(currency) for currency, _ in short)):
                continue
            chosen.add(one.uid)
            victims.append((one, goal))
            _add(freed, one)
    short_at_last = tuple((goal.trigger, *pair) for goal in goals for pair in missing(goal))
    return VictimChoice(tuple(victims), tuple(freed.items()), short_at_last)


def requested_by_pool(
    candidates: Iterable[EvictionCandidate], priority_threshold: int
) -> tuple[tuple[Currency, int], ...]:
    """Requests per pool of all pods up to a priority, whether opted in or not."""
    sums: dict[Currency, int] = {}
    for one in candidates:
        if one.priority <= priority_threshold and one.requested > 0:
            sums[one.pool] = sums.get(one.pool, 0) + one.requested
    return tuple(sorted(sums.items()))


def _order(goal: EvictionGoal) -> Callable[[EvictionCandidate], tuple[object, ...]]:
    match goal.trigger:
        case EvictionTrigger.CPU_SATISFACTION:
            return _by_use_of_request
        case EvictionTrigger.MEMORY_BEST_EFFORT | EvictionTrigger.MEMORY_PRESSURE:
            return _by_use
        case EvictionTrigger.CPU_ALLOCATABLE | EvictionTrigger.MEMORY_ALLOCATABLE:
            return _by_rank_and_request
        case _:
            return _by_rank_and_use


def _by_use_of_request(one: EvictionCandidate) -> tuple[object, ...]:
    use_ppm = (one.used or 0) * 1_000_000 // one.requested if one.requested else 0
    return (one.priority, one.goes_last, -use_ppm, one.key)


def _by_use(one: EvictionCandidate) -> tuple[object, ...]:
    return (one.priority, one.goes_last, -(one.used or 0), one.key)


def _by_rank_and_request(one: EvictionCandidate) -> tuple[object, ...]:
    return (one.eviction_priority, one.priority, one.sub_priority, one.goes_last, -one.requested, one.key)


def _by_rank_and_use(one: EvictionCandidate) -> tuple[object, ...]:
    return (one.eviction_priority, one.priority, one.sub_priority, one.goes_last, -(one.used or 0), one.key)


def _add(freed: dict[Currency, int], one: EvictionCandidate) -> None:
    for currency in dict.fromkeys((Currency.USED, one.pool)):  # in this order: a set's differs from run to run
        freed[currency] = freed.get(currency, 0) + one.frees(currency)


def _goes_last(pod: NodePod) -> bool:
    """By its marks; one for some time after its start holds as long as the pod runs, as starts are not known here."""
    if not pod.annotations:
        return False
    notes = pod.annotations
    marks = read_marks(notes.get(DO_NOT_DISRUPT), notes.get(SAFE_TO_EVICT), notes.get(PREFER_NO_EVICTION))
    return goes_last(Mover.AGENT_SHORTAGE, marks, nan, 0.0)


@functools.lru_cache(maxsize=1024)
def _allowed(text: str | None) -> frozenset[str] | None:
    """The annotation's triggers. An invalid annotation allows none, since it was meant to restrict."""
    if text is None:
        return None
    try:
        return frozenset(msgspec.json.decode(text, type=list[str]))
    except (msgspec.DecodeError, UnicodeError):
        return frozenset()


def _integer(text: str | None) -> int:
    """The annotation's integer; 0 where it is absent or invalid, as upstream."""
    if text is None or len(text) > 12:
        return 0
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    return sign * int(digits) if digits.isascii() and digits.isdigit() else 0
