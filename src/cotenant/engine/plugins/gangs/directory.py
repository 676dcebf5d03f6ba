"""The gangs of a cluster: who belongs to which, what each asks, which may enter the queue, and how each stands.

Problem: a gang is said by PodGroups and by pods that come, change and go in any order, and every such event may open or close the way for hundreds of pods.
Choice: one record a gang (engine/plugins/gangs/members.py), brought up to date by the events of its pods and its PodGroup; what follows from that for pods that wait
(gate open or closed, judged together or alone) is looked at once before the next judgement. What people are told of it is made by engine/plugins/gangs/status.py. Nothing is judged here: a bundle of Strict gangs stands in the
queue under one key (`Whole`) and is placed by engine/plugins/gangs/judging.py; NonStrict members that hold nodes are led by engine/plugins/gangs/waiting.py.

That a gang was satisfied once is remembered while it has members, and after a restart it is read from those that are bound: so many as the minimum, or any
where the missing ones no longer exist. Limits: a bundle with one Strict gang is Strict as a whole; topology counts for Strict gangs.

Source: Koordinator, pkg/scheduler/plugins/coscheduling; PodGroup of scheduling.sigs.k8s.io/v1alpha1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from math import inf

from cotenant.engine.framework.plugin import Host, Plugin
from cotenant.engine.framework.pod_state import PodInfo, State
from cotenant.engine.framework.queueing import Whole
from cotenant.engine.plugins.gangs.members import Gang
from cotenant.engine.plugins.gangs.status import news_of, view_of
from cotenant.engine.plugins.gangs.views import GangView
from cotenant.model.cluster.observed import ObservedPod, Phase
from cotenant.model.errors import Permanent
from cotenant.model.groups.gang import PodGroup
from cotenant.policy.placement.gangs.bundles import bundle, reach
from cotenant.policy.placement.gangs.permit import Gate, Tally, pre_enqueue
from cotenant.policy.placement.gangs.spec import from_pod, from_pod_group, gang_key

NAME = "Coscheduling"
_RETELL_S = 3.0  # pods that wait for more members are told the new count after so long


class GangDirectory(Plugin):
    """Every gang that this scheduler knows."""

    name = NAME
    gathers = True

    def __init__(self) -> None:
        self._groups: dict[str, PodGroup] = {}
        self._ended: dict[str, tuple[str, Phase]] = {}  # uid of a member that has ended -> gang, how
        self._once: set[str] = set()  # gangs that were satisfied once
        self._begin()

    def _begin(self) -> None:
        self._gangs: dict[str, Gang] = {}
        self._of: dict[str, Gang] = {}  # uid -> its gang
        self._links: dict[str, tuple[str, ...]] = {}  # gangs that name others
        self._bundles: dict[str, tuple[str, ...]] = {}
        self._look: dict[str, None] = {}  # gangs whose waiting members stand elsewhere now
        self._unsaid: dict[str, None] = {}  # gangs whose status may have changed
        self._grew: dict[str, None] = {}  # gangs that still wait for members, and got some
        self._retell: dict[str, float] = {}  # of those: when their pods are told

    # ---- what was seen

    def attach(self, host: Host) -> None:
        """Begin anew: PodGroups, ended members, and what was satisfied once stay."""
        super().attach(host)
        self._begin()
        for group in self._groups.values():
            self._respec(self._gang(group.key))
        for uid, (key, phase) in self._ended.items():
            self._gang(key).ended[uid] = phase

    def pod_group_seen(self, group: PodGroup, now_s: float) -> None:
        """A PodGroup is there, or has changed."""
        before = self._groups.get(group.key)
        self._groups[group.key] = group
        gang = self._gang(group.key)
        if gang.status != group.status:
            gang.status = group.status
            self._unsaid[gang.key] = None
        if before is not None and _asks(before) == _asks(group):
            gang.group = group
            return
        self._respec(gang)

    def pod_group_gone(self, key: str, now_s: float) -> None:
        """A PodGroup was deleted: its pods' own annotations count."""
        if self._groups.pop(key, None) is None:
            return
        gang = self._gang(key)
        gang.status = None
        self._respec(gang)
        self._drop_if_empty(gang)

    def pod_arrived(self, entry: PodInfo) -> None:
        """A member comes."""
        key = gang_key(entry.seen.pod, entry.seen.demands.gang)
        if not key:
            return
        gang = self._gang(key)
        self._of[entry.seen.uid] = gang
        gang.members[entry.seen.uid] = entry
        if gang.is_older(entry):
            gang.oldest = entry
            if gang.group is None:
                self._respec(gang)
        if not gang.open:
            self._grew[key] = None
        self._touch(gang)

    def pod_left(self, entry: PodInfo) -> None:
        """A member goes, or comes anew."""
        uid = entry.seen.uid
        gang = self._of.pop(uid, None)
        if gang is None:
            return
        gang.members.pop(uid, None)
        gang.placed.discard(uid)
        self._unhold(gang, uid)
        if gang.oldest is entry:
            gang.oldest = gang.find_oldest()
            if gang.group is None:
                self._respec(gang)
        if not gang.members:
            self._begin_anew(gang)
        self._look[gang.key] = None  # it may have been the one that did not fit
        self._touch(gang)
        self._drop_if_empty(gang)

    def reserve(self, entry: PodInfo) -> None:
        """A member has a node: for good, or until its gang is there."""
        gang = self._of.get(entry.seen.uid)
        if gang is None:
            return
        if entry.state is State.WAITING:
            gang.holding[entry.seen.uid] = entry
            gang.held_since_s = min(gang.held_since_s, entry.since_s)
        else:
            gang.placed.add(entry.seen.uid)
        self._touch(gang)

    def unreserve(self, entry: PodInfo) -> None:
        """A member has none any more."""
        gang = self._of.get(entry.seen.uid)
        if gang is None:
            return
        gang.placed.discard(entry.seen.uid)
        self._unhold(gang, entry.seen.uid)
        if gang.satisfied and not gang.placed:  # its binds failed, or all of it went: who comes now comes together
            self._begin_anew(gang)
            self._look[gang.key] = None
        self._touch(gang)

    def permitted(self, entry: PodInfo) -> None:
        """A member that held a node has it for good."""
        gang = self._of.get(entry.seen.uid)
        if gang is None:
            return
        self._unhold(gang, entry.seen.uid)
        gang.placed.add(entry.seen.uid)
        self._touch(gang)

    def pod_updated(self, entry: PodInfo) -> None:
        """A member on a node was told of anew: it may run now."""
        gang = self._of.get(entry.seen.uid)
        if gang is not None and gang.group is not None:
            self._unsaid[gang.key] = None

    def pod_ended(self, seen: ObservedPod) -> None:
        """A pod has run to its end."""
        key = gang_key(seen.pod, seen.demands.gang)
        if key and self._ended.get(seen.uid) != (key, seen.phase):
            self._ended[seen.uid] = (key, seen.phase)
            gang = self._gang(key)
            gang.ended[seen.uid] = seen.phase
            self._touch(gang)

    def pod_deleted(self, uid: str) -> None:
        """A pod that may have ended was deleted."""
        key, _ = self._ended.pop(uid, ("", None))
        gang = self._gangs.get(key)
        if gang is not None:
            gang.ended.pop(uid, None)
            self._touch(gang)
            self._drop_if_empty(gang)

    # ---- what is asked before a judgement

    def pre_enqueue(self, entry: PodInfo) -> str:
        """Why a member must not enter the queue yet."""
        gang = self._of.get(entry.seen.uid)
        return self._closed(gang) if gang is not None else ""

    def queue_key(self, entry: PodInfo) -> Hashable:
        """The key of all that is judged with it, or its gang."""
        gang = self._of.get(entry.seen.uid)
        if gang is None:
            return None
        together = self.bundle_of(gang)
        gangs = [self._gangs[key] for key in together]
        if not any(each.is_strict() for each in gangs):
            return gang.key
        required = any(
            each.spec is not None and each.spec.topology is not None and each.spec.topology.required for each in gangs
        )
        if not required and all(each.goes_alone() for each in gangs):
            return gang.key
        return Whole(together, NAME)

    def turn(self, now_s: float) -> None:
        """Members whose way is open, closed or another are looked at again; PodGroups are told how they stand."""
        for key in self._grew:
            self._retell.setdefault(key, now_s + _RETELL_S)
        self._grew.clear()
        for key in [key for key, due_s in self._retell.items() if due_s <= now_s]:
            del self._retell[key]
            self._look_at(key, State.BLOCKED)
        for key in self._look:
            self._look_at(key, State.BLOCKED, State.QUEUED)
        self._look.clear()
        for key in self._unsaid:
            gang = self._gangs.get(key)
            status = news_of(gang) if gang is not None else None
            if status is not None:
                self.host.say(status)
        self._unsaid.clear()

    def next_s(self) -> float:
        """When `turn` has something to do."""
        if self._look or self._unsaid or self._grew:
            return -inf
        return min(self._retell.values(), default=inf)

    # ---- what judgement asks

    def of(self, uid: str) -> Gang | None:
        """The gang of a pod."""
        return self._of.get(uid)

    def get(self, key: str) -> Gang | None:
        """A gang by namespace/name."""
        return self._gangs.get(key)

    def bundle_of(self, gang: Gang) -> tuple[str, ...]:
        """The gangs that are judged with it, itself included."""
        if not self._links:
            return (gang.key,)
        found = self._bundles.get(gang.key)
        if found is None:
            found = tuple(key for key in bundle(gang.key, self._links) if key in self._gangs)
            self._bundles[gang.key] = found
        return found

    def needed_by(self, gang: Gang) -> frozenset[str]:
        """The gangs that must be satisfied with it, itself included."""
        return reach(gang.key, self._links)

    def lacking(self, keys: Iterable[str], with_node: Iterable[PodInfo]) -> tuple[Tally, ...]:
        """Of the gangs that must be satisfied with these: those that are not, if these members had a node."""
        extra: dict[str, int] = {}
        for entry in with_node:
            key = self._of[entry.seen.uid].key
            extra[key] = extra.get(key, 0) + 1
        needed = frozenset().union(*(reach(key, self._links) for key in keys))
        tallies = (self._tally(key, extra.get(key, 0)) for key in sorted(needed))
        return tuple(tally for tally in tallies if not tally.is_met())

    def lacks(self, entry: PodInfo) -> int:
        """How many members must be placed together for this one to run, itself counted."""
        gang = self._of.get(entry.seen.uid)
        return 1 if gang is None or gang.goes_alone() else max(1, gang.tally().lacks())

    def permit(self, entry: PodInfo) -> bool:
        """Whether a member that is given a node may be bound at once: its gang, and every gang that it names, are satisfied then."""
        gang = self._of.get(entry.seen.uid)
        if gang is None or gang.goes_alone():
            return True
        return not self.lacking((gang.key,), (entry,))

    def permitted_with(self, entry: PodInfo) -> tuple[PodInfo, ...]:
        """Members that hold nodes and may be bound now that this one is."""
        gang = self._of.get(entry.seen.uid)
        if gang is None:
            return ()
        found: list[PodInfo] = []
        for key in (gang.key, *self._dependents(gang.key)):
            other = self._gangs[key]
            if other.holding and not self.lacking((key,), ()):
                found.extend(other.holding.values())
        return tuple(found)

    def holding(self) -> tuple[Gang, ...]:
        """Gangs whose members hold nodes, or that stand back for others."""
        return tuple(gang for gang in self._gangs.values() if gang.holding or gang.stands_back_for)

    def with_placed(self) -> tuple[Gang, ...]:
        """Gangs with members that are placed."""
        return tuple(gang for gang in self._gangs.values() if gang.placed)

    def stand_back(self, gang: Gang, to: str, until_s: float) -> None:
        """It lets another gang go first; its members stay before the gate."""
        gang.stands_back_for, gang.stands_back_until_s = to, until_s
        self._touch(gang)

    def come_forward(self, gang: Gang) -> None:
        """It stands back no more."""
        gang.stands_back_for, gang.stands_back_until_s = "", inf
        self._touch(gang)

    def note(self, keys: Iterable[str], why: str) -> None:
        """Why these gangs wait; empty = they were placed."""
        for key in keys:
            gang = self._gangs.get(key)
            if gang is not None:
                gang.why = why

    # ---- questions

    def describe(self, key: str) -> GangView | None:
        """Everything about a gang, by namespace/name."""
        gang = self._gangs.get(key)
        return self._view(gang) if gang is not None else None

    def describe_all(self) -> tuple[GangView, ...]:
        """Every gang, by name."""
        return tuple(self._view(gang) for _, gang in sorted(self._gangs.items()))

    def key_of(self, uid: str) -> str:
        """The gang of a pod, empty if it is in none."""
        gang = self._of.get(uid)
        return gang.key if gang is not None else ""

    def validate(self, pods: Mapping[str, PodInfo]) -> None:
        """Members, seats and the queue agree. Raises `Permanent`."""
        expected = {uid: gang_key(entry.seen.pod, entry.seen.demands.gang) for uid, entry in pods.items()}
        found = {uid: gang.key for uid, gang in self._of.items()}
        if found != {uid: key for uid, key in expected.items() if key}:
            raise Permanent("gangs and pods disagree about who belongs where")
        for gang in self._gangs.values():
            placed = {uid for uid, entry in gang.members.items() if entry.node and entry.state is not State.WAITING}
            holding = {uid for uid, entry in gang.members.items() if entry.node and entry.state is State.WAITING}
            if gang.placed != placed or gang.holding.keys() != holding:
                raise Permanent(f"gang {gang.key} counts {len(gang.placed)} placed members, there are {len(placed)}")
            if any(uid not in self._of for uid in gang.members):
                raise Permanent(f"gang {gang.key} has members that do not know it")

    # ---- inside

    def _gang(self, key: str) -> Gang:
        gang = self._gangs.get(key)
        if gang is None:
            gang = self._gangs[key] = Gang(key, satisfied=key in self._once)
            self._bundles.clear()
        return gang

    def _begin_anew(self, gang: Gang) -> None:
        gang.satisfied = False
        self._once.discard(gang.key)

    def _drop_if_empty(self, gang: Gang) -> None:
        if gang.members or gang.ended or gang.group is not None:
            return
        self._gangs.pop(gang.key, None)
        self._links.pop(gang.key, None)
        self._once.discard(gang.key)
        self._retell.pop(gang.key, None)
        self._bundles.clear()

    def _respec(self, gang: Gang) -> None:
        """Read what the gang asks anew."""
        before = gang.spec
        gang.group = self._groups.get(gang.key)
        if gang.group is not None:
            gang.spec, gang.problems = from_pod_group(gang.group)
            gang.status = gang.status or gang.group.status
        elif gang.oldest is not None:
            seen = gang.oldest.seen
            gang.spec, gang.problems = from_pod(gang.key, seen.pod.labels, seen.demands.gang)
        else:
            gang.spec, gang.problems = None, ()
        if gang.spec == before:
            return
        self._bundles.clear()
        self._links.pop(gang.key, None)
        if gang.spec is not None and gang.spec.groups:
            self._links[gang.key] = gang.spec.groups
        for key in (gang.key, *self._dependents(gang.key)):
            if key != gang.key or gang.group is not None or len(gang.members) > 1:
                self._look[key] = None
        self._touch(gang)

    def _touch(self, gang: Gang) -> None:
        """Counts have changed: whether it is satisfied, whose gate is another now, and what its PodGroup says."""
        if gang.group is not None:
            self._unsaid[gang.key] = None
        if not gang.satisfied and gang.spec is not None and gang.placed and gang.bound() >= gang.spec.min_available:
            gang.satisfied = True
            gang.why = ""
            self._once.add(gang.key)
            for key in (gang.key, *self._dependents(gang.key)):
                self._look[key] = None
        for key in (gang.key, *self._dependents(gang.key)):
            other = self._gangs[key]
            opens = not self._closed(other)
            if opens != other.open:
                other.open = opens
                self._look[key] = None
                if opens:
                    self._grew.pop(key, None)
                    self._retell.pop(key, None)

    def _dependents(self, key: str) -> tuple[str, ...]:
        """Other gangs that need this one."""
        if not self._links:
            return ()
        return tuple(
            other for other in self._links if other != key and other in self._gangs and key in reach(other, self._links)
        )

    def _look_at(self, key: str, *states: State) -> None:
        gang = self._gangs.get(key)
        for uid, entry in gang.members.items() if gang is not None else ():
            if entry.state in states:
                self.host.reconsider(uid)

    def _tally(self, key: str, waiting: int = 0) -> Tally:
        gang = self._gangs.get(key)
        return gang.tally(waiting) if gang is not None else Tally(key, None)

    def _closed(self, gang: Gang) -> str:
        """Why its members must not enter the queue."""
        if gang.stands_back_for:
            return f"gang {gang.key} gave its nodes back and lets gang {gang.stands_back_for} go first"
        spec = gang.spec
        if not self._links and spec is not None and (gang.placed or len(gang.members) >= spec.min_available):
            return ""
        tallies = []
        for key in sorted(reach(gang.key, self._links)) if self._links else (gang.key,):
            other = self._gangs.get(key)
            tally = self._tally(key)
            if other is not None and other.placed and not tally.satisfied:  # any bound member opens the gate
                tally = Tally(key, tally.spec, tally.waiting, tally.bound, tally.members, True)
            tallies.append(tally)
        answer, which = pre_enqueue(tallies)
        if which is None:
            return ""
        bound_to = "" if which.key == gang.key else f"gang {gang.key} is bound to gang {which.key}: "
        if answer is Gate.NOT_INITIALISED:
            other = self._gangs.get(which.key)
            why = "; ".join(other.problems) if other is not None else ""
            return f"{bound_to}gang {which.key} cannot be judged: {why or 'no PodGroup and no pod of it exists'}"
        least = which.spec.min_available if which.spec is not None else 0
        return (
            f"{bound_to}gang {which.key} has {which.members} of {least} members; waits for {least - which.members} more"
        )

    def _unhold(self, gang: Gang, uid: str) -> None:
        if gang.holding.pop(uid, None) is not None and not gang.holding:
            gang.held_since_s = inf

    def _view(self, gang: Gang) -> GangView:
        lacking = self.lacking((gang.key,), ()) if gang.holding else ()
        return view_of(
            gang, self.bundle_of(gang), tuple(sorted(reach(gang.key, self._links))), self._closed(gang), lacking
        )


def _asks(group: PodGroup) -> tuple[object, ...]:
    return group.uid, group.min_member, group.wait_s, group.notes
