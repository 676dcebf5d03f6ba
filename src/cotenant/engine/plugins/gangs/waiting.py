"""Members of NonStrict gangs that hold a node until the rest of their gang has one: holding, release, give-back, and the way out of a deadlock.

Problem: what is held by gangs that never get complete is lost to everybody, and two of them may each wait for what the other holds. Choice, in this order:
(1) the moment every gang that must be satisfied is, all of their members that hold nodes are bound; (2) a gang that holds nodes for longer than its waiting time
gives all of them back, and lets the other gangs that hold nodes go first, or rests where there is none; (3) when every NonStrict gang that holds nodes is stuck (each of its missing members was
refused, nothing is being preempted for anybody), at least two hold nodes, and none is held back, the least important one (the youngest of equally important ones)
gives back at once and stands back for the most important one: its members wait before the gate until that one is complete, gone, or has given back itself, or until its own
waiting time is over once more. No gang lets one go first that needs it. One gang a round, so that no more is given back than is needed. (policy/placement/gangs/deadlock.py)

Limits: a gang that is alone in being stuck keeps its nodes until its time is over; a member that is preempted gives its node back, and is not evicted.
"""

from __future__ import annotations

from math import inf

from cotenant.engine.cycle.access import CycleAccess
from cotenant.engine.framework.queueing import Standing
from cotenant.engine.plugins.gangs.directory import GangDirectory
from cotenant.engine.plugins.gangs.members import Gang
from cotenant.policy.placement.gangs.deadlock import Holder, give_way


class GangWaiting:
    """Who holds a node without being bound."""

    def __init__(self, cycle: CycleAccess, gangs: GangDirectory) -> None:
        self._components = cycle.components
        self._pods = cycle.pods
        self._waiting = cycle.waiting
        self._gangs = gangs

    def expire(self, now_s: float) -> bool:
        """Members are bound whose gang needs fewer by now, and give back what was held for too long. Whether anybody left a node."""
        moved = False
        gangs = self._gangs.holding()
        for gang in gangs:
            if gang.stands_back_for:
                first = self._gangs.get(gang.stands_back_for)
                if first is None or first.satisfied or not first.holding or gang.stands_back_until_s <= now_s:
                    self._gangs.come_forward(gang)
        for gang in gangs:
            if not gang.holding:
                continue
            if not self._gangs.lacking((gang.key,), ()):
                members = tuple(gang.holding.values())
                self._waiting.allow(members, len(members), now_s)
            elif _until_s(gang) <= now_s:
                others = [
                    other
                    for other in gangs
                    if other is not gang and other.holding and gang.key not in self._gangs.needed_by(other)
                ]
                self._give_back(gang, _most_important(others).key if others else "", now_s)
                moved = True
        return moved

    def next_s(self) -> float:
        """When `expire` will have something to do."""
        soonest = inf
        for gang in self._gangs.holding():
            if gang.holding and not self._gangs.lacking((gang.key,), ()):
                return -inf  # it needs fewer by now, or others were bound meanwhile
            soonest = min(soonest, _until_s(gang) if gang.holding else inf, gang.stands_back_until_s)
        return soonest

    def give_way(self, now_s: float) -> None:
        """Where nobody can move, one gang gives back."""
        holders = [gang for gang in self._gangs.holding() if gang.holding]
        if len(holders) < 2 or len(self._components.nominations) or self._pods.answers:
            return
        way = give_way(
            [
                Holder(gang.key, _priority(gang), _created_s(gang), self._is_stuck(gang), self._gangs.needed_by(gang))
                for gang in holders
            ]
        )
        if way is not None:
            gives = self._gangs.get(way.gives)
            assert gives is not None
            self._give_back(gives, way.to, now_s)

    def _give_back(self, gang: Gang, to: str, now_s: float) -> None:
        if to and gang.spec is not None:
            self._gangs.stand_back(gang, to, now_s + gang.spec.wait_s)
        for entry in tuple(gang.holding.values()):
            self._waiting.reject(entry, "GangGivesBack", now_s, rests=not to)

    def _is_stuck(self, gang: Gang) -> bool:
        """Whether every gang that it needs lacks members which were all refused."""
        for tally in self._gangs.lacking((gang.key,), ()):
            other = self._gangs.get(tally.key)
            if other is None:
                return False
            missing = [entry for entry in other.members.values() if not entry.node]
            for entry in missing:
                group = self._components.queue.group_of(entry.seen.uid)
                if group is None or group.standing is not Standing.UNSCHEDULABLE:
                    return False
            if not missing:
                return False
        return True


def _until_s(gang: Gang) -> float:
    return gang.held_since_s + gang.spec.wait_s if gang.spec is not None else gang.held_since_s


def _priority(gang: Gang) -> int:
    return min(entry.seen.pod.priority for entry in gang.members.values())


def _created_s(gang: Gang) -> float:
    return min(entry.seen.created_s for entry in gang.members.values())


def _most_important(gangs: list[Gang]) -> Gang:
    return min(gangs, key=lambda gang: (-_priority(gang), _created_s(gang), gang.key))
