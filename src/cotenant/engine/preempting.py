"""When a pod that found no node may have others evicted, and what it is told if not.

Problem: victims take their grace to go, and a pod that asks again meanwhile must not have more evicted; pods that are promised a node are
neither room nor victims. Choice: who waits for victims, its own or any that end on its nominated node, may not preempt; reservations of less
important pods are lifted while victims are looked for (engine/preemption.py), and a victim that is going already is waited for, not evicted again.
Source: kube-scheduler's DefaultPreemption plugin. Limits: no extenders are asked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.engine.instructions import Preempt, Victim
from cotenant.engine.nominations import Nominations
from cotenant.engine.podstate import Entry, State
from cotenant.engine.preemption import Budgets, preempt
from cotenant.engine.seating import Seating
from cotenant.model.arrays import Int
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

    def __init__(self, seating: Seating, nominations: Nominations, budgets: Budgets, profile: Profile) -> None:
        self._seating = seating
        self._nominations = nominations
        self._budgets = budgets
        self._profile = profile

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

    def look(self, entry: Entry, priority: int, priorities: Int) -> Preemption:
        """Whom to evict for a pod as if it were of this priority, and others of these, by number; reservations count as they stand."""
        seating = self._seating
        return preempt(
            seating.encoder,
            seating.ledger,
            seating.narrowing,
            self._profile,
            entry.number,
            priority,
            priorities,
            seating.started_s,
            self._budgets,
        )

    def is_going(self, entry: Entry) -> bool:
        """Whether it need not be evicted any more: it ends, or somebody waits for it to."""
        return entry.seen.terminating or self._nominations.is_doomed(entry.seen.uid)

    def attempt(self, entry: Entry) -> Attempt:
        """Look for victims. Nothing is changed."""
        seating, priority = self._seating, entry.seen.pod.priority
        lifted = [other for other in seating.reserved.values() if other.seen.pod.priority < priority or other is entry]
        seating.lift(lifted)
        try:
            found = self.look(entry, priority, seating.priorities)
        finally:
            seating.lay(lifted)
        if found.row < 0:
            return Attempt(None, words=found.headline(len(seating.encoder.node_rows)))
        victims = [seating.by_number[number] for number in found.victims]
        new = tuple(
            Victim(victim.seen.uid, victim.seen.pod.key)
            for victim in victims
            if not self.is_going(victim)
            and victim.state is not State.WAITING  # it only holds its node, and gives it back
        )
        instruction = Preempt(entry.seen.uid, entry.seen.pod.key, seating.names[found.row], new, found.violations)
        return Attempt(instruction, frozenset(victim.seen.uid for victim in victims))
