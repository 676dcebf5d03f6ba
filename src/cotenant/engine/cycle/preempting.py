"""When a pod without a feasible node may preempt, and its message if it may not.

Problem: victims take their grace period to end, and a pod that is tried again meanwhile must not evict more; nominated pods are
neither free resources nor victims. Choice: a pod that waits for victims, its own or any that end on its nominated node, may not preempt; resources reserved for pods of
lower priority are suspended while victims are searched (engine/cycle/preemption.py), and a victim that is ending already is waited for, not evicted again.
Source: kube-scheduler's DefaultPreemption plugin. Limits: extenders are not asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.engine.cycle.losses import AtStake, JobLosses
from cotenant.engine.cycle.nominations import Nominations
from cotenant.engine.cycle.placing import Placing
from cotenant.engine.cycle.preemption import Budgets, Nominated, preempt
from cotenant.engine.cycle.simulated_evictions import trial
from cotenant.engine.framework.instructions import Preempt, Victim
from cotenant.engine.framework.jobs import Job
from cotenant.engine.framework.pod_state import PodInfo, State
from cotenant.engine.state.assignments import Assignments
from cotenant.engine.state.narrowing import EVERYWHERE
from cotenant.model.arrays import Mask
from cotenant.policy.placement.preemption import Preemption, ineligible
from cotenant.policy.placement.profiles import PlacementProfile


@dataclass(frozen=True, slots=True)
class Attempt:
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
        budgets: Budgets,
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

    def obstacle(self, entry: PodInfo) -> str:
        """Why the pod may not preempt now, empty if it may."""
        seen = entry.seen
        if seen.preempts and entry.seen.uid not in self._nominations:
            return ""  # the common case
        below = np.full(len(self.ending(entry)), seen.pod.priority - 1, dtype=np.int64)
        return ineligible(seen.preempts, seen.pod.priority, below, False)

    def could_help(self, entry: PodInfo) -> bool:
        """Whether any pod of lower priority is assigned."""
        if int(self._assignments.pods.priorities.min()) >= entry.seen.pod.priority:
            return False  # the common case, without checking assignments
        ledger = self._assignments.ledger
        assigned = np.flatnonzero(ledger.row >= 0)
        return bool((self._assignments.pods.priorities[assigned] < entry.seen.pod.priority).any())

    def look(self, entry: PodInfo, priority: int, stake: AtStake, only: Mask = EVERYWHERE) -> Preemption:
        """The victims for a pod as if it had this priority, on rows of `only`; reserved resources count as currently set."""
        assignments = self._assignments
        return preempt(
            assignments.encoder,
            assignments.ledger,
            assignments.narrowing,
            self._profile,
            entry.number,
            priority,
            assignments.pods.priorities,
            assignments.pods.sub_priorities,
            assignments.pods.started_s,
            self._budgets,
            stake=stake,
            only=only,
            nominated=self.nominated(entry, priority),
        )

    def nominated(self, entry: PodInfo, priority: int) -> dict[int, Nominated]:
        """By row: other nominated pods of this priority or more, and the pods that end for them."""
        assignments = self._assignments
        found: dict[int, Nominated] = {}
        for uid, other in assignments.reserved.items():
            if other is entry or other.seen.pod.priority < priority:
                continue
            here = assignments.residents.get(assignments.names[other.row], {})
            victims = [here[each].number for each in self._nominations.victims_of(uid) if each in here]
            before = found.get(other.row, Nominated((), frozenset()))
            found[other.row] = Nominated((*before.pods, other.number), before.ending | frozenset(victims))
        return found

    def at_stake(
        self,
        jobs: Sequence[Job],
        entry: PodInfo,
        priority: int,
        none_falls: bool = False,
        gone: frozenset[int] = frozenset(),
    ) -> AtStake:
        """The jobs that a preemption for this pod, or for its gang, could break."""
        assignments = self._assignments
        return self.losses.at_stake(
            jobs,
            len(assignments.pods.priorities),
            priority,
            lambda pods: self._budgets.covering(assignments.encoder, assignments.narrowing, pods),
            self.losses.keys_of(entry),
            none_falls,
            gone,
        )

    def is_going(self, entry: PodInfo) -> bool:
        """Whether a pod is terminating, or a preemptor waits for its end, so it need not be evicted."""
        return entry.seen.terminating or self._nominations.is_doomed(entry.seen.uid)

    def attempt(self, entry: PodInfo, now_s: float) -> Attempt:
        """Search for victims without changing state."""
        assignments, priority = self._assignments, entry.seen.pod.priority
        suspended = [
            other for other in assignments.reserved.values() if other.seen.pod.priority < priority or other is entry
        ]
        jobs = self.losses.jobs()
        assignments.suspend(suspended)
        try:
            found = self.look(entry, priority, self.at_stake(jobs, entry, priority))
            if found.rest and not self._fits_without(entry, found, now_s):
                found = self.look(entry, priority, self.at_stake(jobs, entry, priority, none_falls=True))
        finally:
            assignments.resume(suspended)
        if found.row < 0:
            return Attempt(None, words=found.headline(len(assignments.encoder.node_rows)))
        victims = [assignments.pods.by_number[number] for number in (*found.victims, *found.rest)]
        new = tuple(
            Victim(victim.seen.uid, victim.seen.pod.key, victim.node)
            for victim in victims
            if not self.is_going(victim)
            and victim.state is not State.WAITING  # not bound yet: it is unassigned instead
        )
        rule = "lower priority, and gangs that cannot do without them" if found.rest else "lower priority"
        instruction = Preempt(
            entry.seen.uid, entry.seen.pod.key, assignments.names[found.row], new, found.violations, rule
        )
        return Attempt(instruction, frozenset(victim.seen.uid for victim in victims))

    def _fits_without(self, entry: PodInfo, found: Preemption, now_s: float) -> bool:
        """Whether the pod fits on the node without all of these."""
        assignments, placing = self._assignments, self._placing
        only = np.zeros(len(assignments.names), dtype=np.bool_)
        only[found.row] = True
        mark = placing.mark()
        with trial(assignments) as removed:
            removed.remove(assignments.pods.by_number[number] for number in (*found.victims, *found.rest))
            fits = placing.place([entry], now_s, only)[0].row >= 0
            placing.undo([entry] if fits else [], mark)
        return fits
