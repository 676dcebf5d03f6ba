"""What pods and nodes say about being disrupted, in the words of Cluster Autoscaler, Karpenter and the descheduler, and
which of our movers follows it: one table.

A mark on a pod is written by the pod's owner, so it protects within bounds only. It holds back movers that could as
well do nothing (`HOLDS`). Where others are entitled to the room (a higher priority, a quota's share, what is lent, a
node short of memory) it decides at most who goes first among equals (`LAST`), or nothing (`IGNORED`), as in
kube-scheduler, whose preemption reads no such mark. A mark that cannot be read protects nothing, as in Karpenter.
Marks on a node are taints of an autoscaler that is about to remove it.
Source: Cluster Autoscaler (FAQ, utils/taints), Karpenter v1.12 (pod-level controls; a duration counts from
status.startTime), descheduler (DefaultEvictor).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf, isnan
from types import MappingProxyType

from cotenant.model.cluster.annotations import DO_NOT_DISRUPT, PREFER_NO_EVICTION, SAFE_TO_EVICT
from cotenant.model.cluster.taints import Taint

REMOVAL_TAINTS = ("ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted")
CANDIDATE_TAINT = "DeletionCandidateOfClusterAutoscaler"


class Mover(StrEnum):
    """What of ours ends pods that run."""

    REBALANCER = "rebalancer"  # its rounds, requested moves, and PodMigrationJobs of others
    MISSED_OBJECTIVE = "missed objective"  # the scheduler's moves of replicas
    PREEMPTION = "preemption"  # for a pod of higher priority
    GANG_PREEMPTION = "preemption for a gang"
    QUOTA_PREEMPTION = "preemption within a quota"
    QUOTA_REVOCATION = "revocation of a quota's overuse"
    AGENT_SHORTAGE = "agent, short of what is lent"  # the triggers of BECPUEvict, MemoryEvict and their like
    AGENT_PRESSURE = "agent, under pressure"  # memory pressure, and the cause of a missed objective


class DisruptionMark(StrEnum):
    """What is said."""

    DO_NOT_DISRUPT = DO_NOT_DISRUPT
    NOT_SAFE_TO_EVICT = SAFE_TO_EVICT
    PREFER_NO_EVICTION = PREFER_NO_EVICTION
    NODE_REMOVED = "taint of a node that an autoscaler removes"
    NODE_CANDIDATE = "taint of a node that an autoscaler may remove"


class MarkEffect(StrEnum):
    """What a mark means to a mover, about a pod that carries it or runs on such a node."""

    HOLDS = "holds"  # the pod is not moved
    LAST = "last"  # it goes after the others of equal rank
    IGNORED = "ignored"


def _row(pods: MarkEffect, removed: MarkEffect) -> Mapping[DisruptionMark, MarkEffect]:
    marks = (DisruptionMark.DO_NOT_DISRUPT, DisruptionMark.NOT_SAFE_TO_EVICT, DisruptionMark.PREFER_NO_EVICTION)
    nodes = {DisruptionMark.NODE_REMOVED: removed, DisruptionMark.NODE_CANDIDATE: MarkEffect.IGNORED}
    return MappingProxyType(dict.fromkeys(marks, pods) | nodes)


# A node that is removed is emptied by its autoscaler, which respects budgets: a second mover would disrupt twice. Who
# is owed room takes it there all the same. Leaving a mere candidate is what its autoscaler waits for.
EFFECTS: Mapping[Mover, Mapping[DisruptionMark, MarkEffect]] = MappingProxyType(
    {
        Mover.REBALANCER: _row(MarkEffect.HOLDS, MarkEffect.HOLDS),
        Mover.MISSED_OBJECTIVE: _row(MarkEffect.HOLDS, MarkEffect.HOLDS),
        Mover.PREEMPTION: _row(MarkEffect.IGNORED, MarkEffect.IGNORED),
        Mover.GANG_PREEMPTION: _row(MarkEffect.IGNORED, MarkEffect.IGNORED),
        Mover.QUOTA_PREEMPTION: _row(MarkEffect.IGNORED, MarkEffect.IGNORED),
        Mover.QUOTA_REVOCATION: _row(MarkEffect.IGNORED, MarkEffect.IGNORED),
        Mover.AGENT_SHORTAGE: _row(MarkEffect.LAST, MarkEffect.IGNORED),
        Mover.AGENT_PRESSURE: _row(MarkEffect.IGNORED, MarkEffect.IGNORED),
    }
)


@dataclass(frozen=True, slots=True)
class DisruptionMarks:
    """The marks of one pod."""

    kept_for_s: float = 0.0  # after its start; inf = always
    not_safe: bool = False
    prefers_none: bool = False

    def present(self, started_s: float, now_s: float) -> tuple[DisruptionMark, ...]:
        """Those in force. A pod that has not started is kept."""
        ends_s = inf if isnan(started_s) and self.kept_for_s else started_s + self.kept_for_s
        return (
            *((DisruptionMark.DO_NOT_DISRUPT,) if self.kept_for_s and now_s < ends_s else ()),
            *((DisruptionMark.NOT_SAFE_TO_EVICT,) if self.not_safe else ()),
            *((DisruptionMark.PREFER_NO_EVICTION,) if self.prefers_none else ()),
        )


NO_MARKS = DisruptionMarks()


def read_marks(
    do_not_disrupt: str | None, safe_to_evict: str | None, prefer_no_eviction: str | None
) -> DisruptionMarks:
    """The marks of these annotations' texts."""
    if do_not_disrupt is None and safe_to_evict is None and prefer_no_eviction is None:
        return NO_MARKS
    kept_for_s = inf if do_not_disrupt == "true" else _duration_s(do_not_disrupt or "")
    return DisruptionMarks(kept_for_s, safe_to_evict == "false", prefer_no_eviction is not None)


