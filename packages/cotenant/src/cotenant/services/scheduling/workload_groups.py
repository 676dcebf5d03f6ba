"""Groups of the Workload API: of the versions that a server has them in, and of the composite groups above them, one
PodGroup each for the engine.

While servers of two releases stand behind one address, the same object comes in two versions, and either may be absent
for a while: a group is gone once no version has it, and the newest version that has it counts. Groups below composite
groups are reported again when their tree changes, with what the tree asks of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cotenant.drivers.kube.kinds.custom.workload_pod_group import POD_GROUP_VERSIONS
from cotenant.drivers.kube.kinds.pod.group_priorities import GroupPriorities, GroupPriority
from cotenant.model.groups.gang import K8S_GROUP, CompositeGroup, PodGroup
from cotenant.policy.placement.gangs.composites import Tree

_NEWEST_FIRST: Sequence[str] = tuple(POD_GROUP_VERSIONS)


@dataclass(slots=True)
class _Namespace:
    """Groups in composite groups, and the composite groups, of one namespace."""

    children: dict[str, PodGroup] = field(default_factory=dict)
    composites: dict[str, CompositeGroup] = field(default_factory=dict)


class WorkloadGroups:
    """The groups that this scheduler knows.

    `seen` and `gone` are the gang plugin's; `reprioritised` gets the key of a group whose members have another priority
    now.
    """

    def __init__(
        self,
        seen: Callable[[PodGroup, float], None],
        gone: Callable[[str, float, str], None],
        priorities: GroupPriorities,
        reprioritised: Callable[[str], None],
    ) -> None:
        self._seen, self._gone = seen, gone
        self._priorities, self._reprioritised = priorities, reprioritised
        self._by_version: dict[str, dict[str, PodGroup]] = {}  # key -> version -> the group
        self._namespaces: dict[str, _Namespace] = {}

    def seen(self, group: PodGroup, now_s: float) -> None:
        """A PodGroup was created or changed, in one version."""
        self._by_version.setdefault(group.key, {})[group.version] = group
        self._report(group.key, now_s)

    def gone(self, key: str, now_s: float, version: str) -> None:
        """A PodGroup was deleted, or its version is not served any more."""
        versions = self._by_version.get(key, {})
        if versions.pop(version, None) is None:
            return
        if versions:
            self._report(key, now_s)
            return
        del self._by_version[key]
        self._gone(key, now_s, K8S_GROUP)
        self._prioritise(key, None)
        namespace = _of(key)
        found = self._namespaces.get(namespace)
        if found is not None and found.children.pop(key, None) is not None:
            self._resolve(namespace, now_s)

    def composite_seen(self, composite: CompositeGroup, now_s: float) -> None:
        """A CompositePodGroup was created or changed."""
        namespace = _of(composite.key)
        self._namespaces.setdefault(namespace, _Namespace()).composites[composite.key] = composite
        self._resolve(namespace, now_s)

    def composite_gone(self, key: str, now_s: float) -> None:
        """A CompositePodGroup was deleted."""
        namespace = _of(key)
        found = self._namespaces.get(namespace)
        if found is not None and found.composites.pop(key, None) is not None:
            self._resolve(namespace, now_s)

    def _report(self, key: str, now_s: float) -> None:
        versions = self._by_version[key]
        group = next(versions[version] for version in _NEWEST_FIRST if version in versions)
        namespace = _of(key)
        if group.parent:
            self._namespaces.setdefault(namespace, _Namespace()).children[key] = group
            self._resolve(namespace, now_s)
            return
        found = self._namespaces.get(namespace)
        if found is not None and found.children.pop(key, None) is not None:  # recreated without a parent
            self._resolve(namespace, now_s)
        self._tell(group, now_s)

    def _resolve(self, namespace: str, now_s: float) -> None:
        found = self._namespaces[namespace]
        if not found.children and not found.composites:
            del self._namespaces[namespace]
            return
        for group in Tree(found.children, found.composites).resolved():
            self._tell(group, now_s)

    def _tell(self, group: PodGroup, now_s: float) -> None:
        self._seen(group, now_s)
        own = GroupPriority(group.priority, group.preempts)
        self._prioritise(group.key, own if own != GroupPriority() else None)

    def _prioritise(self, key: str, priority: GroupPriority | None) -> None:
        if self._priorities.put(key, priority):
            self._reprioritised(key)


def _of(key: str) -> str:
    return key.partition("/")[0]
