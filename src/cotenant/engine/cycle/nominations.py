"""Pods that were promised a node once its victims are gone, and the room kept for them.

Problem: between the eviction and the bind lies the victims' grace, and the room must neither go to somebody less important nor be
withheld from somebody more important. Choice: a nominated pod's requests count on its node for pods of its own or lower priority, and are
lifted while pods of higher priority, or it itself, are judged; what its rules would forbid there holds too. It waits alone, and is woken when
its last victim is gone. Source: kube-scheduler's nominator. Limits: a pod without rules of its own does not see the nominated pod's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import Group, Segment
from cotenant.engine.state.assignments import Assignments
from cotenant.engine.state.narrowing import EVERYWHERE
from cotenant.model.arrays import Mask
from cotenant.model.errors import Permanent


@dataclass(slots=True)
class Nomination:
    """One promise."""

    entry: PodInfo
    node: str
    victims: set[str]  # uids of those that have not gone yet


class Nominations:
    """Who is promised what."""

    def __init__(self, assignments: Assignments) -> None:
        self._assignments = assignments
        self._of: dict[str, Nomination] = {}
        self._waits_for: dict[str, set[str]] = {}  # victim -> preemptors

    def __contains__(self, uid: str) -> bool:
        return uid in self._of

    def __len__(self) -> int:
        return len(self._of)

    def add(self, entry: PodInfo, node: str, victims: set[str]) -> tuple[str, ...]:
        """Promise the node; the uids of less important pods that were promised the same node and had better look elsewhere."""
        uid = entry.seen.uid
        displaced = tuple(
            other for other in self.on(node) if self._of[other].entry.seen.pod.priority < entry.seen.pod.priority
        )
        self._of[uid] = Nomination(entry, node, set(victims))
        for victim in victims:
            self._waits_for.setdefault(victim, set()).add(uid)
        self._assignments.reserve(entry, node)
        return displaced

    def drop(self, uid: str) -> bool:
        """The promise is kept, or taken back; whether there was one."""
        nomination = self._of.pop(uid, None)
        if nomination is None:
            return False
        for victim in nomination.victims:
            waiting = self._waits_for[victim]
            waiting.discard(uid)
            if not waiting:
                del self._waits_for[victim]
        if uid in self._assignments.reserved:
            self._assignments.release(nomination.entry)
        return True

    def node_of(self, uid: str) -> str:
        """The node that the pod is promised, empty if none."""
        nomination = self._of.get(uid)
        return nomination.node if nomination is not None else ""

    def victims_of(self, uid: str) -> frozenset[str]:
        """UIDs of those that the pod waits for."""
        nomination = self._of.get(uid)
        return frozenset(nomination.victims) if nomination is not None else frozenset()

    def victim_gone(self, uid: str) -> tuple[str, ...]:
        """A pod is gone; those whose last victim it was."""
        ready = []
        for preemptor in self._waits_for.pop(uid, ()):
            victims = self._of[preemptor].victims
            victims.discard(uid)
            if not victims:
                ready.append(preemptor)
        return tuple(ready)

    def node_seen(self, name: str) -> None:
        """A node is there that may have been promised before it was."""
        for uid in self.on(name):
            self._assignments.reserve(self._of[uid].entry, name)

    def is_doomed(self, uid: str) -> bool:
        """Whether somebody waits for this pod to go: it is not evicted twice."""
        return uid in self._waits_for

    def wait_for(self, uid: str, ending: set[str]) -> bool:
        """It was judged and did not fit yet: these are going on its node, so it waits for them too. Whether it waits for anybody."""
        victims = self._of[uid].victims
        for victim in ending:
            victims.add(victim)
            self._waits_for.setdefault(victim, set()).add(uid)
        return bool(victims)

    def on(self, node: str) -> tuple[str, ...]:
        """The pods that are promised this node."""
        return tuple(uid for uid, nomination in self._of.items() if nomination.node == node)

    def nodes(self) -> dict[str, str]:
        """uid -> node."""
        return {uid: nomination.node for uid, nomination in self._of.items()}

    def all(self) -> tuple[tuple[str, str, set[str]], ...]:
        """uid, node, victims that have not gone."""
        return tuple((uid, n.node, set(n.victims)) for uid, n in self._of.items())

    def segments(self, pods: list[tuple[PodInfo, Group]]) -> Iterator[Segment]:
        """The pods in runs that may be judged together; reservations stand as each run must see them.

        A nominated pod comes alone and first for its own node only; where that fails, once more for every node. A pod that has rules about
        others comes alone where somebody at least as important is promised a node: they hold beside that one too.
        """
        if not self._of:
            yield Segment(pods, EVERYWHERE, True)
            return
        run: list[tuple[PodInfo, Group]] = []
        priority: int | None = None
        lifted: list[PodInfo] = []
        for pod in pods:
            entry = pod[0]
            own = entry.seen.uid in self._of
            narrowed = self._assignments.narrowing.is_narrowed(entry.number)
            if run and (own or narrowed or entry.seen.pod.priority != priority):
                yield Segment(run, EVERYWHERE, True)
                run = []
            if own or entry.seen.pod.priority != priority:
                self._back(lifted)
                priority = entry.seen.pod.priority
                lifted = [
                    other
                    for uid, other in self._assignments.reserved.items()
                    if other.seen.pod.priority < priority and uid != entry.seen.uid
                ]
                self._assignments.suspend(lifted)
            if own:
                yield from self._own(pod)
                self._back(lifted)
                priority = None
            elif narrowed:
                yield Segment([pod], self._beside(entry), True)
            else:
                run.append(pod)
        if run:
            yield Segment(run, EVERYWHERE, True)
        self._back(lifted)

    def _beside(self, entry: PodInfo) -> Mask:
        """Rows that the pod's rules leave, also if those who are promised a node were there already."""
        expected = tuple(
            (other.number, other.row)
            for other in self._assignments.reserved.values()
            if other.seen.pod.priority >= entry.seen.pod.priority and other is not entry
        )
        return self._assignments.narrowing.allowed_with(entry.number, expected)

    def _own(self, pod: tuple[PodInfo, Group]) -> Iterator[Segment]:
        """A nominated pod, without its own reservation."""
        entry, uid = pod[0], pod[0].seen.uid
        node = self._of[uid].node
        row = self._assignments.encoder.node_rows.get(node)
        if row is not None:
            if uid in self._assignments.reserved:
                self._assignments.release(entry, freed=False)
            beside = self._beside(entry)
            only = np.zeros(len(self._assignments.names), dtype=np.bool_)
            only[row] = len(beside) == 0 or beside[row]
            yield Segment([pod], only, False)
        if not entry.node:
            yield Segment([pod], self._beside(entry), True)
        if uid in self._of and not entry.node:
            self._assignments.reserve(entry, node)

    def _back(self, lifted: list[PodInfo]) -> None:
        self._assignments.resume(entry for entry in lifted if entry.seen.uid in self._assignments.reserved)
        lifted.clear()

    def validate(self) -> None:
        """Every promise has its pod, and room is kept where the node is there. Raises `Permanent`."""
        for uid, nomination in self._of.items():
            there = nomination.node in self._assignments.encoder.node_rows
            if there != (uid in self._assignments.reserved):
                raise Permanent(
                    f"pod {nomination.entry.seen.pod.key} is promised {nomination.node}, and room is {'' if there else 'not '}due"
                )
            if any(uid not in self._waits_for.get(victim, ()) for victim in nomination.victims):
                raise Permanent(f"pod {nomination.entry.seen.pod.key} waits for a victim that does not know it")
        if not self._assignments.reserved.keys() <= self._of.keys():
            raise Permanent("room is kept for a pod that is promised none")
