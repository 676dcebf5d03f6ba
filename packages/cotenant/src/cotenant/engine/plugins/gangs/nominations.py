"""Nominations of a bundle of gangs: nodes that are kept for members until what was evicted for them is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from cotenant.engine.cycle.access import CycleAccess
from cotenant.engine.framework.instructions import Preempt, Victim
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.plugins.gangs.preemption import PreemptionPlan
from cotenant.engine.state.narrowing import EVERYWHERE
from cotenant.model.arrays import Mask


class GangNominations:
    """Those of the gangs that are judged."""

    def __init__(self, cycle: CycleAccess) -> None:
        self._components = cycle.components
        self._pods = cycle.pods
        self._outbox = cycle.outbox
        self._waiting = cycle.waiting

    @contextmanager
    def hidden(self, entries: list[PodInfo]) -> Iterator[None]:
        """Hide the nominations of the bundle and of less important pods; those that are still valid are restored at
        the end.
        """
        assignments, nominations = self._components.assignments, self._components.nominations
        if not assignments.reserved:
            yield
            return
        lowest = min(entry.seen.pod.priority for entry in entries)
        own = [entry for entry in entries if entry.seen.uid in assignments.reserved]
        for entry in own:
            assignments.release(entry, freed=False)
        lifted = [entry for entry in assignments.reserved.values() if entry.seen.pod.priority < lowest]
        assignments.suspend(lifted)
        try:
            if any(assignments.narrowing.is_narrowed(entry.number) for entry in entries):
                assignments.narrowing.expect(
                    tuple(
                        (entry.number, entry.row)
                        for entry in assignments.reserved.values()
                        if entry.seen.pod.priority >= lowest
                    )
                )
            yield
        finally:
            assignments.narrowing.expect(())
            assignments.resume(entry for entry in lifted if entry.seen.uid in assignments.reserved)
            for entry in own:
                node = nominations.node_of(entry.seen.uid)
                if node and not entry.node:
                    assignments.reserve(entry, node)

    def rows(self, entries: list[PodInfo]) -> Mask:
        """The rows that members are nominated for."""
        nominations, assignments = self._components.nominations, self._components.assignments
        if not len(nominations):
            return EVERYWHERE
        rows = [assignments.encoder.node_rows.get(nominations.node_of(entry.seen.uid), -1) for entry in entries]
        rows = [row for row in rows if row >= 0]
        if not rows:
            return EVERYWHERE
        mask = np.zeros(len(assignments.names), dtype=np.bool_)
        mask[rows] = True
        return mask

    def reconsider(self, entries: list[PodInfo]) -> None:
        """Keep the nominations of a bundle that did not fit only while victims are still ending."""
        nominations = self._components.nominations
        nominated = [entry for entry in entries if entry.seen.uid in nominations]
        if nominated and not any(nominations.wait_for(entry.seen.uid, set()) for entry in nominated):
            for entry in nominated:
                self._pods.drop_nomination(entry)

    def forget(self, entries: list[PodInfo]) -> None:
        """Others take their place."""
        for entry in entries:
            self._components.nominations.drop(entry.seen.uid)

    def evict(self, plan: PreemptionPlan, now_s: float) -> None:
        """Nominate every member for its node and evict the victims; the first member waits for all of them."""
        components, going = self._components, {victim.seen.uid for victim in plan.victims}
        lost = ", and gangs that cannot do without them" if plan.fallen else ""
        at: dict[str, list[Victim]] = {}
        for victim in plan.victims:
            if victim.state is not SchedulingState.WAITING and not components.preempting.is_going(victim):
                at.setdefault(victim.node, []).append(Victim(victim.seen.uid, victim.seen.pod.key, victim.node))
        nodes = [components.assignments.names[row] for _, row in plan.rows]
        elsewhere = [victim for node in at if node not in nodes for victim in at[node]]
        for (entry, _), node in zip(plan.rows, nodes, strict=True):
            for other in components.nominations.add(entry, node, going):
                self._pods.drop_nomination(self._pods.by_uid[other])
                self._pods.requeue(self._pods.by_uid[other], now_s)
            victims = (*at.pop(node, ()), *elsewhere)
            components.nominations.ask((victim.uid for victim in victims), entry.seen.uid, now_s)
            self._outbox.say(
                Preempt(
                    entry.seen.uid,
                    entry.seen.pod.key,
                    node,
                    victims,
                    plan.breaks_budgets,
                    f"lower priority, for a whole gang{lost}",
                )
            )
            going, elsewhere = set(), []
        for victim in plan.victims:
            self._waiting.preempted(victim.seen.uid, now_s)
