"""Pods for which room is made, after that was decided: victims that stay, evictions that fail, rooms that others make.

A nomination reserves room on a node while pods there are still ending (engine/cycle/eviction/nominations.py). It ends
with the pod, with its node, or here: by what became of the evictions, or where a rebalancer makes room no longer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING

from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.framework.events import EventKind
from cotenant.engine.framework.outbox import Outbox
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState

if TYPE_CHECKING:
    from cotenant.engine.cycle.pods import Pods

_MAX_EXPECTED_S = 1800.0  # room is kept for a pod at most, whatever its annotation says


class NominatedPods:
    """What becomes of the nominations of one cluster's pods."""

    def __init__(self, components: ClusterComponents, pods: Pods, outbox: Outbox) -> None:
        self._components = components
        self._pods = pods
        self._outbox = outbox
        self.expected: dict[str, float] = {}  # pods for which a rebalancer makes room -> until when it is kept

    def expire(self, now_s: float) -> None:
        """Keep no room longer than it is to be kept, and believe in no eviction longer than it may take."""
        for uid in [uid for uid, until_s in self.expected.items() if until_s <= now_s]:
            self._forget(self._pods.by_uid.get(uid), uid, now_s)
        asked = self._components.nominations.asked
        for uid in list(takewhile(lambda victim: asked[victim].until_s <= now_s, asked)):
            self.eviction_withdrawn(uid, now_s)

    def next_s(self) -> float:
        """When `expire` will next have something to do, inf for never."""
        asked = self._components.nominations.asked.values()  # those that end first are in front
        first_s = next((eviction.until_s for eviction in asked), inf)
        return min(first_s, *self.expected.values(), inf)

    def renominate(self, entry: PodInfo) -> None:
        """Restore the nomination of a pod after a restart: reserve resources, wait for victims that are still
        terminating.
        """
        node = entry.seen.nominated_node
        victims = {
            other
            for other, resident in self._components.assignments.residents.get(node, {}).items()
            if resident.seen.terminating and resident.seen.pod.priority < entry.seen.pod.priority
        }
        self._components.nominations.add(entry, node, victims)

    def expect(self, entry: PodInfo, now_s: float) -> None:
        """Keep the room that a rebalancer makes for a waiting pod: a nomination that waits for the pods that are moved
        away.

        A nomination by preemption has precedence. Where the room is no longer kept, the nomination is dropped.
        """
        uid, room, nominations = entry.seen.uid, entry.seen.expected_room, self._components.nominations
        if self._pods.by_uid.get(uid) is not entry:
            return
        if room is None or room.until_s <= now_s:
            self._forget(entry, uid, now_s)
            return
        if (
            entry.node
            or entry.state not in (SchedulingState.QUEUED, SchedulingState.HELD)
            or nominations.victims_of(uid)
        ):
            return
        nominations.drop(uid)
        self.expected[uid] = min(room.until_s, now_s + _MAX_EXPECTED_S)
        moving = [pod for pod in room.pods if pod not in self._pods.was_assigned]  # others may not have been listed yet
        for other in nominations.add(entry, room.node, set(), moving):
            self._pods.drop_nomination(self._pods.by_uid[other])
            self._pods.requeue(self._pods.by_uid[other], now_s)
        self._pods.requeue(entry, now_s)

    def _forget(self, entry: PodInfo | None, uid: str, now_s: float) -> None:
        """The room is not kept any more; a nomination by preemption stays."""
        if self.expected.pop(uid, None) is None or entry is None or self._components.nominations.victims_of(uid):
            return
        if uid in self._components.nominations:
            self._pods.drop_nomination(entry, tell=bool(entry.seen.nominated_node))
            self._pods.requeue(entry, now_s)

    def preempt_failed(self, uid: str, now_s: float, evicted: Collection[str]) -> None:
        """The nomination or an eviction failed: the pod waits as before, and of its victims only `evicted` go."""
        asked = self._components.nominations.asked
        stay = [victim for victim, eviction in asked.items() if eviction.preemptor == uid and victim not in evicted]
        self._give_up_preemption(uid, now_s)
        for victim in stay:
            self.eviction_withdrawn(victim, now_s)

    def _give_up_preemption(self, uid: str, now_s: float) -> None:
        entry = self._pods.by_uid.get(uid)
        if entry is None or uid not in self._components.nominations:
            return
        self._outbox.count("preemption failed")
        group = self._components.queue.group_of(uid)
        for other in group.pods if group is not None and group.whole else (uid,):  # a whole gang preempts together
            self._pods.drop_nomination(self._pods.by_uid[other])
            self._pods.by_uid[other].last_message = ""  # whom it waits for is told again where it still does
        if entry.state is SchedulingState.QUEUED:  # without back-off it would be tried again at once
            self._components.queue.remove(uid)
            self._pods.rest(entry, now_s)

    def victims_added(self, uid: str, node: str, victims: Collection[str], now_s: float) -> bool:
        """More pods are to go for a pod that is nominated for the node, and waits for them too. False = it is not."""
        nominations = self._components.nominations
        if nominations.node_of(uid) != node:
            return False
        known = [self._pods.by_uid[victim] for victim in victims if victim in self._pods.by_uid]
        nominations.wait_for(uid, [entry.seen.uid for entry in known])
        nominations.ask([entry.seen.uid for entry in known if not entry.seen.terminating], uid, now_s)
        return True

    def eviction_withdrawn(self, uid: str, now_s: float) -> None:
        """A pod that was told to go stays, unless it is ending already: who waits for its end is judged again."""
        entry, nominations = self._pods.by_uid.get(uid), self._components.nominations
        if entry is None or entry.seen.terminating:
            nominations.forget_asked(uid)
            return
        self.wake_preemptors(nominations.stays(uid), now_s)
        self._pods.happened.update((EventKind.POD_CHANGED, EventKind.QUOTA))  # it may be evicted for another pod again
        if entry.wanted >= 0:
            self._components.assignments.changed.add(entry.wanted)

    def wake_preemptors(self, uids: Iterable[str], now_s: float) -> None:
        """Judge preemptors again: what they waited for is decided."""
        for preemptor in uids:
            group = self._components.queue.group_of(preemptor)
            if group is not None:
                self._components.queue.wake(group, now_s, "AssignedPodDelete", at_once=True)
