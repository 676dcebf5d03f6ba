"""The zone and region of a volume, by its labels.

Volumes of older provisioners state their zone in labels and not in a node affinity; a pod on a node of another zone
never gets them. The labels become a node selector. A label with several values separated by `__` allows any of them; an
old label of the volume is also met by the new label of a node; a node without any zone or region label is in a cluster
of one zone, and reaches every volume. A label with an empty value in its list is ignored.
Source: kube-scheduler's VolumeZone plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from cotenant.model.cluster.affinity import NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.labels import Requirement, SelectorOperator

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_REPLACED = {
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
}
_KEYS = (*_REPLACED, _ZONE, _REGION)
_WITHOUT_ZONES = NodeSelectorTerm(tuple(Requirement(key, SelectorOperator.DOES_NOT_EXIST) for key in _KEYS))


def read_zone(labels: Mapping[str, str]) -> NodeSelector | None:
    """The nodes in the zone and region of a volume with these labels; None = it names neither."""
    alternatives: list[tuple[tuple[Requirement, ...], ...]] = []
    for key in _KEYS:
        if key not in labels:
            continue
        values = tuple(dict.fromkeys(value.strip() for value in labels[key].split("__")))
        if "" in values:
            continue
        ways: tuple[tuple[Requirement, ...], ...] = ((Requirement(key, SelectorOperator.IN, values),),)
        newer = _REPLACED.get(key)
        if newer is not None:
            ways += (
                (Requirement(newer, SelectorOperator.IN, values), Requirement(key, SelectorOperator.DOES_NOT_EXIST)),
            )
        alternatives.append(ways)
    if not alternatives:
        return None
    terms = [
        NodeSelectorTerm(tuple(requirement for way in ways for requirement in way)) for ways in product(*alternatives)
    ]
    return NodeSelector((_WITHOUT_ZONES, *terms))
