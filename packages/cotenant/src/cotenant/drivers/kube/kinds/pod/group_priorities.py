"""What PodGroups say of the priority of their members."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.drivers.kube.kinds.pod.schema import SchedulingGroup


@dataclass(frozen=True, slots=True)
class GroupPriority:
    """What a PodGroup says of all its members: their priority (None: each has its own), and whether they preempt."""

    priority: int | None = None
    preempts: bool = True


class GroupPriorities:
    """By namespace/name of a PodGroup of the Workload API; groups that say nothing are left out."""

    def __init__(self) -> None:
        self._by_key: dict[str, GroupPriority] = {}

    def put(self, key: str, priority: GroupPriority | None) -> bool:
        """Note what a group says, None = nothing. Returns whether that is news: its members must be read again."""
        if self._by_key.get(key) == priority:
            return False
        if priority is None:
            del self._by_key[key]
        else:
            self._by_key[key] = priority
        return True

    def of(self, namespace: str, group: SchedulingGroup | None) -> GroupPriority:
        """What the group of a pod says."""
        if not self._by_key or group is None:
            return _OWN_PRIORITY
        return self._by_key.get(f"{namespace}/{group.pod_group_name}", _OWN_PRIORITY)


_OWN_PRIORITY = GroupPriority()
