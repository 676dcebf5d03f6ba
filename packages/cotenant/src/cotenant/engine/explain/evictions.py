"""What is known of preemption for a pod that waits: why nothing is evicted for it, and which priorities could change
that.

"what if it were more important" could be asked for every integer of 32 bits. The preemption search itself is asked, on
the arrays of the question, at priorities just above that of some pod; what works at one works above it, so bisection
finds the lowest.
Limits: gangs and quotas are not considered here: whether the pod is then placed is tried in a copy of the engine
(question.py). Stand-ins of reservations are never evicted and do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.eviction.preemption import DisruptionBudgets, preempt
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.explain.question import listed
from cotenant.engine.explain.what_if import WhatIfView
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.state.ledger import Ledger
from cotenant.model.arrays import Int
from cotenant.model.decisions.answers import Concern
from cotenant.policy.placement.preemption import Preemption
from cotenant.policy.placement.profiles import PlacementProfile

_HIGHEST = 2**31  # above it are stand-ins of reservations


class PreemptionAnswers:
    """Answers about preemption for the pods of one cluster."""

    def __init__(
        self,
        components: ClusterComponents,
        pods: Pods,
        budgets: DisruptionBudgets,
        profile: PlacementProfile,
        progress: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`progress`: how far pods are that leave by an EvictionRequest, by UID."""
        self._progress = progress
        self._components = components
        self._pods = pods
        self._budgets = budgets
        self._profile = profile

    def why_none(self, entry: PodInfo, view: WhatIfView, held: tuple[Concern, ...]) -> str:
        """What is known of preemption for a pod that is not placed: the node it is nominated for, or why nothing is
        evicted.
        """
        node = self._nominated_node(entry)
        if node:
            nominations, uid = self._components.nominations, entry.seen.uid
            leaving, moving = self._names(nominations.victims_of(uid)), self._names(nominations.moving_of(uid))
            waits = [f"{leaving} to terminate"] if leaving else []
            waits += [f"{moving} to be moved"] if moving else []
            told = "".join(
                f". {self._pods.by_uid[uid].seen.pod.key}: {self._progress[uid]}"
                for uid in sorted(nominations.victims_of(uid))
                if uid in self._progress and uid in self._pods.by_uid
            )
            late = self._components.preempting.late((entry,))
            told += f". {late}" if late else ""
            return f"{node} is its nominated node" + (f"; it waits for {' and '.join(waits)}" if waits else "") + told
        if not entry.seen.preempts:
            return "its preemptionPolicy is Never: no pod is evicted for it"
        pods, best_effort = self._components.assignments.pods, view.pod.is_best_effort
        assigned = np.flatnonzero(view.ledger.row >= 0)  # includes pods with a nominated node, which yield as well
        if not (pods.evictable_by(best_effort)[assigned] < view.pod.priority).any():
            kind = "best-effort pod" if best_effort else "pod"
            return f"no {kind} of a priority below {view.pod.priority} is on a node"
        holder = next((concern for concern in held if concern.holds), None)
        if holder is not None:
            return f"no pod is evicted for it while {holder.kind} {holder.name} holds it back"
        attempt = self._attempt(entry, view, view.pod.priority)
        if attempt.row >= 0:
            return "no pod is evicted for it now"
        return attempt.headline(int(view.checked.here.sum()))

    def levels(self, entry: PodInfo, view: WhatIfView) -> tuple[int, ...]:
        """Priorities at which one more pod on a node, or in the queue before it, would be less important."""
        if not entry.seen.preempts:
            return ()
        assigned = np.flatnonzero(view.ledger.row >= 0)
        priorities = self._components.assignments.pods.evictable_by(view.pod.is_best_effort)
        return levels_above(view.pod.priority, priorities[assigned])

    def min_priority(self, entry: PodInfo, view: WhatIfView) -> int | None:
        """The lowest priority at which a node could be cleared for the pod alone; None if there is none, or if it
        must not preempt.
        """
        if not entry.seen.preempts or self._nominated_node(entry):
            return None
        assigned = np.flatnonzero(view.ledger.row >= 0)
        return lowest(
            view.pod.priority,
            self._components.assignments.pods.evictable_by(view.pod.is_best_effort)[assigned],
            lambda priority: self._attempt(entry, view, priority).row >= 0,
        )

    def _nominated_node(self, entry: PodInfo) -> str:
        return self._components.nominations.node_of(entry.seen.uid)

    def _attempt(self, entry: PodInfo, view: WhatIfView, priority: int) -> Preemption:
        assignments, preempting = self._components.assignments, self._components.preempting
        return preempt(
            view.encoder,
            self._ledger_for(view, priority),
            view.narrowing,
            self._profile,
            view.number,
            priority,
            assignments.pods.evictable_by(view.pod.is_best_effort),
            assignments.pods.sub_priorities,
            assignments.pods.started_s,
            self._budgets,
            view.stand_in,
            preempting.at_stake(preempting.losses.jobs(), entry, priority),
            nominated=preempting.nominated(entry, priority),
        )

    def _ledger_for(self, view: WhatIfView, priority: int) -> Ledger:
        """The ledger as a pod of this priority sees it: without resources reserved for nominated pods of lower
        priority.
        """
        row = view.ledger.row
        nominated = [
            other.number
            for other in self._components.assignments.reserved.values()
            if other.seen.pod.priority < priority and row[other.number] >= 0
        ]
        if not nominated:
            return view.ledger
        nodes = view.ledger.nodes
        nodes = nodes._replace(
            requested=nodes.requested.copy(), sums=nodes.sums.copy(), group_count=nodes.group_count.copy()
        )
        ledger = view.ledger.copy(nodes, view.ledger.shapes)
        ledger.remove(np.array(nominated, dtype=np.int64))
        return ledger

    def _names(self, uids: frozenset[str]) -> str:
        pods = self._pods.by_uid
        return listed(sorted(pods[uid].seen.pod.key for uid in uids if uid in pods))


def levels_above(above: int, priorities: Int) -> tuple[int, ...]:
    """One more than each of these priorities that is at least `above`, ascending."""
    return tuple((np.unique(priorities[(priorities >= above) & (priorities < _HIGHEST)]) + 1).tolist())


def lowest(above: int, priorities: Int, works: Callable[[int], bool]) -> int | None:
    """The lowest priority above `above` for which `works`, given the priorities of pods that could be evicted; None
    if there is none. `works` must be monotonic.
    """
    steps = levels_above(above, priorities)
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        if works(steps[middle]):
            high = middle
        else:
            low = middle + 1
    return steps[low] if low < len(steps) else None
