"""The short sentences of an answer about a pod: its headline, its story, what became of one that is gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from cotenant.engine.cycle.score_parts import Ranking
from cotenant.engine.framework.pod_state import ASSIGNED, LEGAL, PodInfo, SchedulingState
from cotenant.model.cluster.observed import ClaimBinding
from cotenant.model.decisions.answers import PodAnswer, PreemptedPods, WaitExplanation, WhatIf
from cotenant.model.decisions.record import CandidateNode

BEST = 5
_MAX_UNUSABLE = 3


def shown(entry: PodInfo, ranks: Ranking) -> tuple[CandidateNode, ...]:
    """The best few nodes, and the pod's own node if that is not among them."""
    best = ranks.best(BEST)
    if entry.state not in ASSIGNED or any(candidate.node == entry.node for candidate in best):
        return best
    own, _ = ranks.of(entry.row)
    return best if own is None else (*best, own)


def headline(entry: PodInfo, waiting: WaitExplanation | None, what_if: WhatIf, schedulers: tuple[str, ...]) -> str:
    """Where a pod is or why it waits, in one line."""
    if what_if.changes and waiting is not None:
        return f"with {what_if.words()} it would wait: {waiting.because}"
    if entry.state is SchedulingState.BOUND:
        by = "" if entry.seen.scheduler in schedulers else f", placed by {entry.seen.scheduler}"
        return f"it is on {entry.node}{by}"
    if entry.state is SchedulingState.WAITING:
        return f"it holds {entry.node} and waits for the rest of its gang"
    if entry.state in ASSIGNED:
        return f"it was given {entry.node}; {_of_bind(entry)}"
    return f"it waits: {waiting.because}" if waiting is not None else "it waits"


def _of_bind(entry: PodInfo) -> str:
    """What the bind of a pod waits for."""
    volumes = (need.claim for need in entry.seen.volumes if need.binding is not ClaimBinding.BOUND)
    claims = [f"PersistentVolumeClaim {name}" for name in volumes]
    claims += [f"ResourceClaim {holding.key or 'of its extended resources'}" for holding in entry.holds.claims]
    if entry.state is not SchedulingState.BINDING or not claims:
        return "its bind is on the way"
    return f"its bind waits for {', '.join(claims)}"


def story(entry: PodInfo) -> tuple[tuple[float, str], ...]:
    """A pod's changes of state, in words, with their times."""
    lines, before = [], SchedulingState.NEW
    for at_s, after in entry.story:
        lines.append((at_s, LEGAL.get((before, after), after.name.lower())))
        before = after
    return tuple(lines)


def gone(past: Iterable[PreemptedPods], key: str, now_s: float) -> PodAnswer | None:
    """About a pod that is not there any more, by why it was evicted; None where that is not known."""
    of_it = [preempted for preempted in past if key in preempted.victims]
    if not of_it:
        return None
    last = of_it[-1]
    by = f" for {last.preemptor}" if last.preemptor else ""
    why = f"{last.rule}; {last.words}" if last.words else last.rule
    headline = f"it is gone: evicted from {last.node}{by} {max(0.0, now_s - last.at_s):.0f} s ago ({why})"
    return PodAnswer(
        pod=key,
        uid="",
        at_s=now_s,
        state="gone",
        headline=headline,
        priority=0,
        requests=(),
        preemptions=tuple(of_it),
    )


def unusable_notes(unusable_nodes: Mapping[str, str]) -> Iterator[str]:
    """Why nodes are not counted, for the first few."""
    for why in islice(unusable_nodes.values(), _MAX_UNUSABLE):
        yield f"a node is not counted: {why}"
    more = len(unusable_nodes) - _MAX_UNUSABLE
    if more > 0:
        yield f"{more} more nodes are not counted: the scheduler's log names them"