def node_mark(taints: Iterable[Taint]) -> tuple[DisruptionMark, str] | None:
    """The mark of a node, with the taint's key."""
    keys = {taint.key for taint in taints}
    for key in REMOVAL_TAINTS:
        if key in keys:
            return DisruptionMark.NODE_REMOVED, key
    return (DisruptionMark.NODE_CANDIDATE, CANDIDATE_TAINT) if CANDIDATE_TAINT in keys else None


def holds_back(mover: Mover, marks: DisruptionMarks, started_s: float, taints: Iterable[Taint], now_s: float) -> str:
    """Why this mover must leave the pod alone, by its marks and its node's taints; empty = it need not."""
    effects = EFFECTS[mover]
    for mark in marks.present(started_s, now_s) if marks is not NO_MARKS else ():
        if effects[mark] is MarkEffect.HOLDS:
            if mark is DisruptionMark.DO_NOT_DISRUPT and marks.kept_for_s < inf:
                return f"its annotation {mark} holds for {marks.kept_for_s:.0f} s after its start"
            return f"its annotation {mark} forbids it"
    found = node_mark(taints)
    if found is not None and effects[found[0]] is MarkEffect.HOLDS:
        return f"an autoscaler removes its node and evicts it itself (taint {found[1]})"
    return ""


def goes_last(mover: Mover, marks: DisruptionMarks, started_s: float, now_s: float) -> bool:
    """Whether the pod goes after others of equal rank."""
    return any(EFFECTS[mover][mark] is MarkEffect.LAST for mark in marks.present(started_s, now_s))


_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def _duration_s(text: str) -> float:
    """A duration in Go's form (`1h30m`); 0 where it is none, or not above 0."""
    text = text.removeprefix("+")
    parts = _PART.findall(text) if len(text) <= 64 else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return 0.0
    return min(sum(float(number) * _SECONDS[unit] for number, unit in parts), 1e10)
