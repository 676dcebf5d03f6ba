"""The plugin: pods of lower priority go for a resize in place that a kubelet deferred.

A pod whose request was raised counts with it at once (drivers/kube/kinds/pod/resources.py), so nothing new comes to its
node; but what is there already may keep the kubelet from giving it. Off by default, as in Kubernetes (1.37, alpha): who
may raise a request could make others go. Victims are asked for by the API's eviction, within disruption budgets, and
no gang loses a member that it needs. The kubelet tries a deferred resize again by itself when a pod has left.
Source: KEP-5836.
Limits: pods of other schedulers' are left to them; `podPreemptionPolicy` of a Node (1.37) is not read; room that is
kept for nominated pods and by Reservations is not counted, as no kubelet knows of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import inf

from cotenant.engine.cycle.access import CycleAccess
from cotenant.engine.framework.contracts import Evicting
from cotenant.engine.framework.instructions import Evict, Victim
from cotenant.engine.framework.jobs import PlacedJob
from cotenant.engine.framework.memento import Memento
from cotenant.engine.framework.plugin import PluginHost
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.model.cluster.node import Node
from cotenant.model.errors import Permanent
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.policy.placement.resize_room import ResizeCandidate, resize_victims

NAME = "DeferredResizes"
REASON = "ResizePreempted"
AGAIN_S = 15.0  # until a pod for which nobody may go is looked at again
ASKED_S = 60.0  # in which a pod that was asked to go is expected to
IN_VAIN = "a deferred resize for which nobody may be evicted"
OFF = "nobody is asked to go for it, as --preempt-for-resizes is off"


class DeferredResizes(Evicting):
    """Asks pods of lower priority to go, once for each lack of room."""

    name = NAME

    def __init__(self, is_on: bool = False) -> None:
        self.is_on = is_on
        self.is_idle = True
        self._room: dict[str, tuple[int, int]] = {}  # by node: allocatable milli-CPU and bytes
        self.attach(self.host)

    def attach(self, host: PluginHost) -> None:
        """See `Plugin`."""
        super().attach(host)
        self._deferred: dict[str, PodInfo] = {}  # by UID
        self._due_s: dict[str, float] = {}  # by UID of a deferred pod: when it is looked at again
        self._asked: dict[str, float] = {}  # victims, and until when they are expected to go
        self._found: dict[str, str] = {}  # by UID of a deferred pod: what came of the last look
        self.is_idle = True

    def capture(self) -> Callable[[], DeferredResizes]:
        """See `Plugin`."""
        is_on, room = self.is_on, dict(self._room)

        def make() -> DeferredResizes:
            made = DeferredResizes(is_on)
            made._room = dict(room)
            return made

        return make

    def snapshot(self) -> Callable[[], None]:
        """See `Plugin`."""
        return Memento((self,)).restore

    # ---- facts

    def node_changed(self, name: str, node: Node | None) -> None:
        """What a kubelet may give there."""
        if node is None:
            self._room.pop(name, None)
        else:
            self._room[name] = node.allocatable.get(CPU_NAME), node.allocatable.get(MEMORY_NAME)

    def pod_arrived(self, entry: PodInfo) -> None:
        """It may wait for room already."""
        self.pod_updated(entry)

    def pod_updated(self, entry: PodInfo) -> None:
        """Its kubelet deferred its resize, or no longer does."""
        if entry.seen.awaits_resize and not entry.seen.terminating:
            self._deferred[entry.seen.uid] = entry
            self._due_s.setdefault(entry.seen.uid, -inf)
            self.is_idle = False
        else:
            self._forget(entry.seen.uid)

    def pod_left(self, entry: PodInfo) -> None:
        """It is gone, or will arrive again."""
        self._forget(entry.seen.uid)
        self._asked.pop(entry.seen.uid, None)

    def _forget(self, uid: str) -> None:
        if self._deferred.pop(uid, None) is not None:
            del self._due_s[uid]
            self._found.pop(uid, None)
            self.is_idle = not self._deferred

    def describe(self, entry: PodInfo) -> str:
        """What is done for a resize that its kubelet defers; "" = none is deferred."""
        if not entry.seen.awaits_resize:
            return ""
        return self._found.get(entry.seen.uid, "it was not looked at yet") if self.is_on else OFF

    def is_leaving(self, uid: str) -> bool:
        """Whether it was asked to go."""
        return uid in self._asked

    # ---- time

    def next_s(self) -> float:
        """See `Plugin`."""
        return min(self._due_s.values(), default=inf)

    def turn(self, now_s: float) -> None:
        """Ask for what lacks, the most important pod first."""
        self._asked = {uid: until_s for uid, until_s in self._asked.items() if now_s < until_s}
        due = [self._deferred[uid] for uid, at_s in self._due_s.items() if at_s <= now_s]
        jobs: list[PlacedJob] | None = None
        for entry in sorted(due, key=lambda one: (-one.seen.pod.priority, one.seen.uid)):
            self._due_s[entry.seen.uid] = now_s + AGAIN_S
            if jobs is None:
                jobs = list(self._cycle.components.losses.jobs())
            self._found[entry.seen.uid] = self._make_room(entry, jobs, now_s)

    @property
    def _cycle(self) -> CycleAccess:
        cycle = self.host.cycle
        assert isinstance(cycle, CycleAccess)
        return cycle

    def _make_room(self, entry: PodInfo, jobs: Sequence[PlacedJob], now_s: float) -> str:
        """Ask whom it needs to go; what came of it, in words."""
        cycle, seen = self._cycle, entry.seen
        room = self._room.get(entry.node)
        is_ours = seen.scheduler in cycle.schedulers and entry.state is SchedulingState.BOUND
        if room is None or not is_ours:
            return "it is not this scheduler's"
        if not seen.preempts:
            return "its preemptionPolicy is Never"
        here = cycle.components.assignments.residents.get(entry.node, {})
        staying = [other for other in here.values() if not other.seen.reservation and not self._is_going(other)]
        short_cpu_m = sum(other.seen.pod.requests.get(CPU_NAME) for other in staying) - room[0]
        short_bytes = sum(other.seen.pod.requests.get(MEMORY_NAME) for other in staying) - room[1]
        if short_cpu_m <= 0 and short_bytes <= 0:
            return "there is room once those that leave are gone: its kubelet tries again by itself"
        pods = cycle.components.assignments.pods
        evictable = pods.evictable_by(seen.pod.is_best_effort)
        lower = [
            other
            for other in staying
            if evictable[other.number] < seen.pod.priority and other.state is SchedulingState.BOUND
        ]
        by_uid = {other.seen.uid: other for other in lower}
        job_of = {member.seen.uid: job for job in jobs for member in job.members}
        going = [other for other in here.values() if self._is_going(other)]

        def may_go(chosen: Sequence[ResizeCandidate]) -> bool:
            entries = [by_uid[one.uid] for one in chosen]
            lost = Counter(job_of[one.uid].keys for one in chosen if one.uid in job_of)
            spare = {job.keys: job.spare for job in jobs}
            kept = all(count <= spare[keys] for keys, count in lost.items())
            return kept and self.host.bears(entries, going)

        candidates = [
            ResizeCandidate(
                other.seen.uid,
                other.seen.pod.requests.get(CPU_NAME),
                other.seen.pod.requests.get(MEMORY_NAME),
                other.seen.pod.priority,
                other.seen.started_s if other.seen.started_s == other.seen.started_s else inf,
            )
            for other in lower
        ]
        victims = resize_victims(short_cpu_m, short_bytes, candidates, may_go)
        if not victims:
            self.host.count(IN_VAIN)
            return (
                "no pods of lower priority that budgets and gangs let go would make room for it; looked at again"
                f" every {AGAIN_S:.0f} s"
            )
        words = f"{seen.pod.key} of priority {seen.pod.priority} was resized in place, and {entry.node} has no room"
        for one in victims:
            other = by_uid[one.uid]
            self._asked[one.uid] = now_s + ASKED_S
            self.host.say(Evict(Victim(one.uid, other.seen.pod.key, entry.node), REASON, words))
        return f"asked to go for it: {', '.join(sorted(by_uid[one.uid].seen.pod.key for one in victims))}"

    def _is_going(self, entry: PodInfo) -> bool:
        """Whether its room is free in a while; one that was told to go and does not is counted as staying."""
        preempting = self._cycle.components.preempting
        is_told = entry.seen.uid in self._asked or preempting.is_going(entry)
        return is_told and not preempting.is_overdue(entry)

    # ---- checks

    def validate(self, pods: Mapping[str, PodInfo]) -> None:
        """See `Plugin`."""
        waiting = {uid for uid, entry in pods.items() if entry.seen.awaits_resize and not entry.seen.terminating}
        if self._deferred.keys() != waiting or self._due_s.keys() != waiting:
            raise Permanent("the deferred resizes are not those of the pods")
