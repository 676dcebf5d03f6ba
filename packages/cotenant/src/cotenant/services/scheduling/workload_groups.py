"""Groups of the Workload API: of the versions that a server has them in, and of the composite groups above them, one
PodGroup each for the engine.

While servers of two releases stand behind one address, the same object comes in two versions, and either may be absent
for a while: a group is gone once no version has it, and the newest version that has it counts; of the claims that its
pods share, the newest that has any, since a later version may have them behind a gate. Groups below composite
groups are reported again when their tree changes, with what the tree asks of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from cotenant.drivers.kube.kinds.custom.workload_pod_group import POD_GROUP_VERSIONS
from cotenant.drivers.kube.kinds.pod.groups import NO_TERMS, GroupTerms, PodGroupIndex
from cotenant.model.groups.gang import K8S_GROUP, CompositeGroup, PodGroup
from cotenant.policy.placement.gangs.composites import GroupTree

_NEWEST_FIRST: Sequence[str] = tuple(POD_GROUP_VERSIONS)


@dataclass(slots=True)
class _Namespace:
    """Groups in composite groups, and the composite groups, of one namespace."""

    children: dict[str, PodGroup] = field(default_factory=dict)
    composites: dict[str, CompositeGroup] = field(default_factory=dict)


class WorkloadGroups:
    """The groups that this scheduler knows.

    `seen` and `gone` are the gang plugin's; `terms_changed` gets the key of a group whose members are to be read again.
    """

    def __init__(
        self,
        seen: Callable[[PodGroup, float], None],
        gone: Callable[[str, float, str], None],
        index: PodGroupIndex,
        terms_changed: Callable[[str], None],
    ) -> None:
        self._seen, self._gone = seen, gone
        self._index, self._terms_changed = index, terms_changed
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
        self._note(key, NO_TERMS)
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
        found_in = [versions[version] for version in _NEWEST_FIRST if version in versions]
        group = replace(found_in[0], claims=next((found.claims for found in found_in if found.claims), ()))
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
        for group in GroupTree(found.children, found.composites).resolved():
            self._tell(group, now_s)

    def _tell(self, group: PodGroup, now_s: float) -> None:
        self._seen(group, now_s)
        uid = group.uid if group.claims else ""
        self._note(group.key, GroupTerms(group.priority, group.preempts, group.claims, uid))

    def _note(self, key: str, terms: GroupTerms) -> None:
        if self._index.put(key, terms):
            self._terms_changed(key)


def _of(key: str) -> str:
    return key.partition("/")[0]
