"""What PodGroups of the Workload API, and workloads that are gangs, say of their members."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.drivers.kube.kinds.pod.schema import SchedulingGroup
from cotenant.model.claims.needs import GroupClaim
from cotenant.model.cluster.demands import Demands
from cotenant.model.groups.gang import NO_NOTES, GangNotes


@dataclass(frozen=True, slots=True)
class GroupTerms:
    """Of all members: their priority (None: each has its own), whether they preempt, and the claims that they share.

    `uid` is the group's where it has claims.
    """

    priority: int | None = None
    preempts: bool = True
    claims: tuple[GroupClaim, ...] = ()
    uid: str = ""


class PodGroupIndex:
    """By namespace/name of a PodGroup; groups that say nothing are left out."""

    def __init__(self) -> None:
        self._by_key: dict[str, GroupTerms] = {}

    def put(self, key: str, terms: GroupTerms) -> bool:
        """Note what a group says. Returns whether that is news: its members must be read again."""
        if self._by_key.get(key, NO_TERMS) == terms:
            return False
        if terms == NO_TERMS:
            del self._by_key[key]
        else:
            self._by_key[key] = terms
        return True

    def of(self, namespace: str, group: SchedulingGroup | None) -> GroupTerms:
        """What the group of a pod says."""
        if not self._by_key or group is None:
            return NO_TERMS
        return self._by_key.get(f"{namespace}/{group.pod_group_name}", NO_TERMS)


NO_TERMS = GroupTerms()


def of_group(demands: Demands, group: SchedulingGroup) -> Demands:
    """The demands with the gang that `spec.schedulingGroup` names, unless an annotation names one."""
    if not group.pod_group_name:
        return demands
    notes = demands.gang or NO_NOTES
    if notes.name:
        return demands
    return replace(demands, gang=replace(notes, name=group.pod_group_name, needs_object=True))


def of_workload(demands: Demands, gang: GangNotes) -> Demands:
    """The demands with the gang that the pod's workload declares, unless the pod is in one."""
    if demands.gang is not None and demands.gang.name:
        return demands
    notes = demands.gang or NO_NOTES
    return replace(demands, gang=replace(notes, name=gang.name, min_available=gang.min_available))
