"""When a pod that found no node may have others evicted, and what it is told if not.

Problem: victims take their grace to go, and a pod that asks again meanwhile must not have more evicted; pods that are promised a node are
neither room nor victims. Choice: who waits for victims, its own or any that end on its nominated node, may not preempt; reservations of less
important pods are lifted while victims are looked for (engine/cycle/preemption.py), and a victim that is going already is waited for, not evicted again.
Source: kube-scheduler's DefaultPreemption plugin. Limits: no extenders are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.engine.cycle.nominations import Nominations
from cotenant.engine.cycle.placing import Placing
from cotenant.engine.cycle.preemption import Budgets, preempt
from cotenant.engine.cycle.simulated_evictions import trial
from cotenant.engine.framework.instructions import Preempt, Victim
from cotenant.engine.framework.pod_state import Entry, State
from cotenant.engine.plugins.gangs.losses import AtStake, GangLosses
from cotenant.engine.plugins.gangs.members import Job
from cotenant.engine.state.assignments import Seating
from cotenant.engine.state.narrowing import EVERYWHERE
from cotenant.model.arrays import Mask
from cotenant.policy.placement.preemption import Preemption, ineligible
from cotenant.policy.placement.profiles import Profile


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of looking for victims."""

    preempt: Preempt | None
    waits_for: frozenset[str] = frozenset()  # uids: the victims, and those of them that are going already
    words: str = ""  # why not, as kube-scheduler appends it to the pod's reason


class Preempting:
    """Looks for victims over one cluster's seats."""

    def __init__(
        self,
        seating: Seating,
        nominations: Nominations,
        budgets: Budgets,
        profile: Profile,
        placing: Placing,
        losses: GangLosses,
    ) -> None:
        self.losses = losses
        self._seating = seating
        self._nominations = nominations
        self._budgets = budgets
        self._profile = profile
        self._placing = placing

    def ending(self, entry: Entry) -> set[str]:
        """UIDs of less important pods that are going, on the node that the pod is promised."""
        node = self._nominations.node_of(entry.seen.uid)
        return {
            uid
            for uid, other in self._seating.residents.get(node, {}).items()
            if other.seen.pod.priority < entry.seen.pod.priority
            and (other.seen.terminating or self._nominations.is_doomed(uid))
        }

    def obstacle(self, entry: Entry) -> str:
        """Why the pod may not preempt now, empty if it may."""
        seen = entry.seen
        below = np.full(len(self.ending(entry)), seen.pod.priority - 1, dtype=np.int64)
        return ineligible(seen.preempts, seen.pod.priority, below, False)

    def could_help(self, entry: Entry) -> bool:
        """Whether anybody less important sits anywhere."""
        ledger = self._seating.ledger
        seated = np.flatnonzero(ledger.row >= 0)
        return bool((self._seating.priorities[seated] < entry.seen.pod.priority).any())

    def look(self, entry: Entry, priority: int, stake: AtStake, only: Mask = EVERYWHERE) -> Preemption:
        """Whom to evict for a pod as if it were of this priority, on rows of `only`; reservations count as they stand."""
        seating = self._seating
        return preempt(
            seating.encoder,
            seating.ledger,
            seating.narrowing,
            self._profile,
            entry.number,
            priority,
            seating.priorities,
            seating.started_s,
            self._budgets,
            stake=stake,
            only=only,
        )

    def at_stake(
        self,
        jobs: Sequence[Job],
        entry: Entry,
        priority: int,
        none_falls: bool = False,
        gone: frozenset[int] = frozenset(),
    ) -> AtStake:
        """What gangs would lose by a preemption for this pod, or for its gang."""
        seating = self._seating
        return self.losses.at_stake(
            jobs,
            len(seating.priorities),
            priority,
            lambda pods: self._budgets.covering(seating.encoder, seating.narrowing, pods),
            self.losses.keys_of(entry),
            none_falls,
            gone,
        )

    def is_going(self, entry: Entry) -> bool:
        """Whether it need not be evicted any more: it ends, or somebody waits for it to."""
        return entry.seen.terminating or self._nominations.is_doomed(entry.seen.uid)

    def attempt(self, entry: Entry, now_s: float) -> Attempt:
        """Look for victims. Nothing is changed."""
        seating, priority = self._seating, entry.seen.pod.priority
        lifted = [other for other in seating.reserved.values() if other.seen.pod.priority < priority or other is entry]
        jobs = self.losses.jobs()
        seating.lift(lifted)
        try:
            found = self.look(entry, priority, self.at_stake(jobs, entry, priority))
            if found.rest and not self._fits_then(entry, found, now_s):
                found = self.look(entry, priority, self.at_stake(jobs, entry, priority, none_falls=True))
        finally:
            seating.lay(lifted)
        if found.row < 0:
            return Attempt(None, words=found.headline(len(seating.encoder.node_rows)))
        victims = [seating.by_number[number] for number in (*found.victims, *found.rest)]
        new = tuple(
            Victim(victim.seen.uid, victim.seen.pod.key)
            for victim in victims
            if not self.is_going(victim)
            and victim.state is not State.WAITING  # it only holds its node, and gives it back
        )
        rule = "lower priority, and gangs that cannot do without them" if found.rest else "lower priority"
        instruction = Preempt(entry.seen.uid, entry.seen.pod.key, seating.names[found.row], new, found.violations, rule)
        return Attempt(instruction, frozenset(victim.seen.uid for victim in victims))

    def _fits_then(self, entry: Entry, found: Preemption, now_s: float) -> bool:
        """Whether the pod gets the node if all of these are gone."""
        seating, placing = self._seating, self._placing
        only = np.zeros(len(seating.names), dtype=np.bool_)
        only[found.row] = True
        mark = placing.mark()
        with trial(seating) as off:
            off.take_off(seating.by_number[number] for number in (*found.victims, *found.rest))
            fits = placing.place([entry], now_s, only)[0].row >= 0
            placing.undo([entry] if fits else [], mark)
        return fits
