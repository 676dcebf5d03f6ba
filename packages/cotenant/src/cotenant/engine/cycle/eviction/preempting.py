"""When a pod without a feasible node may preempt, and its message if it may not.

Victims take their grace period to end, and a pod that is tried again meanwhile must not evict more; nominated pods are
neither free resources nor victims. A pod that waits for victims, its own or any that end on its nominated node, may not
preempt as long as it would fit there without them: a node that was tainted, or taken by others, is not waited for. A
victim that has not ended `OVERDUE_S` after it should have, or `PATIENCE_S` after its deletion, is not waited for
either: its preemptor says so, and room is made elsewhere if there is any. Resources reserved for pods of lower priority
are suspended while victims are searched (engine/cycle/eviction/preemption.py), and a victim that is ending already is
waited for, not evicted again. Best-effort work evicts best-effort work only: the number of its priority class says how
it compares with its like.
Source: kube-scheduler's DefaultPreemption plugin, which waits for what never ends.
Limits: extenders are not asked. Where all victims take hours, more of them are evicted each `PATIENCE_S`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from cotenant.engine.cycle.eviction.losses import AtStake, JobLosses
from cotenant.engine.cycle.eviction.nominations import Nominations
from cotenant.engine.cycle.eviction.preemption import DisruptionBudgets, RowNominations, preempt
from cotenant.engine.cycle.eviction.simulated_evictions import trial
from cotenant.engine.cycle.placing import Placing
from cotenant.engine.framework.instructions import Preempt, Victim
from cotenant.engine.framework.jobs import PlacedJob
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.state.assignments import Assignments
from cotenant.engine.state.narrowing import EVERYWHERE
from cotenant.model.arrays import Mask
from cotenant.model.cluster.pod import Pod
from cotenant.policy.placement.preemption import Preemption, ineligible
from cotenant.policy.placement.profiles import PlacementProfile


@dataclass(frozen=True, slots=True)
class PreemptionAttempt:
    """The result of a search for victims."""

    preempt: Preempt | None
    waits_for: frozenset[str] = frozenset()  # uids of the victims, including those that are ending already
    words: str = ""  # why not, as kube-scheduler appends it to the pod's reason


class Preempting:
    """Searches for victims over one cluster's assignments."""

    def __init__(
        self,
        assignments: Assignments,
        nominations: Nominations,
        budgets: DisruptionBudgets,
        profile: PlacementProfile,
        placing: Placing,
        losses: JobLosses,
    ) -> None:
        self.losses = losses
        self._assignments = assignments
        self._nominations = nominations
        self._budgets = budgets
        self._profile = profile
        self._placing = placing
        self.round_s = -inf  # when the round started: set by the cycle

    def overdue_at_s(self, by_uid: Mapping[str, PodInfo], now_s: float) -> float:
        """When the next pod that a preemptor waits for becomes overdue; inf = never."""
        soonest = inf
        for nomination in self._nominations.each():
            for victim in map(by_uid.get, nomination.victims):  # a gang's are on several nodes
                overdue_s = float(self._assignments.pods.overdue_s[victim.number]) if victim is not None else inf
                if now_s < overdue_s < soonest:
                    soonest = overdue_s
        return soonest

    def is_overdue(self, entry: PodInfo) -> bool:
        """Whether the pod was told to go too long ago: a finalizer keeps it, its node does not answer, or its grace
        period is long.
        """
        return bool(self._assignments.pods.overdue_s[entry.number] <= self.round_s)

    def late(self, entries: Sequence[PodInfo]) -> str:
        """What nominated pods wait for in vain so far, in words; empty if for nothing."""
        found = sorted(
            f"{other.seen.pod.key} on {node}"
            for node in {self._nominations.node_of(entry.seen.uid) for entry in entries} - {""}
            for uid, other in self._assignments.residents.get(node, {}).items()
            if self._nominations.is_awaited(uid) and self.is_overdue(other)
        )
        if not found:
            return ""
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        return f"{found[0]}{more} did not end in time"

    def ending(self, entry: PodInfo) -> set[str]:
        """UIDs of pods of lower priority that are ending on the pod's nominated node."""
        node = self._nominations.node_of(entry.seen.uid)
        if not node:
            return set()
        return {
            uid
            for uid, other in self._assignments.residents.get(node, {}).items()
            if other.seen.pod.priority < entry.seen.pod.priority
            and (other.seen.terminating or self._nominations.is_doomed(uid))
        }

    def obstacle(self, entry: PodInfo, now_s: float) -> str:
        """Why the pod may not preempt now, empty if it may."""
        seen = entry.seen
        if seen.preempts and entry.seen.uid not in self._nominations:
            return ""  # the common case
        ending = self.ending(entry)
        below = np.full(len(ending), seen.pod.priority - 1, dtype=np.int64)
        here = self._assignments.residents.get(self._nominations.node_of(seen.uid), {})
        hopeless = bool(ending) and not self.fits_without(entry, [here[uid] for uid in ending], now_s, False)
        return ineligible(seen.preempts, seen.pod.priority, below, hopeless)

    def fits_without(self, entry: PodInfo, ending: Sequence[PodInfo], now_s: float, overdue: bool) -> bool:
        """Whether a nominated pod fits on its node without these; those that are overdue count as gone with
        `overdue` only.
        """
        row = self._assignments.encoder.node_rows.get(self._nominations.node_of(entry.seen.uid), -1)
        if row < 0:
            return False
        suspended = self._yielding(entry)
        self._assignments.suspend(suspended)
        try:
            return self._fits_on(
                row, entry, [pod_info for pod_info in ending if overdue or not self.is_overdue(pod_info)], now_s
            )
        finally:
            self._assignments.resume(suspended)

    def is_in_vain(self, entry: PodInfo, now_s: float) -> bool:
        """Whether a nominated pod would not fit on its node even without all pods that end there."""
        node = self._nominations.node_of(entry.seen.uid)
        here = self._assignments.residents.get(node, {})
        return not self.fits_without(entry, [here[uid] for uid in self.ending(entry)], now_s, True)

    def could_help(self, entry: PodInfo) -> bool:
        """Whether any pod that it may evict is assigned."""
        pod = entry.seen.pod
        if int(self._assignments.pods.priorities.min()) >= pod.priority:
            return False  # the common case, without checking assignments
        ledger = self._assignments.ledger
        assigned = np.flatnonzero(ledger.row >= 0)
        return bool((self._assignments.pods.evictable_by(pod.is_best_effort)[assigned] < pod.priority).any())

    def find_victims(self, entry: PodInfo, priority: int, stake: AtStake, only: Mask = EVERYWHERE) -> Preemption:
        """The victims for a pod as if it had this priority, on rows of `only`; reserved resources count as
        currently set.
        """
        assignments = self._assignments
        return preempt(
            assignments.encoder,
            assignments.ledger,
            assignments.narrowing,
            self._profile,
            entry.number,
            priority,
            assignments.pods.evictable_by(entry.seen.pod.is_best_effort),
            assignments.pods.sub_priorities,
            assignments.pods.started_s,
            self._budgets,
            stake=stake,
            only=only,
            nominated=self.nominated(entry, priority),
        )

    def nominated(self, entry: PodInfo, priority: int) -> dict[int, RowNominations]:
        """By row: other nominated pods of this priority or more, and the pods that end for them."""
        assignments = self._assignments
        found: dict[int, RowNominations] = {}
        for uid, other in assignments.reserved.items():
            if other is entry or other.seen.pod.priority < priority:
                continue
            here = assignments.residents.get(assignments.names[other.row], {})
            victims = [here[name].number for name in self._nominations.victims_of(uid) if name in here]
            before = found.get(other.row, RowNominations((), frozenset()))
            found[other.row] = RowNominations((*before.pods, other.number), before.ending | frozenset(victims))
        return found

    def at_stake(
        self,
        jobs: Sequence[PlacedJob],
        entry: PodInfo,
        priority: int,
        none_falls: bool = False,
        gone: frozenset[int] = frozenset(),
    ) -> AtStake:
        """The jobs that a preemption for this pod, or for its gang, could break."""
        assignments = self._assignments
        found = self.losses.at_stake(
            jobs,
            assignments.pods.evictable_by(entry.seen.pod.is_best_effort),
            priority,
            lambda pods: self._budgets.covering(assignments.encoder, assignments.narrowing, pods),
            self.losses.keys_of(entry),
            none_falls,
            gone,
        )
        overdue = np.flatnonzero(self._assignments.pods.overdue_s <= self.round_s)
        return replace(found, spared=np.concatenate([found.spared, overdue])) if len(overdue) else found

    def breaks_budgets(self, victims: Sequence[PodInfo]) -> int:
        """How many of these exceed what their disruption budgets allow, the most important counted first."""
        if not victims:
            return 0
        ordered = sorted(victims, key=lambda entry: (-entry.seen.pod.priority, entry.seen.uid))
        numbers = np.array([entry.number for entry in ordered], dtype=np.int64)
        group, covered, bears = self._budgets.covering(self._assignments.encoder, self._assignments.narrowing, numbers)
        covered = covered[group]
        return int((covered & (covered.cumsum(axis=0) > bears)).any(axis=1).sum())

    def bears(self, entries: Sequence[PodInfo], going: Sequence[PodInfo], by_uid: Mapping[str, PodInfo]) -> bool:
        """Whether budgets allow evicting all of these beside those that go: `going`, and victims whose eviction was
        asked for and that are not seen to end yet.
        """

        def beside() -> list[Pod]:
            asked = (by_uid[uid] for uid in self._nominations.asked if uid in by_uid)
            found = {entry.seen.uid: entry.seen.pod for entry in (*going, *asked)}
            for entry in entries:
                found.pop(entry.seen.uid, None)
            return list(found.values())

        return self._budgets.bears_all([entry.seen.pod for entry in entries], beside)

    def is_going(self, entry: PodInfo) -> bool:
        """Whether a pod is terminating, or a preemptor waits for its end, so it need not be evicted."""
        return entry.seen.terminating or self._nominations.is_doomed(entry.seen.uid)

    def attempt(self, entry: PodInfo, now_s: float) -> PreemptionAttempt:
        """Search for victims without changing state."""
        assignments, priority = self._assignments, entry.seen.pod.priority
        suspended = self._yielding(entry)
        jobs = self.losses.jobs()
        assignments.suspend(suspended)
        try:
            found = self.find_victims(entry, priority, self.at_stake(jobs, entry, priority))
            if found.rest and not self._fits_without(entry, found, now_s):
                found = self.find_victims(entry, priority, self.at_stake(jobs, entry, priority, none_falls=True))
        finally:
            assignments.resume(suspended)
        if found.row < 0:
            return PreemptionAttempt(None, words=found.headline(len(assignments.encoder.node_rows)))
        victims = [assignments.pods.by_number[number] for number in (*found.victims, *found.rest)]
        new = tuple(
            Victim(victim.seen.uid, victim.seen.pod.key, victim.node)
            for victim in victims
            if not self.is_going(victim)
            and victim.state is not SchedulingState.WAITING  # not bound yet: it is unassigned instead
        )
        rule = "lower priority, and gangs that cannot do without them" if found.rest else "lower priority"
        instruction = Preempt(
            entry.seen.uid, entry.seen.pod.key, assignments.names[found.row], new, found.violations, rule
        )
        return PreemptionAttempt(instruction, frozenset(victim.seen.uid for victim in victims))

    def _yielding(self, entry: PodInfo) -> list[PodInfo]:
        """The nominated pods whose reserved resources do not count for this one, itself included."""
        priority = entry.seen.pod.priority
        reserved = self._assignments.reserved.values()
        return [other for other in reserved if other.seen.pod.priority < priority or other is entry]

    def _fits_without(self, entry: PodInfo, found: Preemption, now_s: float) -> bool:
        """Whether the pod fits on the node without all of these."""
        by_number = self._assignments.pods.by_number
        return self._fits_on(found.row, entry, [by_number[victim] for victim in (*found.victims, *found.rest)], now_s)

    def _fits_on(self, row: int, entry: PodInfo, gone: Sequence[PodInfo], now_s: float) -> bool:
        assignments, placing = self._assignments, self._placing
        only = np.zeros(len(assignments.names), dtype=np.bool_)
        only[row] = True
        mark = placing.mark()
        with trial(assignments) as removed:
            removed.remove(gone)
            fits = placing.place([entry], now_s, only)[0].row >= 0
            placing.undo([entry] if fits else [], mark)
        return fits
