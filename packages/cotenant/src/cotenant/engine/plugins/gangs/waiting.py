"""Nodes that members of NonStrict gangs hold while their gang is incomplete: binding, release, and the way out of a
deadlock.

Nodes held by gangs that never complete are lost to all other pods, and two such gangs may each wait for what the other
holds. (1) As soon as every gang that must be satisfied is, all of their members that hold nodes are bound. (2) A gang
that holds nodes for longer than its waiting time releases all of them, with the gangs that are placed together with it.
It yields to the most important of the other gangs that hold nodes, and backs off: for a time that doubles with every
such release it takes nodes only all together (engine/plugins/gangs/back_off.py). (3) When every NonStrict gang that
holds nodes is stuck (each of its missing members was rejected, and no preemption is in progress), at least two hold
nodes, and none is held back, the least important one (the youngest among equals) releases its nodes and yields to the
most important one: its members wait before the gate until that one is complete, gone, or has released its nodes, or
until its own waiting time is over once more. No gang yields to one that needs it. One gang per round, so that no more
is released than needed (policy/placement/gangs/deadlock.py).

Limits: a single gang that is stuck keeps its nodes until its waiting time is over; a member that is preempted releases
its node and is not evicted.
"""

from __future__ import annotations

from math import inf

from cotenant.engine.cycle.access import CycleAccess
from cotenant.engine.framework.queueing import QueueStanding
from cotenant.engine.plugins.gangs.directory import GangDirectory
from cotenant.engine.plugins.gangs.members import Gang
from cotenant.policy.placement.gangs.deadlock import HoldingGang, give_way


class GangWaiting:
    """The members that hold a node without being bound."""

    def __init__(self, cycle: CycleAccess, gangs: GangDirectory) -> None:
        self._components = cycle.components
        self._pods = cycle.pods
        self._waiting = cycle.waiting
        self._gangs = gangs

    def expire(self, now_s: float) -> bool:
        """Bind members whose gang needs no more, and release nodes that were held for too long. Whether any pod
        left a node.
        """
        moved = False
        gangs = self._gangs.holding()
        for gang in gangs:
            if gang.yields_to:
                first = self._gangs.get(gang.yields_to)
                if first is None or first.satisfied or not first.holding or gang.yields_until_s <= now_s:
                    self._gangs.stop_yielding(gang)
        for gang in gangs:
            if not gang.holding:
                continue
            if not self._gangs.lacking((gang.key,), ()):
                members = tuple(gang.holding.values())
                self._waiting.allow(members, len(members), now_s)
            elif _until_s(gang) <= now_s:
                self._end_window(gang, now_s)
                moved = True
        return moved

    def next_s(self) -> float:
        """When `expire` will have something to do."""
        soonest = inf
        for gang in self._gangs.holding():
            if gang.holding and not self._gangs.lacking((gang.key,), ()):
                return -inf  # it needs fewer now, or others were bound meanwhile
            soonest = min(soonest, _until_s(gang) if gang.holding else inf, gang.yields_until_s)
        return soonest

    def end_deadlock(self, now_s: float) -> None:
        """Where the gangs that hold nodes wait for one another, one releases its nodes."""
        holders = [gang for gang in self._gangs.holding() if gang.holding]
        if len(holders) < 2 or len(self._components.nominations) or self._pods.answers:
            return
        way = give_way(
            [
                HoldingGang(
                    gang.key, _priority(gang), _created_s(gang), self._is_stuck(gang), self._gangs.needed_by(gang)
                )
                for gang in holders
            ]
        )
        if way is not None:
            gives = self._gangs.get(way.gives)
            assert gives is not None
            self._release(gives, way.to, now_s)

    def _end_window(self, gang: Gang, now_s: float) -> None:
        """The waiting time of a gang is over: it and the gangs that are placed together with it release their nodes
        and back off.
        """
        keys = self._gangs.bundle_of(gang)
        others = [
            other
            for other in self._gangs.holding()
            if other.holding and other.key not in keys and self._gangs.needed_by(other).isdisjoint(keys)
        ]
        to = _most_important(others).key if others else ""
        self._gangs.back_off(keys, max(gang.wait_s(), 2 * self._components.queue.longest_backoff_s), now_s)
        for element in map(self._gangs.get, keys):
            for entry in element.members.values() if element is not None else ():
                self._pods.requeue(entry, now_s)  # at once: in this round it would take what is released
            if element is not None:
                self._release(element, to, now_s)

    def _release(self, gang: Gang, to: str, now_s: float) -> None:
        if to:
            self._gangs.start_yielding(gang, to, now_s + gang.wait_s())
        for entry in tuple(gang.holding.values()):
            self._waiting.reject(entry, "GangGivesBack", now_s)

    def _is_stuck(self, gang: Gang) -> bool:
        """Whether every gang that it needs lacks members which were all rejected."""
        for tally in self._gangs.lacking((gang.key,), ()):
            other = self._gangs.get(tally.key)
            if other is None:
                return False
            missing = [entry for entry in other.members.values() if not entry.node]
            for entry in missing:
                group = self._components.queue.group_of(entry.seen.uid)
                if group is None or group.standing is not QueueStanding.UNSCHEDULABLE:
                    return False
            if not missing:
                return False
        return True


def _until_s(gang: Gang) -> float:
    return gang.held_since_s + gang.wait_s()


def _priority(gang: Gang) -> int:
    return min(entry.seen.pod.priority for entry in gang.members.values())


def _created_s(gang: Gang) -> float:
    return min(entry.seen.created_s for entry in gang.members.values())


def _most_important(gangs: list[Gang]) -> Gang:
    return min(gangs, key=lambda gang: (-_priority(gang), _created_s(gang), gang.key))
