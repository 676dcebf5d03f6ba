"""The lifecycle of pods in a cluster: the events of the API server, and the state that follows.

Events about a pod arrive late, twice, out of order, after a rename, about binds by others, and while our own bind is in
progress. One entry per UID that moves along the table in framework/pod_state.py; every event corrects the facts and
moves the pod to its gates, the queue, back-off, or its node. No placement is decided here.
Limits: events about a pod must come from one ordered watch (a UID that was seen on a node is considered on it until its
deletion).
"""

from __future__ import annotations

from collections.abc import Hashable
from math import inf

from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.eviction.nominated_pods import NominatedPods
from cotenant.engine.cycle.queue import rank
from cotenant.engine.framework.events import EventKind
from cotenant.engine.framework.instructions import ClearNomination
from cotenant.engine.framework.outbox import Outbox
from cotenant.engine.framework.pod_state import ASSIGNED, DECIDED, PodInfo, SchedulingState
from cotenant.engine.framework.queueing import QueuedGroup, QueueStanding, WholeGroup
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.demands import NO_HOLDINGS
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.decisions.record import DecisionRecord
from cotenant.model.errors import Permanent
from cotenant.policy.placement.profiles import PlacementProfile

_MAX_REMOVED = 20_000


class Pods:
    """All pods that this scheduler schedules or counts."""

    def __init__(
        self, components: ClusterComponents, profile: PlacementProfile, settings: EngineSettings, outbox: Outbox
    ) -> None:
        self.by_uid: dict[str, PodInfo] = {}
        self.by_key: dict[str, str] = {}  # namespace/name -> uid
        self.held: list[PodInfo] = []
        self.answers: dict[str, PodInfo] = {}  # binds without a response yet
        self.happened: set[EventKind] = set()  # since groups were last woken
        # UIDs of removed pods that were on a node: later events without a node are stale
        self.was_assigned: dict[str, None] = {}
        self._components = components
        self._profile = profile
        self._settings = settings
        self._outbox = outbox
        self._roster = components.roster
        self.nominated = NominatedPods(components, self, outbox)

    # ---- what was seen

    def pod_seen(self, seen: ObservedPod, now_s: float) -> None:
        """Process a pod's current object; repeated events have no effect."""
        if not seen.uid:
            self._outbox.count("a pod without a uid")  # never from a sound API server
            return
        entry = self.by_uid.get(seen.uid)
        if entry is not None:
            if bool(seen.reservation) != bool(entry.seen.reservation):
                self._outbox.count("the uid of a pod is that of a reservation")  # never from a sound API server
            elif seen != entry.seen:
                before, was_expected = entry.seen.expected_room, seen.uid in self.nominated.expected
                self._changed(entry, seen, now_s)
                if seen.expected_room != before or (was_expected and seen.uid not in self._components.nominations):
                    self.nominated.expect(entry, now_s)
            return
        counts = bool(seen.node)
        if seen.has_ended:
            for plugin in self._roster.pod_ended:
                plugin.pod_ended(seen.uid, seen)
            return
        if not counts and (seen.terminating or seen.scheduler not in self._settings.schedulers):
            return
        if not counts and seen.uid in self.was_assigned:
            self._outbox.count("stale event: a pod that was on a node")
            return
        other = self.by_uid.get(self.by_key.get(seen.pod.key, ""))
        if other is not None:
            if other.seen.created_s > seen.created_s:
                self._outbox.count("stale event: a pod whose name was used again")
                return
            self._end(other, now_s)  # its deletion was not seen
        entry = PodInfo(seen)
        self.by_uid[seen.uid] = entry
        self.by_key[seen.pod.key] = seen.uid
        entry.violation_surcharge = self._surcharge(seen)
        self._components.assignments.add(entry)
        if counts:
            self._settle(entry, now_s)
        else:
            entry.queued_s = now_s
            if seen.nominated_node:
                self.nominated.renominate(entry)
            self.enter(entry, now_s, "PodAdd")
            if seen.expected_room is not None:
                self.nominated.expect(entry, now_s)

    def pod_gone(self, uid: str, now_s: float) -> None:
        """Process the deletion of a pod in any state."""
        entry = self.by_uid.get(uid)
        if entry is not None:
            self._end(entry, now_s)
        for plugin in self._roster.pod_ended:
            plugin.pod_ended(uid, None)

    def forget(self, entry: PodInfo, now_s: float) -> None:
        """Drop a pod without a node that lives on: another scheduler decides for it."""
        self._end(entry, now_s)

    def _changed(self, entry: PodInfo, seen: ObservedPod, now_s: float) -> None:
        before = entry.seen
        if before.node and not seen.node:
            self._outbox.count("stale event: a pod that was on a node")
            return
        if seen.has_ended:
            if seen.refused and seen.scheduler in self._settings.schedulers:  # another scheduler took the room first
                self._outbox.count(f"its node's kubelet refused a pod: {seen.refused}")
            self._end(entry, now_s)
            for plugin in self._roster.pod_ended:
                plugin.pod_ended(seen.uid, seen)
            return
        moved = bool(seen.node) and (entry.state not in DECIDED or entry.node != seen.node)
        if not seen.node and entry.state not in DECIDED:
            if seen.terminating:
                self._end(entry, now_s)
                return
            scheduled_alike = (
                seen.pod,
                seen.gates,
                seen.volumes,
                seen.unsupported,
                seen.preempts,
                seen.demands,
                seen.owned_by,
            ) == (
                before.pod,
                before.gates,
                before.volumes,
                before.unsupported,
                before.preempts,
                before.demands,
                before.owned_by,
            )
            if scheduled_alike:
                entry.seen = seen
                return
            self._leave_queue(entry)
            self.drop_nomination(entry)
            if entry.state is SchedulingState.WAITING:
                self.take_back(entry)
        reshaped = (seen.pod, seen.demands, seen.owned_by) != (before.pod, before.demands, before.owned_by)
        if seen.reservation and seen.node and seen.holds != entry.holds:
            entry.holds, reshaped = seen.holds, True  # what it reserves can shrink and grow, also to nothing
        if moved and entry.state in ASSIGNED:
            self._outbox.count("bound elsewhere than decided")
            self.take_back(entry)
        elif moved:
            self._leave_queue(entry)
            self.drop_nomination(entry)
        entry.seen = seen
        if seen.pod.key != before.pod.key:  # a reservation's template was moved to another namespace
            del self.by_key[before.pod.key]
            self.by_key[seen.pod.key] = seen.uid
        if reshaped:
            entry.violation_surcharge = self._surcharge(seen)
            self._components.assignments.replace(entry, before.pod.key)
        else:
            self._components.assignments.update(entry, before)
        if reshaped or seen.terminating is not before.terminating:  # one that is ending counts in no spread
            self.happened.add(EventKind.POD_CHANGED)
        if moved:
            self._settle(entry, now_s)
        elif seen.node:
            if entry.state is not SchedulingState.BOUND:
                self._confirm(entry, now_s)
        elif entry.state not in DECIDED:
            self.enter(entry, now_s, "PodUpdate")

    def _settle(self, entry: PodInfo, now_s: float) -> None:
        """Assign a pod to the node that the API server reports."""
        self._components.assignments.assign(entry, entry.seen.node)
        if entry.state is not SchedulingState.BOUND:
            entry.move(SchedulingState.BOUND, now_s)
        self.happened.add(EventKind.POD_ASSIGNED)

    def _confirm(self, entry: PodInfo, now_s: float) -> None:
        self.answers.pop(entry.seen.uid, None)
        entry.move(SchedulingState.BOUND, now_s)
        entry.failures = 0
        for call in entry.calls.post_bind:
            call(entry)

    def _end(self, entry: PodInfo, now_s: float) -> None:
        """Remove a pod that was deleted or has completed."""
        uid = entry.seen.uid
        self._leave_queue(entry)
        self.drop_nomination(entry, tell=False)
        self.answers.pop(uid, None)
        if entry.node:
            self.happened.add(EventKind.POD_GONE)
        if entry.state in ASSIGNED:
            self.was_assigned[uid] = None
            if len(self.was_assigned) > _MAX_REMOVED:
                del self.was_assigned[next(iter(self.was_assigned))]
        self._components.assignments.remove(entry)
        entry.move(SchedulingState.GONE, now_s)
        del self.by_uid[uid]
        if self.by_key.get(entry.seen.pod.key) == uid:
            del self.by_key[entry.seen.pod.key]
        self.nominated.wake_preemptors(self._components.nominations.victim_gone(uid), now_s)

    # ---- into and out of the queue

    def enter(self, entry: PodInfo, now_s: float, event: str) -> None:
        """Move an unassigned pod to its gates, its obstacle, or the queue."""
        seen = entry.seen
        if seen.gates:
            entry.move(SchedulingState.GATED, now_s)
            return
        why, later = seen.obstacle, False
        for plugin in entry.calls.pre_enqueue:
            if why:
                break
            why, later = plugin.pre_enqueue(entry), plugin.gathers and event == "PodAdd"
        if why:
            entry.move(SchedulingState.BLOCKED, now_s)
            if event != "PodAdd":
                self.drop_nomination(entry)  # resources are not reserved for a pod that cannot be scheduled
            if not later:
                self._outbox.waits(entry, why, self.record(entry, why, now_s), held=True)
            return
        entry.move(SchedulingState.QUEUED, now_s)
        is_large = self._components.budget.is_large(seen)
        entry.advance_s = sum([call(entry) for call in entry.calls.queue_sort])
        group = self.queued(entry, self.kind_of(entry), event, is_large)
        if group.whole:
            self._components.queue.wake(group, now_s, event)  # it may be the missing member
        if group.verdict is not None and (group.standing is QueueStanding.UNSCHEDULABLE or group.overruns):
            verdict = group.verdict  # valid for all
            self._outbox.waits(entry, verdict.message, verdict.record, verdict.missing, held=verdict.is_held)

    def queued(self, entry: PodInfo, kind: Hashable, event: str, is_large: bool) -> QueuedGroup:
        """Put a pod into the queue, among those of its kind; its group there."""
        seen = entry.seen
        order = rank(seen, self._profile, entry.advance_s)
        return self._components.queue.add(seen.uid, kind, seen.pod.priority, entry.shape, order, event, is_large)

    def _surcharge(self, seen: ObservedPod) -> float:
        return max([plugin.pre_score(seen) for plugin in self._roster.pre_score if not plugin.is_idle] or [0.0])

    def kind_of(self, entry: PodInfo) -> Hashable:
        """What makes pods in the queue interchangeable."""
        seen = entry.seen
        more = tuple([call(entry) for call in entry.calls.sign])
        for hashable in more:
            if type(hashable) is WholeGroup:
                return hashable
        if seen.uid in self._components.nominations.by_uid:
            return seen.uid
        return (
            entry.shape,
            seen.pod.priority,
            seen.pod.sub_priority,
            seen.preempts,
            entry.kind,
            seen.volumes,
            seen.demands,
            more,
        )

    def reconsider(self, uid: str, now_s: float) -> None:
        """Ask the plugins again about a blocked or queued pod, whose gate or group may have changed; other pods are
        not affected.
        """
        entry = self.by_uid.get(uid)
        if entry is not None and entry.state is SchedulingState.BLOCKED:
            self.enter(entry, now_s, "PodUpdate")
        elif entry is not None and entry.state is SchedulingState.QUEUED:
            self.requeue(entry, now_s)

    def give_back(self, entry: PodInfo, now_s: float, event: str) -> None:
        """Unassign a pod that holds a node without being bound, and queue it again."""
        self.take_back(entry)
        self.enter(entry, now_s, event)

    def rest(self, entry: PodInfo, now_s: float) -> None:
        """Let a pod that left the queue, or gave up its node, rest before it is queued again."""
        entry.failures += 1
        entry.move(SchedulingState.HELD, now_s)
        self.held.append(entry)

    def _leave_queue(self, entry: PodInfo) -> None:
        self._components.queue.remove(entry.seen.uid)
        if entry.state is SchedulingState.HELD:
            self.held.remove(entry)

    def take_back(self, entry: PodInfo) -> None:
        """Undo an assignment that was not bound or proved wrong."""
        self.answers.pop(entry.seen.uid, None)
        self._components.assignments.unassign(entry)
        entry.holds = NO_HOLDINGS
        self.happened.add(EventKind.POD_GONE)

    def expire(self, now_s: float) -> None:
        """End elapsed back-offs, and undo binds without a response."""
        for entry in [e for e in self.held if e.since_s + self._settings.backoff.rest_s(e.failures) <= now_s]:
            self.held.remove(entry)
            self.enter(entry, now_s, "BackoffComplete")
        for entry in list(self.answers.values()):
            if entry.since_s + self._settings.unanswered_s > now_s:
                break
            self.bind_failed(entry.seen.uid, "no answer", now_s)
        if self.nominated.expected or self._components.nominations.asked:
            self.nominated.expire(now_s)

    def next_s(self) -> float:
        """When `expire` will next have something to do, inf for never."""
        soonest = inf
        if self.nominated.expected or self._components.nominations.asked:
            soonest = self.nominated.next_s()
        for entry in self.held:
            soonest = min(soonest, entry.since_s + self._settings.backoff.rest_s(entry.failures))
        if self.answers:
            soonest = min(soonest, next(iter(self.answers.values())).since_s + self._settings.unanswered_s)
        return soonest

    # ---- results of instructions

    def sending(self, uid: str, now_s: float, number: int = 0) -> bool:
        """See `Cluster`."""
        entry = self.by_uid.get(uid)
        if entry is None or entry.state is not SchedulingState.ASSUMED or number not in (0, entry.bind):
            return False
        entry.move(SchedulingState.BINDING, now_s)
        return True

    def awaits_answer(self, uid: str) -> bool:
        """Whether a bind was sent whose end is not known."""
        entry = self.by_uid.get(uid)
        return entry is not None and entry.state is SchedulingState.BINDING

    def bound(self, uid: str, now_s: float, number: int = 0) -> None:
        """See `Cluster`."""
        entry = self.by_uid.get(uid)
        if entry is not None and entry.state is SchedulingState.BINDING and number in (0, entry.bind):
            self._confirm(entry, now_s)

    def bind_failed(self, uid: str, why: str, now_s: float, retry: bool = True, number: int = 0) -> None:
        """See `Cluster`."""
        entry = self.by_uid.get(uid)
        if entry is None or uid not in self.answers or number not in (0, entry.bind):
            return
        self._outbox.count(f"bind failed: {why}")
        self.take_back(entry)
        if not retry or entry.seen.terminating:
            self._end(entry, now_s)
            return
        self.rest(entry, now_s)

    # ---- others

    def drop_nomination(self, entry: PodInfo, tell: bool = True) -> None:
        """Remove the pod's nomination; clear it in the API unless the pod itself is gone."""
        if self._components.nominations.drop(entry.seen.uid) and tell:
            self._outbox.say(ClearNomination(entry.seen.uid, entry.seen.pod.key))

    def requeue(self, entry: PodInfo, now_s: float) -> None:
        """Queue the pod again under its current key."""
        if self._components.queue.remove(entry.seen.uid):
            self.enter(entry, now_s, "PodUpdate")

    def record(self, entry: PodInfo, why: str, now_s: float) -> DecisionRecord:
        """The record of a pod that waits without an evaluation of nodes."""
        return DecisionRecord(
            pod=entry.seen.pod.key,
            at_s=now_s,
            nodes=len(self._components.assignments.encoder.node_rows),
            node=None,
            waiting_because=why,
            policy=self._profile.name,
        )

    def validate(self) -> None:
        """Check that every pod is where its state says. Raises `Permanent`."""
        queue = self._components.queue
        for uid, entry in self.by_uid.items():
            where = f"pod {entry.seen.pod.key}, {entry.state.name.lower()}:"
            if (entry.state in ASSIGNED) != bool(entry.node):
                raise Permanent(f"{where} its node is {entry.node or 'none'}")
            if (entry.state is SchedulingState.QUEUED) != (uid in queue):
                raise Permanent(f"{where} it is {'' if uid in queue else 'not '}in the queue")
            if (entry.state in (SchedulingState.ASSUMED, SchedulingState.BINDING)) != (uid in self.answers):
                raise Permanent(f"{where} an answer is {'' if uid in self.answers else 'not '}awaited")
            if (entry.state is SchedulingState.HELD) != (entry in self.held):
                raise Permanent(f"{where} it is {'' if entry in self.held else 'not '}in back-off")
        if set(self.by_key.values()) != set(self.by_uid):
            raise Permanent("names and UIDs disagree")
