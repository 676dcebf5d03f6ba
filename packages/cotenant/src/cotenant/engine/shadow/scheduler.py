"""Judges the pods of another scheduler beside it, compares, and acts on nothing.

A pod is judged when it appears, and once more the moment before its bind is counted: then every earlier bind is in the
picture and this one is not, as it was for the scheduler that bound it. What was judged holds nothing (parking.py). The
cost is limited by a share of CPU time (budget.py): binds come first, and a bind for which there is none is compared
with the earlier choice, or counts as bound before it was judged. Members of a gang are compared with the choice for the
whole gang, which was made before the first of them was bound.
Limits: a restart forgets everything, and what is bound already is not judged; a pod that is first seen on a node, also
one that was created there, counts as bound before it was judged. What another scheduler nominates is compared with the
choice that was made before.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from math import inf

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.engine.shadow.budget import CpuShare
from cotenant.engine.shadow.comparing import ShadowComparison, at_once, evaluated, nominated
from cotenant.engine.shadow.following import WINDOW_S, Following, NodeSignals
from cotenant.engine.shadow.parking import PARKED, JudgedPod, Parking
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.decisions.shadow import (
    CountedPods,
    Difference,
    Followed,
    NodeSignal,
    ShadowChoice,
    ShadowNomination,
    ShadowOutcome,
    ShadowPicture,
    ShadowReport,
)

SHARE = 0.5
MAX_PENDING = 50_000  # pods without a node that are remembered
MAX_REASONS = 64  # outcomes with different reasons; further ones are "other"
KEPT = 256  # differences, and followed pods, that are shown
AGAIN_S = 60.0  # a choice for a pod that still has no node is made anew after this long
APPEARED_RESERVE = 0.5  # of the reserve of CPU time: below it only pods that are being bound are judged


@dataclass(slots=True)
class _Pending:
    key: str
    judged: JudgedPod | None = None
    nominated: str = ""  # by the other scheduler


class ShadowScheduler:
    """One shadow. `cluster` has `parking` and `signals` among its plugins, and evaluates one pod at a time."""

    def __init__(
        self,
        cluster: Cluster,
        parking: Parking,
        signals: NodeSignals,
        cpu_s: Callable[[], float],
        now_s: float,
        *,
        share: float = SHARE,
        window_s: float = WINDOW_S,
        max_pending: int = MAX_PENDING,
        extenders_left_out: int = 0,
    ) -> None:
        self.cluster = cluster
        self.outcomes: Counter[tuple[ShadowOutcome, ShadowPicture]] = Counter()
        self.reasons: Counter[tuple[ShadowOutcome, str]] = Counter()
        self.nominations: Counter[ShadowNomination] = Counter()
        self.judged = 0
        self.put_off = 0  # binds for which there was no CPU time left
        self.forgotten = 0
        self.budget = CpuShare(share, now_s)
        self.following = Following(signals, cluster.reported, window_s)
        self._parking = parking
        self._signals = signals
        self._cpu_s = cpu_s
        self._since_s = now_s
        self._max_pending = max_pending
        self._extenders_left_out = extenders_left_out
        self._pending: dict[str, _Pending] = {}
        self._differences: deque[Difference] = deque(maxlen=KEPT)
        self._came: deque[Followed] = deque(maxlen=KEPT)
        self._has_listed = False

    # ---- events

    def listed(self) -> None:
        """Everything that was there at the start has been reported: pods with a node come from now on."""
        self._has_listed = True

    def pod_seen(self, seen: ObservedPod, now_s: float) -> None:
        """As `Cluster.pod_seen`; compares where the other scheduler has bound it."""
        ours = seen.scheduler in self.cluster.settings.schedulers and not seen.reservation
        state = self.cluster.state_of(seen.uid)
        if seen.node and (pending := self._pending.pop(seen.uid, None)) is not None:
            self._bound(seen, pending, now_s)
        elif seen.node and ours and state is not SchedulingState.BOUND and self._has_listed and not seen.phase.is_final:
            self.outcomes[ShadowOutcome.BEFORE_JUDGED, ShadowPicture.NONE] += 1
        self.cluster.pod_seen(seen, now_s)
        if state is SchedulingState.BOUND and seen.phase.is_final:
            if seen.evicted:
                self._signals.happened(seen.node, NodeSignal.EVICTIONS)
            if seen.refused:
                self._signals.happened(seen.node, NodeSignal.REFUSED_STARTS)
        if seen.node:
            return
        if self.cluster.state_of(seen.uid) is SchedulingState.GONE:
            self._deleted(seen.uid)
        elif ours and seen.uid not in self._pending:
            if len(self._pending) < self._max_pending:
                self._pending[seen.uid] = _Pending(seen.pod.key)
            else:
                self.forgotten += 1
        if seen.nominated_node and (waiting := self._pending.get(seen.uid)) is not None:
            self._nominated(waiting, seen.nominated_node)

    def _nominated(self, pending: _Pending, node: str) -> None:
        """Each node that a pod is nominated for counts once."""
        if pending.nominated != node:
            pending.nominated = node
            self.nominations[nominated(pending.judged, node)] += 1

    def pod_gone(self, uid: str, now_s: float) -> None:
        """As `Cluster.pod_gone`."""
        self._deleted(uid)
        self.cluster.pod_gone(uid, now_s)

    def _deleted(self, uid: str) -> None:
        if self._pending.pop(uid, None) is not None:
            self.outcomes[ShadowOutcome.DELETED, ShadowPicture.NONE] += 1

    # ---- judging

    def next_s(self, now_s: float) -> float:
        """When `work` must be called next if no event comes before; -inf at once."""
        longest = self._parking.longest()
        due_s = min(self.cluster.next_s(), longest[1] + AGAIN_S if longest is not None else inf)
        if due_s <= now_s and not self.budget.has(now_s, APPEARED_RESERVE):
            due_s = self.budget.has_again_s(now_s, APPEARED_RESERVE)
        return min(due_s, self.following.due_s())

    def work(self, now_s: float) -> None:
        """Judge the next pod that waits to be judged, and close what was followed for long enough."""
        self._came.extend(self.following.close(now_s))
        if not self.budget.has(now_s, APPEARED_RESERVE):
            return
        longest = self._parking.longest()
        if self.cluster.next_s() <= now_s:
            self._decide(now_s)
        elif longest is not None and longest[1] + AGAIN_S <= now_s:
            self._parking.judge_again(longest[0])
            self._decide(now_s, longest[0])

    def _decide(self, now_s: float, only: str = "") -> None:
        begun_s = self._cpu_s()
        self.cluster.decide(now_s, only)
        self.cluster.why.past.clear()  # nothing is carried out, so nothing was decided
        self.budget.spend(self._cpu_s() - begun_s)
        for judged in self._parking.take():
            pending = self._pending.get(judged.uid)
            if pending is not None:
                self.judged += 1
                pending.judged = judged

    def _bound(self, seen: ObservedPod, pending: _Pending, now_s: float) -> None:
        """Compare, before the bind is counted."""
        judged, picture = pending.judged, ShadowPicture.EARLIER
        entry = self.cluster.find(pending.key)
        is_member = entry is not None and self.cluster.plugins.gangs.lacks(entry) > 1
        has_time = self.budget.has(now_s)
        if entry is not None and entry.seen.uid == seen.uid and has_time and not is_member:
            self._pending[seen.uid] = pending
            self._parking.judge_again(seen.uid)
            pending.judged = None
            self._decide(now_s, seen.uid)
            del self._pending[seen.uid]
            judged, picture = pending.judged or self._told_before(seen.uid, pending.key, now_s), ShadowPicture.AT_BIND
        self.put_off += not has_time
        if judged is None:
            self.outcomes[ShadowOutcome.BEFORE_JUDGED, ShadowPicture.NONE] += 1
            return
        found = at_once(judged, seen.node)
        if found is None:
            begun_s = self._cpu_s()
            verdict = self.cluster.why.beside(seen.uid, seen.node, now_s) if has_time else None
            self.budget.spend(self._cpu_s() - begun_s)
            found = evaluated(judged, seen.node, verdict, picture)
        self._count(found, judged, seen, picture, now_s)

    def _told_before(self, uid: str, key: str, now_s: float) -> JudgedPod:
        """A pod that waits for the same reason as before: no instruction says so again."""
        entry, group = self.cluster.find(key), self.cluster.queue.group_of(uid)
        words = entry.last_message if entry is not None else ""
        filters = tuple(sorted(group.verdict.filters)) if group is not None and group.verdict is not None else ()
        choice = ShadowChoice.WAITS if group is not None else ShadowChoice.NOT_JUDGED
        return JudgedPod(uid, choice, now_s, words="" if words == PARKED else words, plugins=filters)

    def _count(
        self, found: ShadowComparison, judged: JudgedPod, seen: ObservedPod, picture: ShadowPicture, now_s: float
    ) -> None:
        outcome = found.outcome
        self.outcomes[outcome, picture] += 1
        if outcome in (ShadowOutcome.AGREED, ShadowOutcome.EQUAL_SCORE):
            return
        reason = found.reason or "none"
        if (outcome, reason) not in self.reasons and len(self.reasons) >= MAX_REASONS:
            reason = "other"
        self.reasons[outcome, reason] += 1
        ours = judged.node if judged.choice in (ShadowChoice.PLACES, ShadowChoice.PREEMPTS) else ""
        self._differences.append(
            Difference(
                now_s,
                seen.pod.key,
                outcome,
                seen.node,
                ours,
                picture,
                found.reason,
                found.words,
                found.place,
                found.of,
                found.behind,
            )
        )
        if outcome is ShadowOutcome.OTHER_NODE:
            self.following.follow(seen.pod.key, seen.node, ours, now_s)

    # ---- questions

    def pending(self) -> dict[str, int]:
        """Pods without a node, by our choice for them; "unseen" where there is none yet."""
        found = dict.fromkeys((*(choice.value for choice in ShadowChoice), "unseen"), 0)
        for waiting in self._pending.values():
            found[waiting.judged.choice.value if waiting.judged is not None else "unseen"] += 1
        return found

    def report(self, now_s: float, newest: int = KEPT) -> ShadowReport:
        """Everything so far, with this many of the newest differences."""
        by_outcome: Counter[ShadowOutcome] = Counter()
        for (outcome, _), pods in self.outcomes.items():
            by_outcome[outcome] += pods
        return ShadowReport(
            of=self.cluster.settings.schedulers,
            profile=self.cluster.profile.name,
            since_s=self._since_s,
            at_s=now_s,
            nodes=self.cluster.size()[0],
            outcomes=tuple(CountedPods(outcome.value, by_outcome[outcome]) for outcome in ShadowOutcome),
            at_bind=sum(pods for (_, picture), pods in self.outcomes.items() if picture is ShadowPicture.AT_BIND),
            reasons=tuple(
                (outcome.value, reason, pods) for (outcome, reason), pods in self.reasons.most_common(MAX_REASONS)
            ),
            pending=tuple(CountedPods(what, pods) for what, pods in self.pending().items()),
            followed=tuple((signal, worse, pods) for (signal, worse), pods in sorted(self.following.counts.items())),
            window_s=self.following.window_s,
            waiting_to_follow=len(self.following),
            judged=self.judged,
            judging_cpu_s=self.budget.spent_s,
            share=self.budget.share,
            put_off=self.put_off,
            forgotten=self.forgotten,
            differences=tuple(islice(reversed(self._differences), newest)),
            came=tuple(islice(reversed(self._came), newest)),
            nominations=tuple(CountedPods(what.value, self.nominations[what]) for what in ShadowNomination),
            extenders_left_out=self._extenders_left_out,
        )
