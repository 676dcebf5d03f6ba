"""The scheduling queue: pods to try next, pods in back-off, and pods that wait for a change.

Ten thousand pods that fit nowhere must cost nothing, and must be tried when an event may help them. Pods that placement
cannot distinguish form one *group*, in order of arrival; a verdict belongs to the group, so one evaluation is valid for
all of it. A group is active, in back-off (it was refused, and an event has happened since), or unschedulable (no event
has happened). Source of the three queues, the times and their names: kube-scheduler's scheduling queue.
Priority comes first, as in Kubernetes, then a `rank`: Koordinator's sub-priority (label koordinator.sh/priority),
services, the deadline if the profile asks for it, and age.
Limits: a refusal sets the back-off of the whole group, so pods that join it meanwhile share it; order is exact between
groups by their first pod, and inside a group by arrival.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count

from cotenant.engine.framework.backoff import Backoff
from cotenant.engine.framework.budget import ASIDE
from cotenant.engine.framework.queueing import PlacementVerdict, QueuedGroup, QueueStanding, Rank, WholeGroup
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.errors import Permanent
from cotenant.policy.placement.codes import Order
from cotenant.policy.placement.profiles import PlacementProfile

_SLACK = 1024

FLUSH_S = 300.0  # an unschedulable group is tried again after this long, even without an event


def rank(seen: ObservedPod, profile: PlacementProfile, advance_s: float = 0.0) -> Rank:
    """The order within equal priority, lower goes first: Koordinator's sub-priority, then as the profile has it.

    `advance_s`: the pod counts as having arrived so much earlier (`PodInfo.advance_s`).
    """
    pod = seen.pod
    by = pod.deadline_s if profile.order is not Order.ARRIVAL else 0.0
    arrived_s = seen.created_s - advance_s
    return (-float(pod.sub_priority), 0.0 if pod.is_service else 1.0, 0.0 if pod.is_service else by, arrived_s)


class SchedulingQueue:
    """Groups of pending pods."""

    def __init__(self, backoff: Backoff | None = None, flush_s: float = FLUSH_S) -> None:
        self._backoff = backoff or Backoff()
        self._flush_s = flush_s
        self._groups: dict[Hashable, QueuedGroup] = {}
        self._of: dict[str, QueuedGroup] = {}  # uid -> its group
        self._active: list[tuple[tuple[float, ...], int, QueuedGroup]] = []
        self._backing_off: list[tuple[float, int, QueuedGroup]] = []
        self._large: list[tuple[tuple[float, ...], int, QueuedGroup]] = []  # active groups of large pods
        self._large_from_s = float("-inf")  # the next of them is judged then
        self._waiting: dict[Hashable, QueuedGroup] = {}  # unschedulable groups, the longest waiting first
        self._stamps = count()
        self._judging = False  # between `take` and `requeue`
        self.incoming: dict[tuple[str, str], int] = {}  # (event, queue) -> pods, for the metrics

    @property
    def longest_backoff_s(self) -> float:
        """A woken group is tried after at most this long."""
        return self._backoff.max_s

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, uid: str) -> bool:
        return uid in self._of

    def group_of(self, uid: str) -> QueuedGroup | None:
        """The pod's group."""
        return self._of.get(uid)

    def add(
        self, uid: str, key: Hashable, priority: int, shape: int, rank: Rank, event: str, is_large: bool = False
    ) -> QueuedGroup:
        """Add a pod. Raises `Permanent` if it is queued already.

        The verdict of an unschedulable group is valid for this pod too; that of a group in back-off is of a time before
        the event that woke it.

        `is_large`: it is judged apart from the others (`take_large`), with the whole of its group.
        """
        if uid in self._of:
            raise Permanent(f"pod {uid} is queued already")
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = QueuedGroup(key, priority, shape, isinstance(key, WholeGroup))
        self._of[uid] = group
        group.pods[uid] = rank
        lower = priority < group.priority
        if lower:  # a whole group has the lowest priority of its pods
            group.priority = priority
        grown = is_large and not group.is_large
        if grown:
            group.is_large = True
        if group.standing is QueueStanding.ACTIVE and (
            len(group.pods) == 1 or ((lower or grown) and not self._judging)
        ):
            self._push(group)
        self._count(event, group.standing, 1)
        return group

    def remove(self, uid: str) -> bool:
        """Remove a pod (placed, deleted, changed). Whether it was queued."""
        group = self._of.pop(uid, None)
        if group is None:
            return False
        first = next(iter(group.pods)) == uid
        del group.pods[uid]
        if not group.pods:
            del self._groups[group.key]
            self._waiting.pop(group.key, None)
            group.stamp = -1
        elif first and group.standing is QueueStanding.ACTIVE and not self._judging:
            self._push(group)
        return True

    def take(self, most: int) -> list[tuple[str, QueuedGroup]]:
        """The next pods to try, in order; they stay in the queue until `remove`, and their groups active until
        `refuse`.

        `requeue` must follow before the next `take`.
        """
        self._judging = True
        taken: list[tuple[str, QueuedGroup]] = []
        running: dict[int, Iterator[tuple[str, Rank]]] = {}
        while self._active and len(taken) < most:
            _, stamp, group = heappop(self._active)
            if stamp != group.stamp:
                continue
            if group.whole:  # never split, even beyond `most`
                taken.extend((uid, group) for uid in group.pods)
                continue
            pods = running.get(id(group))
            if pods is None:
                pods = running[id(group)] = iter(group.pods.items())
            following = self._active[0][0] if self._active else None
            for uid, rank in pods:
                key = (-group.priority, *rank)
                if following is not None and key > following and taken and taken[-1][1] is group:
                    # another group goes first; come back to this pod later
                    running[id(group)] = _again((uid, rank), pods)
                    heappush(self._active, (key, stamp, group))
                    break
                taken.append((uid, group))
                if len(taken) >= most:
                    break
        return taken

    def take_large(self, now_s: float) -> list[tuple[str, QueuedGroup]]:
        """The next large pod, or all pods of a large whole group; none before the time that `rest` has set.
        `requeue` must follow.
        """
        if now_s < self._large_from_s:
            return []
        while self._large:
            _, stamp, group = heappop(self._large)
            if stamp == group.stamp:
                self._judging = True
                return [(uid, group) for uid in (group.pods if group.whole else [next(iter(group.pods))])]
        return []

    def take_only(self, uid: str) -> tuple[list[tuple[str, QueuedGroup]], list[tuple[str, QueuedGroup]]]:
        """This pod, with the whole of a group that is judged as one, whatever its standing: as `take` and as
        `take_large`, of which one is empty. `requeue` must follow.
        """
        group = self._of.get(uid)
        if group is None:
            return [], []
        self._judging = True
        taken = [(member, group) for member in (group.pods if group.whole else (uid,))]
        return ([], taken) if group.is_large else (taken, [])

    def rest(self, until_s: float) -> None:
        """Take no large pod before then."""
        self._large_from_s = until_s

    def set_aside(self, group: QueuedGroup, verdict: PlacementVerdict, now_s: float) -> None:
        """The judgement of a large group cost too much: it is tried again after a longer back-off, whatever happens."""
        self.refuse(group, verdict, now_s)
        if group.pods:
            group.overruns += 1
            group.until_s = now_s + ASIDE.rest_s(group.overruns)
            self.wake(group, now_s, "JudgementTooExpensive")

    def requeue(self, taken: list[tuple[str, QueuedGroup]]) -> None:
        """Re-queue the groups of `take` that are still active and still have pods."""
        self._judging = False
        for group in {id(group): group for _, group in taken}.values():
            if group.pods and group.standing is QueueStanding.ACTIVE:
                self._push(group)

    def placed(self, group: QueuedGroup) -> None:
        """A pod of the group found a node: reset its refusals."""
        group.refusals = group.overruns = 0
        group.verdict = None

    def refuse(self, group: QueuedGroup, verdict: PlacementVerdict, now_s: float) -> None:
        """No feasible node for the group: it waits until it is woken, without a rest where that is in a moment."""
        if verdict.is_told:
            group.refusals += 1
        group.until_s = now_s + self._backoff.rest_s(group.refusals) if verdict.is_told else now_s
        group.verdict = verdict
        group.since_s = now_s
        group.standing = QueueStanding.UNSCHEDULABLE
        group.stamp = -1
        self._waiting.pop(group.key, None)
        if group.pods:
            self._waiting[group.key] = group
            self._count("ScheduleAttemptFailure", group.standing, len(group.pods))

    def wake(self, group: QueuedGroup, now_s: float, event: str, at_once: bool = False) -> bool:
        """An event may help an unschedulable group: it is tried after its back-off. Whether it was unschedulable."""
        if group.standing is not QueueStanding.UNSCHEDULABLE or not group.pods:
            return False
        del self._waiting[group.key]
        if at_once or group.until_s <= now_s:
            group.standing = QueueStanding.ACTIVE
            self._push(group)
        else:
            group.standing = QueueStanding.BACKOFF
            group.stamp = next(self._stamps)
            heappush(self._backing_off, (group.until_s, group.stamp, group))
            if len(self._backing_off) > 2 * len(self._groups) + _SLACK:
                self._backing_off = [entry for entry in self._backing_off if entry[1] == entry[2].stamp]
                heapify(self._backing_off)
        self._count(event, group.standing, len(group.pods))
        return True

    def unschedulable(self) -> tuple[QueuedGroup, ...]:
        """Groups that wait for an event."""
        return tuple(self._waiting.values())

    def unschedulable_groups(self) -> int:
        """How many groups wait for an event."""
        return len(self._waiting)

    def hurry(self, group: QueuedGroup, now_s: float, event: str) -> None:
        """Try a group at once that is unschedulable or in back-off: what it waits for is kept for a moment only."""
        if group.standing is QueueStanding.UNSCHEDULABLE:
            self.wake(group, now_s, event, at_once=True)
        elif group.standing is QueueStanding.BACKOFF and group.pods:
            group.standing = QueueStanding.ACTIVE
            self._push(group)
            self._count(event, group.standing, len(group.pods))

    def release(self, now_s: float) -> None:
        """Activate groups whose back-off is over, and wake those that have been unschedulable for the flush time."""
        while self._backing_off and self._backing_off[0][0] <= now_s:
            _, stamp, group = heappop(self._backing_off)
            if stamp == group.stamp and group.pods:
                group.standing = QueueStanding.ACTIVE
                self._push(group)
                self._count("BackoffComplete", group.standing, len(group.pods))
        while self._waiting:
            group = next(iter(self._waiting.values()))
            if group.since_s + self._flush_s > now_s:
                break
            self.wake(group, now_s, "UnschedulableTimeout")

    def next_s(self) -> float:
        """When `release` must be called next; inf = never, -inf = a group is active."""
        while self._active and self._active[0][1] != self._active[0][2].stamp:
            heappop(self._active)
        if self._active:
            return float("-inf")
        while self._large and self._large[0][1] != self._large[0][2].stamp:
            heappop(self._large)
        while self._backing_off and self._backing_off[0][1] != self._backing_off[0][2].stamp:
            heappop(self._backing_off)
        soonest = self._backing_off[0][0] if self._backing_off else float("inf")
        if self._large:
            soonest = min(soonest, self._large_from_s)
        if self._waiting:
            soonest = min(soonest, next(iter(self._waiting.values())).since_s + self._flush_s)
        return soonest

    def sizes(self) -> dict[QueueStanding, int]:
        """Pods by queue."""
        sizes = dict.fromkeys(QueueStanding, 0)
        for group in self._groups.values():
            sizes[group.standing] += len(group.pods)
        return sizes

    def groups(self) -> tuple[QueuedGroup, ...]:
        """All groups."""
        return tuple(self._groups.values())

    def validate(self) -> None:
        """Check that every pod is in one group, and every group in the queue of its standing. Raises `Permanent`."""
        members = [uid for group in self._groups.values() for uid in group.pods]
        if sorted(members) != sorted(self._of):
            raise Permanent("the queue's groups and its pods disagree")
        active = (*self._active, *self._large)
        live = {stamp for _, stamp, group in active if stamp == group.stamp and group.standing is QueueStanding.ACTIVE}
        backing_off = {stamp for _, stamp, group in self._backing_off if stamp == group.stamp}
        for group in self._groups.values():
            here = {
                QueueStanding.ACTIVE: group.stamp in live,
                QueueStanding.BACKOFF: group.stamp in backing_off,
                QueueStanding.UNSCHEDULABLE: group.key in self._waiting,
            }
            if not group.pods or not here[group.standing]:
                raise Permanent(f"a group of {len(group.pods)} pods is {group.standing} and not in that queue")

    def _push(self, group: QueuedGroup) -> None:
        group.stamp = next(self._stamps)
        rank = (-group.priority, *next(iter(group.pods.values())))  # of its first pod: lower goes first
        if group.is_large:
            heappush(self._large, (rank, group.stamp, group))
            if len(self._large) > 2 * len(self._groups) + _SLACK:
                self._large = [entry for entry in self._large if entry[1] == entry[2].stamp]
                heapify(self._large)
            return
        heappush(self._active, (rank, group.stamp, group))
        if len(self._active) > 2 * len(self._groups) + _SLACK:  # most entries are outdated
            self._active = [entry for entry in self._active if entry[1] == entry[2].stamp]
            heapify(self._active)

    def _count(self, event: str, standing: QueueStanding, pods: int) -> None:
        key = (event, standing.value)
        self.incoming[key] = self.incoming.get(key, 0) + pods


def _again(first: tuple[str, Rank], rest: Iterator[tuple[str, Rank]]) -> Iterator[tuple[str, Rank]]:
    yield first
    yield from rest
