"""The selector by which default spread constraints count a pod's fellows: that of the Services that select the pod,
merged with that of the controller that owns it.

Source: kube-scheduler's helper.DefaultSelector, v1.36. A Service without a selector selects nothing; a pod that
neither a Service nor a ReplicationController, ReplicaSet or StatefulSet selects is not spread by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Strings
from cotenant.drivers.kube.kinds.parts import ObjectMeta, OwnerReference
from cotenant.drivers.kube.kinds.selectors import Selector, read_label_selector
from cotenant.model.cluster.labels import LabelSelector


class _Matching(ApiStruct, frozen=True):
    selector: Strings = None


class MatchingObject(ApiStruct, frozen=True):
    """A Service or a ReplicationController: pods by equal labels."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Matching | None = None


class _Selecting(ApiStruct, frozen=True):
    selector: Selector | None = None


class SelectingObject(ApiStruct, frozen=True):
    """A ReplicaSet or a StatefulSet: pods by a selector."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Selecting | None = None


SERVICES = Kind("Service", "", "v1", "services", True, MatchingObject)
REPLICATION_CONTROLLERS = Kind("ReplicationController", "", "v1", "replicationcontrollers", True, MatchingObject)
REPLICA_SETS = Kind("ReplicaSet", "apps", "v1", "replicasets", True, SelectingObject)
STATEFUL_SETS = Kind("StatefulSet", "apps", "v1", "statefulsets", True, SelectingObject)
_OWNING = {(kind.api_version, kind.name) for kind in (REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS)}


class SpreadSelectors:
    """What Services and controllers select. `is_on` once somebody tells it."""

    def __init__(self) -> None:
        self.is_on = False
        self._services: dict[str, dict[str, dict[str, str]]] = {}  # by namespace and name
        self._controllers: dict[tuple[str, str], LabelSelector] = {}  # by kind and namespace/name

    def put_service(self, key: str, obj: MatchingObject | None) -> bool:
        """A Service was created, changed or (None) deleted. Whether that is news for pods of its namespace."""
        namespace, _, name = key.partition("/")
        known = self._services.setdefault(namespace, {})
        selector = (obj.spec.selector or {}) if obj is not None and obj.spec is not None else {}
        if known.get(name, {}) == selector:
            return False
        if selector:
            known[name] = selector
        else:
            del known[name]
        return True

    def put_controller(self, kind: str, key: str, obj: MatchingObject | SelectingObject | None) -> bool:
        """A controller was created, changed or (None) deleted. Whether that is news for its pods. Raises `InvalidInput`
        for a selector that cannot be read.
        """
        found: LabelSelector | None = None
        if isinstance(obj, MatchingObject):
            found = LabelSelector.of((obj.spec.selector if obj.spec is not None else None) or {})
        elif obj is not None and obj.spec is not None:
            found = read_label_selector(obj.spec.selector, f"{kind} {key}: spec.selector")
        if self._controllers.get((kind, key)) == found:
            return False
        if found is None:
            del self._controllers[kind, key]
        else:
            self._controllers[kind, key] = found
        return True

    def depends_on(self, namespace: str, owners: Iterable[OwnerReference]) -> tuple[str, ...]:
        """What the selector of a pod depends on, by name."""
        owner = _owner(owners)
        services = services_of(namespace)
        return (services,) if owner is None else (services, f"{owner.kind} {namespace}/{owner.name}")

    def of(self, namespace: str, labels: Mapping[str, str], owners: Iterable[OwnerReference]) -> LabelSelector | None:
        """The selector of a pod's fellows; None for a pod that is not spread by default."""
        pairs: dict[str, str] = {}
        for selector in self._services.get(namespace, {}).values():
            if selector.items() <= labels.items():
                pairs |= selector
        owner = _owner(owners)
        own = self._controllers.get((owner.kind, f"{namespace}/{owner.name}")) if owner is not None else None
        found = LabelSelector.of(pairs, own.requirements if own is not None else ())
        return LabelSelector(tuple(dict.fromkeys(found.requirements))) if found.requirements else None


def services_of(namespace: str) -> str:
    """The name by which pods depend on the Services of a namespace."""
    return f"Services of {namespace}"


def _owner(owners: Iterable[OwnerReference]) -> OwnerReference | None:
    owner = next((entry for entry in owners if entry.controller), None)
    return owner if owner is not None and (owner.api_version, owner.kind) in _OWNING else None
