"""Pods with a nominated node that wait for their victims to end, and the resources reserved for them.

Between the eviction and the bind the victims terminate, and the freed resources must neither go to pods of lower
priority nor be withheld from pods of higher priority. A nominated pod's requests count on its node for pods of its own
or lower priority, and are suspended while pods of higher priority, or the pod itself, are evaluated; its rules count as
well. It waits in a group of its own, and is woken when its last victim is gone. The same holds for a pod for which a
rebalancer makes room: it waits for the pods that are being moved, which are not victims, so another preemptor may still
evict them; devices that are free already cannot be set aside, so other pods that ask for devices are kept off its node
meanwhile.
A victim that was told to go counts as going until it is gone or its eviction is withdrawn, also where its preemptor's
nomination is dropped meanwhile: nobody calls it back, and what counts on it as staying would be broken later.
Source: kube-scheduler's nominator.
Limits: a pod without rules of its own is not affected by the nominated pod's rules; a gang of which some members ask
for devices is kept off such nodes as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import QueuedGroup, Segment
from cotenant.engine.state.assignments import Assignments
from cotenant.engine.state.narrowing import EVERYWHERE
from cotenant.model.arrays import Mask
from cotenant.model.devices.request import asks_devices
from cotenant.model.errors import Permanent

GOING_S = 300.0  # what carries out an eviction says how it ends long before; this is for one of which nothing is heard


@dataclass(frozen=True, slots=True)
class AskedEviction:
    """An eviction that was asked for and of which no end is known."""

    preemptor: str  # UID of the pod for whose nomination it was
    until_s: float  # it is not believed in any more from then on


@dataclass(slots=True)
class Nomination:
    """A nominated node, the victims on it, and the pods that a rebalancer moves away from it."""

    entry: PodInfo
    node: str
    victims: set[str]  # uids of those that still exist
    moving: set[str]  # the same


class Nominations:
    """All nominations."""

    def __init__(self, assignments: Assignments) -> None:
        self._assignments = assignments
        self.by_uid: dict[str, Nomination] = {}  # of the nominated pods; changed here only
        self._waits_for: dict[str, set[str]] = {}  # victim -> preemptors
        self._moves_for: dict[str, set[str]] = {}  # pod that is being moved -> pods that wait for its room
        # evictions that were asked for, by UID of the victim, those in front that end first; read only elsewhere
        self.asked: dict[str, AskedEviction] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self.by_uid

    def __len__(self) -> int:
        return len(self.by_uid)

    def add(
        self, entry: PodInfo, node: str, victims: set[str], moving: Collection[str] = frozenset()
    ) -> tuple[str, ...]:
        """Nominate the node. Returns the uids of pods of lower priority nominated for the same node, which should
        be tried elsewhere.
        """
        uid = entry.seen.uid
        displaced = tuple(
            other for other in self.on(node) if self.by_uid[other].entry.seen.pod.priority < entry.seen.pod.priority
        )
        self.by_uid[uid] = Nomination(entry, node, set(victims), set(moving))
        for victim in victims:
            self._waits_for.setdefault(victim, set()).add(uid)
        for name in moving:
            self._moves_for.setdefault(name, set()).add(uid)
        self._assignments.reserve(entry, node)
        return displaced

    def drop(self, uid: str) -> bool:
        """Remove a nomination. Whether there was one."""
        nomination = self.by_uid.pop(uid, None)
        if nomination is None:
            return False
        for index, pods in ((self._waits_for, nomination.victims), (self._moves_for, nomination.moving)):
            for pod in pods:
                index[pod].discard(uid)
                if not index[pod]:
                    del index[pod]
        if uid in self._assignments.reserved:
            self._assignments.release(nomination.entry)
        return True

    def node_of(self, uid: str) -> str:
        """The pod's nominated node, empty if none."""
        nomination = self.by_uid.get(uid)
        return nomination.node if nomination is not None else ""

    def victims_of(self, uid: str) -> frozenset[str]:
        """UIDs of the victims that the pod waits for."""
        nomination = self.by_uid.get(uid)
        return frozenset(nomination.victims) if nomination is not None else frozenset()

    def moving_of(self, uid: str) -> frozenset[str]:
        """UIDs of the pods that a rebalancer moves away to make room for this pod."""
        nomination = self.by_uid.get(uid)
        return frozenset(nomination.moving) if nomination is not None else frozenset()

    def victim_gone(self, uid: str) -> tuple[str, ...]:
        """A pod is gone. Returns the preemptors whose last victim it was, and pods for which it was moved: what is
        left to move may not be needed.
        """
        self.asked.pop(uid, None)
        waited = {*self._waits_for.pop(uid, ()), *self._moves_for.pop(uid, ())}
        ready = []
        for preemptor in sorted(waited):
            nomination = self.by_uid[preemptor]
            nomination.victims.discard(uid)
            nomination.moving.discard(uid)
            if not nomination.victims:
                ready.append(preemptor)
        return tuple(ready)

    def node_seen(self, name: str) -> None:
        """A node was added that pods may be nominated for already."""
        for uid in self.on(name):
            self._assignments.reserve(self.by_uid[uid].entry, name)

    def ask(self, victims: Iterable[str], preemptor: str, now_s: float) -> None:
        """The eviction of these pods is asked for with the preemptor's nomination."""
        for victim in victims:
            self.asked.pop(victim, None)
            self.asked[victim] = AskedEviction(preemptor, now_s + GOING_S)

    def restore_asked(self, asked: Mapping[str, AskedEviction]) -> None:
        """Take over what was asked for before a rebuild."""
        self.asked.update(asked)

    def forget_asked(self, uid: str) -> None:
        """The pod's own state says from now on whether it is going."""
        self.asked.pop(uid, None)

    def stays(self, uid: str) -> tuple[str, ...]:
        """A pod is not evicted after all. Returns the preemptors that waited for it."""
        self.asked.pop(uid, None)
        waited = tuple(sorted(self._waits_for.pop(uid, ())))
        for preemptor in waited:
            self.by_uid[preemptor].victims.discard(uid)
        return waited

    def is_awaited(self, uid: str) -> bool:
        """Whether a preemptor waits for this pod to end."""
        return uid in self._waits_for

    def is_doomed(self, uid: str) -> bool:
        """Whether a preemptor waits for this pod to end, or its eviction was asked for: it need not be evicted again,
        and nothing may count on it.
        """
        return uid in self._waits_for or uid in self.asked

    def wait_for(self, uid: str, ending: Collection[str]) -> bool:
        """Wait for more ending pods on the node of a nominated pod that did not fit yet. Whether it waits for any,
        or for one that is moved.
        """
        victims, moving = self.by_uid[uid].victims, self.by_uid[uid].moving
        for victim in ending:
            victims.add(victim)
            self._waits_for.setdefault(victim, set()).add(uid)
        return bool(victims or moving)

    def on(self, node: str) -> tuple[str, ...]:
        """The pods nominated for this node."""
        return tuple(uid for uid, nomination in self.by_uid.items() if nomination.node == node)

    def nodes(self) -> dict[str, str]:
        """uid -> node."""
        return {uid: nomination.node for uid, nomination in self.by_uid.items()}

    def each(self) -> tuple[Nomination, ...]:
        """The nominations themselves; read only."""
        return tuple(self.by_uid.values())

    def all(self) -> tuple[tuple[str, str, set[str], set[str]], ...]:
        """uid, node, and the victims and the moved pods that still exist."""
        return tuple((uid, n.node, set(n.victims), set(n.moving)) for uid, n in self.by_uid.items())

    def segments(self, pods: list[tuple[PodInfo, QueuedGroup]]) -> Iterator[Segment]:
        """The pods in runs that may be placed together; reserved resources are set as each run must see them.

        A nominated pod is tried alone, first on its own node only; if that fails, again on every node. A pod that has
        rules about others is tried alone if pods of equal or higher priority are nominated: its rules must hold with
        those assigned as well.
        """
        if not self.by_uid:
            yield Segment(pods, EVERYWHERE, True)
            return
        run: list[tuple[PodInfo, QueuedGroup]] = []
        priority: int | None = None
        suspended: list[PodInfo] = []
        try:
            for pod in pods:
                entry = pod[0]
                own = entry.seen.uid in self.by_uid
                closed = self.closed_to([entry])
                narrowed = bool(closed) or self._assignments.narrowing.is_narrowed(entry.number)
                if run and (own or narrowed or entry.seen.pod.priority != priority):
                    yield Segment(run, EVERYWHERE, True)
                    run = []
                if own or entry.seen.pod.priority != priority:
                    self._resume(suspended)
                    priority = entry.seen.pod.priority
                    suspended = [
                        other
                        for uid, other in self._assignments.reserved.items()
                        if other.seen.pod.priority < priority and uid != entry.seen.uid
                    ]
                    self._assignments.suspend(suspended)
                if own:
                    yield from self._own(pod)
                    self._resume(suspended)
                    priority = None
                elif narrowed:
                    yield Segment([pod], self.without(self._allowed_with_nominated(entry), closed), True)
                else:
                    run.append(pod)
            if run:
                yield Segment(run, EVERYWHERE, True)
        finally:  # also where the judgement of a large pod is given up
            self._resume(suspended)

    def closed_to(self, entries: Sequence[PodInfo]) -> list[int]:
        """Rows on which pods that are placed together are not placed where one of them asks for devices: a
        rebalancer frees devices there, one by one, for another pod that is not less important.
        """
        asking = [entry.seen.pod.priority for entry in entries if asks_devices(entry.seen.pod.requests)]
        if not self._moves_for or not asking:
            return []
        own = {entry.seen.uid for entry in entries}
        return [
            nomination.entry.row
            for uid, nomination in self.by_uid.items()
            if nomination.moving
            and uid in self._assignments.reserved
            and uid not in own
            and nomination.entry.seen.pod.priority >= min(asking)
            and asks_devices(nomination.entry.seen.pod.requests)
        ]

    def without(self, allowed: Mask, closed: list[int]) -> Mask:
        """`allowed` without these rows."""
        if not closed:
            return allowed
        left = allowed.copy() if len(allowed) else np.ones(len(self._assignments.names), dtype=np.bool_)
        left[closed] = False
        return left

    def _allowed_with_nominated(self, entry: PodInfo) -> Mask:
        """Rows that satisfy the pod's rules, also with nominated pods assigned."""
        expected = tuple(
            (other.number, other.row)
            for other in self._assignments.reserved.values()
            if other.seen.pod.priority >= entry.seen.pod.priority and other is not entry
        )
        return self._assignments.narrowing.allowed_with(entry.number, expected)

    def _own(self, pod: tuple[PodInfo, QueuedGroup]) -> Iterator[Segment]:
        """A nominated pod, without its own reserved resources."""
        entry, uid = pod[0], pod[0].seen.uid
        node = self.by_uid[uid].node
        row = self._assignments.encoder.node_rows.get(node)
        if row is not None and uid in self._assignments.reserved:
            self._assignments.release(entry, freed=False)
        try:
            if row is not None:
                allowed = self._allowed_with_nominated(entry)
                only = np.zeros(len(self._assignments.names), dtype=np.bool_)
                only[row] = len(allowed) == 0 or allowed[row]
                yield Segment([pod], only, False)
            if not entry.node:
                yield Segment([pod], self._allowed_with_nominated(entry), True)
        finally:  # also where the judgement of a large pod is given up
            if uid in self.by_uid and not entry.node:
                self._assignments.reserve(entry, node)

    @contextmanager
    def without_own(self, entry: PodInfo) -> Iterator[None]:
        """What is reserved for this pod does not count, as while it is judged."""
        own = [entry] if entry.seen.uid in self._assignments.reserved else []
        if own:
            self._assignments.suspend(own)
        try:
            yield
        finally:
            self._resume(own)

    def _resume(self, suspended: list[PodInfo]) -> None:
        self._assignments.resume(entry for entry in suspended if entry.seen.uid in self._assignments.reserved)
        suspended.clear()

    def validate(self) -> None:
        """Check that every nomination has its pod, and reserves resources if its node is known. Raises `Permanent`."""
        for uid, nomination in self.by_uid.items():
            there = nomination.node in self._assignments.encoder.node_rows
            if there != (uid in self._assignments.reserved):
                raise Permanent(
                    f"pod {nomination.entry.seen.pod.key} is nominated for {nomination.node}, and resources should "
                    f"{'' if there else 'not '}be reserved"
                )
            if any(uid not in self._waits_for.get(victim, ()) for victim in nomination.victims):
                raise Permanent(f"pod {nomination.entry.seen.pod.key} waits for a victim that is not indexed")
            if any(uid not in self._moves_for.get(name, ()) for name in nomination.moving):
                raise Permanent(f"pod {nomination.entry.seen.pod.key} waits for a moved pod that is not indexed")
        if not self._assignments.reserved.keys() <= self.by_uid.keys():
            raise Permanent("resources are reserved for a pod without a nomination")
