"""The gangs of a cluster as the scheduling cycle asks about them: the gate, the key in the queue, permits, and
descriptions.

Each member's event may concern every member, and a round asks about thousands of pods. The records are kept by
engine/plugins/gangs/membership.py; here the gangs that changed are processed once before a round (`turn`): members
whose gate or key changed are queued again, and PodGroups get their status. Nothing is placed here: a bundle of Strict
gangs is queued under one key (`WholeGroup`) and placed by engine/plugins/gangs/gang_placement.py; members of NonStrict
gangs are placed one by one, hold their nodes (engine/plugins/gangs/waiting.py), and are queued under one key only
while their gang is in back-off (engine/plugins/gangs/back_off.py).

Limits: a bundle with one Strict gang is Strict as a whole; topology counts for Strict gangs. Source: Koordinator,
pkg/scheduler/plugins/coscheduling.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from math import inf
from types import MappingProxyType

from cotenant.engine.framework.events import NODES, EventKind
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.framework.queueing import WholeGroup
from cotenant.engine.plugins.gangs.gang_view import GangView
from cotenant.engine.plugins.gangs.members import Gang
from cotenant.engine.plugins.gangs.membership import GangMembership
from cotenant.engine.plugins.gangs.status import status_update, view_of
from cotenant.model.errors import Permanent
from cotenant.policy.placement.gangs.bundles import bundle, reach
from cotenant.policy.placement.gangs.permit import GangTally
from cotenant.policy.placement.gangs.spec import gang_key

NAME = "Coscheduling"
_REPORT_AGAIN_S = 3.0  # pods that wait for more members get the new count after this long


class GangDirectory(GangMembership):
    """Every gang that this scheduler knows."""

    name = NAME
    events = MappingProxyType(
        {
            NAME: frozenset(),  # members are missing: whoever comes wakes the gang
            "GangTopology": NODES | {EventKind.POD_CHANGED, EventKind.POD_GONE},
            "GangResources": frozenset(
                {EventKind.NODE_ADDED, EventKind.NODE_CHANGED, EventKind.POD_CHANGED, EventKind.POD_GONE}
            ),
        }
    )
    gathers = True
    _schedulers: tuple[str, ...] = ()  # whose pods are ours; known once it has joined a cycle

    def _start_empty(self) -> None:
        super()._start_empty()
        self._report_at_s: dict[str, float] = {}  # gangs that wait for members: when their pods get the new count

    # ---- before a round

    def pre_enqueue(self, entry: PodInfo) -> str:
        """See `Plugin`."""
        gang = self._of.get(entry.seen.uid)
        return self._why_closed(gang) if gang is not None else ""

    def sign(self, entry: PodInfo) -> Hashable:
        """The key of all pods that are placed together with it, or its gang."""
        gang = self._of.get(entry.seen.uid)
        if gang is None:
            return None
        together = self.bundle_of(gang)
        gangs = [self._gangs[key] for key in together]
        if not any(element.is_strict() for element in gangs):
            backs_off = any(map(self._back_offs.is_active, together)) and not all(
                element.goes_alone() for element in gangs
            )
            return WholeGroup(together, NAME) if backs_off else gang.key
        specs = [element.spec for element in gangs if element.spec is not None]
        # who comes later has to be placed beside the others
        required = any(spec.inner_key or (spec.topology is not None and spec.topology.required) for spec in specs)
        if not required and all(element.goes_alone() for element in gangs):
            return gang.key
        return WholeGroup(together, NAME)

    def turn(self, now_s: float) -> None:
        """Queue members again whose gate or key may have changed, and send the status of PodGroups."""
        for key in self._grew:
            self._report_at_s.setdefault(key, now_s + _REPORT_AGAIN_S)
        self._grew.clear()
        for key in [key for key, due_s in self._report_at_s.items() if due_s <= now_s]:
            del self._report_at_s[key]
            self._reconsider(key, SchedulingState.BLOCKED)
        for key in self._back_offs.end_due(now_s):
            self._reconsidered[key] = None
        for key in self._reconsidered:
            self._reconsider(key, SchedulingState.BLOCKED, SchedulingState.QUEUED)
        self._reconsidered.clear()
        self._report_evictable()
        for key in self._status_due:
            gang = self._gangs.get(key)
            status = status_update(gang, self._schedulers) if gang is not None else None
            if status is not None:
                self.host.say(status)
        self._status_due.clear()

    def next_s(self) -> float:
        """See `Plugin`."""
        if self._reconsidered or self._status_due or self._grew or self._reckoned:
            return -inf
        if not self._gangs:
            return inf
        return min(self._back_offs.next_s(), *self._report_at_s.values(), inf)

    def _reconsider(self, key: str, *states: SchedulingState) -> None:
        gang = self._gangs.get(key)
        for uid, entry in gang.members.items() if gang is not None else ():
            if entry.state in states:
                self.host.reconsider(uid)

    def _report_evictable(self) -> None:
        """Which members can be spared, and whether a gang may be evicted whole, depends on all that are placed."""
        gangs = [gang for key in self._reckoned if (gang := self._gangs.get(key)) is not None]
        self._reckoned.clear()
        keys = dict.fromkeys(key for gang in gangs for key in self.bundle_of(gang))
        placed = [entry.members[uid] for key in keys for entry in (self._gangs[key],) for uid in entry.placed]
        if placed:
            self.host.may_go(placed)

    def _opened(self, key: str) -> None:
        self._report_at_s.pop(key, None)

    # ---- during a round

    def of(self, uid: str) -> Gang | None:
        """The gang of a pod."""
        return self._of.get(uid)

    def get(self, key: str) -> Gang | None:
        """A gang by namespace/name."""
        return self._gangs.get(key)

    def bundle_of(self, gang: Gang) -> tuple[str, ...]:
        """The gangs that are placed together with it, itself included."""
        if not self._links:
            return (gang.key,)
        found = self._bundles.get(gang.key)
        if found is None:
            found = tuple(key for key in bundle(gang.key, self._links.named) if key in self._gangs)
            self._bundles[gang.key] = found
        return found

    def needed_by(self, gang: Gang) -> frozenset[str]:
        """The gangs that must be satisfied with it, itself included."""
        return reach(gang.key, self._links.named)

    def lacking(self, keys: Iterable[str], with_node: Iterable[PodInfo]) -> tuple[GangTally, ...]:
        """The gangs that must be satisfied with these and would not be if these members had a node."""
        extra: dict[str, int] = {}
        for entry in with_node:
            key = self._of[entry.seen.uid].key
            extra[key] = extra.get(key, 0) + 1
        needed = frozenset().union(*(reach(key, self._links.named) for key in keys))
        tallies = (self._tally(key, extra.get(key, 0)) for key in sorted(needed))
        return tuple(tally for tally in tallies if not tally.is_met())

    def lacks(self, entry: PodInfo) -> int:
        """How many members must be placed together for this one to run, itself counted."""
        gang = self._of.get(entry.seen.uid)
        return 1 if gang is None or gang.goes_alone() else max(1, gang.tally().lacks())

    def permit(self, entry: PodInfo) -> bool:
        """Whether a member may be bound as soon as it has a node: its gang, and every gang that it names, are
        satisfied then.
        """
        gang = self._of.get(entry.seen.uid)
        if gang is None or gang.goes_alone():
            return True
        return not self.lacking((gang.key,), (entry,))

    def allowed_with(self, entry: PodInfo) -> tuple[PodInfo, ...]:
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

    def representative(self, gang: Gang) -> PodInfo | None:
        """The member whose rank in the queue is that of all gangs that are placed together; None where none is queued,
        or members go alone.

        Koordinator queues this member only; here all of them are queued under one key.
        """
        gangs = [self._gangs[key] for key in self.bundle_of(gang)]
        if all(element.goes_alone() for element in gangs):
            return None
        queued = (
            entry for element in gangs for entry in element.members.values() if entry.state is SchedulingState.QUEUED
        )
        return next(queued, None)

    def holding(self) -> tuple[Gang, ...]:
        """Gangs whose members hold nodes, or that yield to another gang, in the order in which they began to."""
        return tuple(self._watched.values())

    def with_placed(self) -> tuple[Gang, ...]:
        """Gangs with members that are placed."""
        return tuple(gang for gang in self._gangs.values() if gang.placed)

    def back_off(self, keys: tuple[str, ...], first_s: float, now_s: float) -> None:
        """Gangs that are placed together hold no nodes for a while; their members must be queued again. `first_s`:
        the length of a first back-off.
        """
        self._back_offs.start(keys, first_s, now_s)

    def back_off_of(self, keys: Iterable[str]) -> str:
        """The back-off of gangs that are placed together, as a clause of a message; empty outside of one."""
        for key in keys:
            if self._back_offs.is_active(key):
                times, length_s = self._back_offs.times(key), self._back_offs.length_s(key)
                often = "once" if times == 1 else f"{times} times in a row"
                return f"it released its nodes incomplete {often}, and for {length_s:g} s takes nodes only all together"
        return ""

    def start_yielding(self, gang: Gang, to: str, until_s: float) -> None:
        """It lets another gang go first; its members wait before the gate."""
        gang.yields_to, gang.yields_until_s = to, until_s
        self._watched[gang.key] = gang
        self._counts_changed(gang)

    def stop_yielding(self, gang: Gang) -> None:
        """Its members may enter the queue again."""
        gang.yields_to, gang.yields_until_s = "", inf
        if not gang.holding:
            self._watched.pop(gang.key, None)
        self._counts_changed(gang)

    def note(self, keys: Iterable[str], why: str) -> None:
        """Why these gangs wait; empty = they were placed."""
        for key in keys:
            gang = self._gangs.get(key)
            if gang is not None:
                gang.why = why

    def _tally(self, key: str, waiting: int = 0) -> GangTally:
        gang = self._gangs.get(key)
        return gang.tally(waiting) if gang is not None else GangTally(key, None)

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

    def _view(self, gang: Gang) -> GangView:
        return view_of(
            gang,
            self.bundle_of(gang),
            tuple(sorted(reach(gang.key, self._links.named))),
            self._why_closed(gang),
            self.lacking((gang.key,), ()) if gang.holding else (),
            self._back_offs.until_s(gang.key),
            self.representative(gang),
        )

    def validate(self, pods: Mapping[str, PodInfo]) -> None:
        """Members, assignments and the queue agree. Raises `Permanent`."""
        expected = {uid: gang_key(entry.seen.pod, entry.seen.demands.gang) for uid, entry in pods.items()}
        found = {uid: gang.key for uid, gang in self._of.items()}
        if found != {uid: key for uid, key in expected.items() if key}:
            raise Permanent("gangs and pods disagree about members")
        if set(self._watched) != {key for key, gang in self._gangs.items() if gang.holding or gang.yields_to}:
            raise Permanent("the gangs that hold nodes or yield are not those that are looked at each round")
        for gang in self._gangs.values():
            placed = {
                uid for uid, entry in gang.members.items() if entry.node and entry.state is not SchedulingState.WAITING
            }
            holding = {
                uid for uid, entry in gang.members.items() if entry.node and entry.state is SchedulingState.WAITING
            }
            if gang.placed != placed or gang.holding.keys() != holding:
                raise Permanent(f"gang {gang.key} counts {len(gang.placed)} placed members, there are {len(placed)}")
            if any(uid not in self._of for uid in gang.members):
                raise Permanent(f"gang {gang.key} has members that are not indexed")
