"""Pods by what else their reading depends on: a PodGroup, a workload, an owner.

They are read again when that changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.drivers.kube.kinds.pod.schema import PodObject


class Dependents:
    """Pods as last received, by the name of what they depend on."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, PodObject]] = {}
        self.names: dict[str, tuple[str, ...]] = {}  # by UID of the pod; read only elsewhere

    def put(self, pod: PodObject, names: Iterable[str]) -> None:
        """A pod was created or changed."""
        uid, found = pod.metadata.uid or "", tuple(names)
        if self.names.get(uid, ()) != found:
            self.drop(uid)
        if found:
            self.names[uid] = found
        for name in found:
            self._pods.setdefault(name, {})[uid] = pod

    def drop(self, uid: str) -> None:
        """A pod is gone."""
        for name in self.names.pop(uid, ()):
            pods = self._pods[name]
            pods.pop(uid, None)
            if not pods:
                del self._pods[name]

    def of(self, name: str) -> tuple[PodObject, ...]:
        """The pods that depend on something."""
        return tuple(self._pods.get(name, {}).values())
