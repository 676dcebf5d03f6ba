"""Namespace: its labels, and whether it is being removed."""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind
from cotenant.drivers.kube.kinds.parts import ObjectMeta, PhaseStatus
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.observed import NamespaceFacts


class Namespace(ApiStruct, frozen=True):
    """v1 Namespace."""

    metadata: ObjectMeta = ObjectMeta()
    status: PhaseStatus | None = None


NAMESPACES = Kind("Namespace", "", "v1", "namespaces", False, Namespace)


def read_namespace(obj: Namespace) -> NamespaceFacts:
    """A namespace and its labels."""
    return NamespaceFacts(obj.metadata.name or "", Labels.of(obj.metadata.labels or {}))
