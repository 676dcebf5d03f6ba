"""A node as the manager of lent resources sees it.

A node object changes with every heartbeat, and a manager needs its size, what is lent on it already, and what
administrators annotated. A value of exactly those, so that equal values mean that there is nothing to do. Annotations
that cannot be read are listed and take no part.
Limits: CPU and memory.
Source: Koordinator, apis/extension (node annotations).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import NO_USE, Use

RESERVATION_ANNOTATION = "node.koordinator.sh/reservation"
NORMALIZATION_ANNOTATION = "node.koordinator.sh/cpu-normalization-ratio"
THIRD_PARTY_ANNOTATION = "node.koordinator.sh/thirdPartyAllocations"


@dataclass(frozen=True, slots=True)
class ManagedNode:
    """One node. `allocatable` is raw: before amplification. Raises `InvalidInput` for a node without a name."""

    name: str
    capacity: Use
    allocatable: Use
    uid: str = ""
    labels: Labels = NO_LABELS
    annotations: Mapping[str, str] = field(default_factory=dict)  # those that a strategy or a NodeSLO depends on
    lent: Mapping[str, int] = field(default_factory=dict)  # short names (batch-cpu), as the node offers them now
    written: str = ""  # the annotation of lent amounts
    reservation: Use = NO_USE
    normalization: str = ""  # CPU normalization ratio, as annotated
    third_party: Mapping[str, int] = field(default_factory=dict)  # short names
    ignored: tuple[str, ...] = ()  # annotations that cannot be read, with the reason

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidInput("node", "", "a name")
