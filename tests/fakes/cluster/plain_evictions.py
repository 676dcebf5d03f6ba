"""Which pods may be evicted for others, and whether those could be placed then: by the documented rules alone, written
as plainly as possible, over the facts of a crossing world.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType

from tests.fakes.cluster.crossing_facts import Facts, Member, Wanted

from cotenant.model.claims.devices import DeviceId

Taken = dict[str, tuple[DeviceId, ...]]  # by claim: what it is given


class PlainEvictions:
    """Answers over the facts as they are now. `gone`: names of pods that are leaving or would leave."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    # ---- who may go

    def candidates(self, priority: int, gone: frozenset[str] = frozenset()) -> frozenset[str]:
        """All that a preemptor of this priority may have evicted: less important pods, of a gang only as many as it
        can spare, the least important, unless all of it may go.
        """
        found = set[str]()
        for pod in self._facts.pods.values():
            if pod.node and not pod.gang and self._is_lower(pod, priority):
                found.add(pod.name)
        for gang, least in self._facts.least.items():
            here = [pod for pod in self._facts.members(gang) if pod.node and pod.name not in gone]
            lower = sorted((pod for pod in here if self._is_lower(pod, priority)), key=self._least_important)
            whole = len(lower) == len(here)
            found.update(pod.name for pod in (lower if whole else lower[: max(0, len(here) - least)]))
        return frozenset(found - gone)

    def _is_lower(self, pod: Member, priority: int) -> bool:
        return pod.preemptible and pod.priority < priority

    def _least_important(self, pod: Member) -> tuple[int, float, str]:
        return pod.priority, -pod.started_s, pod.uid

    def broken(self, gone: frozenset[str], before: frozenset[str] = frozenset()) -> str:
        """A gang that is left below its minimum and not empty; empty if none is. `before`: those that went before."""
        for gang, least in self._facts.least.items():
            was = [pod for pod in self._facts.members(gang) if pod.node and pod.name not in before]
            stays = [pod for pod in was if pod.name not in gone]
            if len(stays) < len(was) and 0 < len(stays) < least:
                return gang
        return ""

    # ---- room

    def fits(
        self, pods: Sequence[Member], least: int, gone: frozenset[str], nodes: Mapping[str, str] = MappingProxyType({})
    ) -> bool:
        """Whether at least so many of these can be placed at once, in any arrangement; those of `nodes` there only."""
        room = {node: self._room(node, gone) for node in self._facts.cpu}
        taken = {
            device for claim in self._facts.claims.values() if self._users(claim) - gone for device in claim.devices
        }
        return self._search(list(pods), least, room, taken, {}, gone, nodes)

    def _room(self, node: str, gone: frozenset[str]) -> int:
        here = sum(pod.cpu for pod in self._facts.pods.values() if pod.node == node and pod.name not in gone)
        return self._facts.cpu[node] - here - self._facts.reserved.get(node, 0)

    def _search(
        self,
        left: list[Member],
        least: int,
        room: dict[str, int],
        taken: set[DeviceId],
        given: Taken,
        gone: frozenset[str],
        nodes: Mapping[str, str],
    ) -> bool:
        if least <= 0:
            return True
        if len(left) < least:
            return False
        pod, rest = left[0], left[1:]
        for node in room:
            if room[node] < pod.cpu or nodes.get(pod.name, node) != node:
                continue
            for choice in self._choices(pod, node, taken, given, gone):
                more = {device for key, devices in choice.items() if key not in given for device in devices}
                there = room | {node: room[node] - pod.cpu}
                if self._search(rest, least - 1, there, taken | more, given | choice, gone, nodes):
                    return True
        return self._search(rest, least, room, taken, given, gone, nodes)

    def _choices(
        self, pod: Member, node: str, taken: set[DeviceId], given: Taken, gone: frozenset[str]
    ) -> Iterator[Taken]:
        """What the claims of a pod may be given on a node."""
        facts = self._facts
        here = {**facts.devices.get(node, {}), **facts.devices.get("", {})}

        def go_on(keys: Sequence[str], chosen: Taken) -> Iterator[Taken]:
            if not keys:
                yield chosen
                return
            wanted = facts.claims[keys[0]]
            known = given.get(keys[0]) or (wanted.devices if wanted.devices and self._keeps(keys[0], gone) else ())
            if known:
                if all(device in here for device in known):
                    yield from go_on(keys[1:], chosen | {keys[0]: known})
                return
            used = taken | {device for devices in chosen.values() for device in devices}
            free = [d for d, model in here.items() if d not in used and wanted.model in ("", model)]
            for devices in combinations(free, wanted.count):
                yield from go_on(keys[1:], chosen | {keys[0]: devices})

        yield from go_on(pod.claims, {})

    def _keeps(self, key: str, gone: frozenset[str]) -> bool:
        return bool(self._users(self._facts.claims[key]) - gone)

    def _users(self, claim: Wanted) -> set[str]:
        """Those that exist: what controls claims may not have looked yet."""
        return (claim.users & self._facts.pods.keys()) | ({"a group"} if claim.is_kept else set())

    # ---- quotas

    def quota_is_sure(self, pods: Sequence[Member], least: int) -> bool:
        """Whether so many of these must be admitted, beside what cannot be evicted in the quota: within the minimum, or
        within the maximum where the cluster has room for the maxima of all.
        """
        facts = self._facts
        limit = int(sum(most for _, most in facts.quotas.values()) <= sum(facts.cpu.values()))
        for quota in {pod.quota for pod in pods if pod.quota}:
            asked = sorted((pod.cpu for pod in pods if pod.quota == quota), reverse=True)[:least]
            priority = min(pod.priority for pod in pods)
            stay = sum(
                pod.cpu
                for pod in facts.pods.values()
                if pod.node
                and pod.quota == quota
                and not all(
                    other.quota == quota and self._is_lower(other, priority) and not other.covered
                    for other in ([mate for mate in facts.members(pod.gang) if mate.node] if pod.gang else [pod])
                )
            )
            if not all(pod.preempts for pod in pods):
                stay = facts.used(quota)
            if stay + sum(asked) > facts.quotas[quota][limit]:
                return False
        return True

    def over_maximum(self) -> str:
        """A quota above its maximum."""
        found = (name for name, (_, most) in self._facts.quotas.items() if self._facts.used(name) > most)
        return next(found, "")

    # ---- what is true now

    def conflict(self) -> str:
        """A device that two claims have, a node over its capacity, or a claim that its pod cannot use."""
        seen: dict[DeviceId, str] = {}
        for key, claim in self._facts.claims.items():
            for device in claim.devices:
                if device in seen:
                    return f"{device} is given to {seen[device]} and {key}"
                seen[device] = key
        for node in self._facts.cpu:
            if self._room(node, frozenset()) < 0:
                return f"{node} is over its capacity"
        for pod in self._facts.pods.values():
            here = {**self._facts.devices.get(pod.node, {}), **self._facts.devices.get("", {})}
            for key in pod.claims if pod.node else ():
                wanted = self._facts.claims[key]
                if len(wanted.devices) != wanted.count or not all(device in here for device in wanted.devices):
                    return f"{pod.name} on {pod.node} cannot use {key} with {wanted.devices}"
                if wanted.model and any(here[device] != wanted.model for device in wanted.devices):
                    return f"{key} has a device of another model"
        return ""


def names(pods: Iterable[Member]) -> frozenset[str]:
    """Their names."""
    return frozenset(pod.name for pod in pods)
