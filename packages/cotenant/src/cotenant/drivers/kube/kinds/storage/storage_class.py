"""StorageClass: how and where volumes of a class are made."""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.drivers.kube.kinds.selectors import SelectorExpression
from cotenant.model.cluster.affinity import NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.labels import Requirement, SelectorOperator
from cotenant.model.errors import InvalidInput


class TopologyTerm(ApiStruct, frozen=True):
    """TopologySelectorTerm: all its expressions hold."""

    match_label_expressions: tuple[SelectorExpression, ...] | None = None


class StorageClass(ApiStruct, frozen=True):
    """storage.k8s.io/v1 StorageClass."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: Text = None
    allowed_topologies: tuple[TopologyTerm, ...] | None = None


STORAGE_CLASSES = Kind("StorageClass", "storage.k8s.io", "v1", "storageclasses", False, StorageClass)


def read_topology_terms(written: Iterable[TopologyTerm], field: str) -> NodeSelector:
    """A storage class's allowedTopologies: one of the terms, all of whose keys have one of the values."""
    terms = []
    for i, term in enumerate(written):
        keys = term.match_label_expressions or ()
        if any(not expression.values for expression in keys):
            raise InvalidInput(f"{field}[{i}].matchLabelExpressions", "", "at least one value")
        terms.append(NodeSelectorTerm(tuple(Requirement(e.key, SelectorOperator.IN, e.values or ()) for e in keys)))
    return NodeSelector(tuple(terms))
