"""What the manager wants done, as values; the process carries it out, and the watches show the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.model.autonomy.pool_lending import LendingStatus
from cotenant.model.resources import Amounts


@dataclass(frozen=True, slots=True)
class WriteAmounts:
    """Set amounts in a node's capacity and allocatable, and the annotation with their terms, in one write. None
    removes a resource.
    """

    node: str
    uid: str  # the write is refused if the name has another node by now
    amounts: Mapping[str, int | None]  # by short name
    annotation: str | None  # None removes it
    reason: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Only the newest of a key is written."""
        return ("Node", self.node)


class NodeObjectKind(StrEnum):
    """Objects that there is one of for each node, under its name."""

    NODE_SLO = "NodeSLO"
    NODE_METRIC = "NodeMetric"


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """Create the node's object, or change its spec by a merge patch (null removes a key)."""

    kind: NodeObjectKind
    node: str
    patch: Mapping[str, object] = field(default_factory=dict)
    creates: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Only the newest of a key is written."""
        return (self.kind.value, self.node)


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete the object of a node that is gone."""

    kind: NodeObjectKind
    node: str

    @property
    def key(self) -> tuple[str, str]:
        """Only the newest of a key is written."""
        return (self.kind.value, self.node)


@dataclass(frozen=True, slots=True)
class LabelProfile:
    """Set the label with the tree's id on an ElasticQuotaProfile that has none."""

    profile: str  # namespace/name
    uid: str  # the write is refused if the name has another profile by now
    tree_id: str

    @property
    def key(self) -> tuple[str, str]:
        """Only the newest of a key is written."""
        return ("ElasticQuotaProfile", self.profile)


@dataclass(frozen=True, slots=True)
class WriteQuota:
    """Create a profile's ElasticQuota, or set labels, annotations and amounts of it; all others stay."""

    quota: str  # namespace/name
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    minimum: Amounts
    maximum: Amounts
    creates: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Only the newest of a key is written."""
        return ("ElasticQuota", self.quota)


@dataclass(frozen=True, slots=True)
class WriteRatios:
    """Set annotations with ratios on a node; None removes one."""

    node: str
    uid: str  # the write is refused if the name has another node by now
    annotations: Mapping[str, str | None]

    @property
    def key(self) -> tuple[str, str]:
        """Only the newest of a key is written."""
        return ("Node ratios", self.node)


@dataclass(frozen=True, slots=True)
class WriteGpus:
    """Set GPU resources in a node's capacity and allocatable, the annotation with their terms, and labels, in one
    write. None removes a resource or the annotation.
    """

    node: str
    uid: str  # the write is refused if the name has another node by now
    amounts: Mapping[str, int | None]  # by Kubernetes name
    annotation: str | None
    labels: Mapping[str, str]

    @property
    def key(self) -> tuple[str, str]:
        """Only the newest of a key is written."""
        return ("Node GPUs", self.node)


@dataclass(frozen=True, slots=True)
class WriteZones:
    """Set batch amounts in the zones of a node's NodeResourceTopology, and the annotation with their terms; all
    else in it stays.
    """

    node: str
    amounts: Mapping[str, Mapping[str, int | None]]  # by zone and short name; None removes a resource
    annotation: str | None  # None removes it

    @property
    def key(self) -> tuple[str, str]:
        """Only the newest of a key is written."""
        return ("NodeResourceTopology", self.node)


@dataclass(frozen=True, slots=True)
class WritePool:
    """Store how far a pool's lending is; without a uid its object is created first."""

    pool: str
    uid: str
    status: LendingStatus

    @property
    def key(self) -> tuple[str, str]:
        """Only the newest of a key is written."""
        return ("PoolLending", self.pool)


Instruction = WriteAmounts | WriteZones | WriteSpec | DeleteObject | WritePool


def merge_patch(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    """The JSON merge patch (RFC 7386) that makes `new` of `old`; empty where they are equal."""
    patch: dict[str, object] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            inner = merge_patch(before, value)
            if inner:
                patch[name] = inner
        elif name not in old or value != before:
            patch[name] = value
    return patch
