"""Kinds of workloads by declaration: how the pods of a controller that we do not know are found, counted and kept
together.

A `WorkloadKind` names the kind and where its facts stand. A pod belongs to the workload that a label of it names, else
to the one that its owners lead to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cotenant.model.cluster.observed import OwnedBy
from cotenant.model.groups.object_number import ObjectNumber

MAX_OWNERS = 8


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """One kind of controller."""

    kind: str
    api: str  # group/version
    plural: str
    replicas: ObjectNumber  # pods that it wants at a time
    name_label: str = ""  # of its pods: the workload's name; "" = by owners
    group_label: str = ""  # of its pods: which of its gangs they are in; "" = all pods are one
    role_label: str = ""  # of its pods: what they are in it
    minimum: ObjectNumber | None = None  # pods of a gang that must run together; None, 0 or unknown = no gang
    paused: ObjectNumber | None = None  # not 0: its pods are left alone
    ready: ObjectNumber | None = None  # pods that are ready

    @property
    def group(self) -> str:
        """The API group."""
        return self.api.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The version in which it is read."""
        return self.api.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """What an object of such a kind says."""

    kind: WorkloadKind
    key: str  # namespace/name
    uid: str
    replicas: int | None = None
    minimum: int = 0
    is_paused: bool = False
    ready: int | None = None
    labels: Mapping[str, str] | None = None

    @property
    def owned(self) -> OwnedBy:
        """As the owner of its pods."""
        return OwnedBy(self.kind.api, self.kind.kind, self.key.partition("/")[2], self.uid, True)


@dataclass(frozen=True, slots=True)
class OwnerChain:
    """The owners of a pod, nearest first. `refused`: why the walk ended before the last one."""

    owners: tuple[OwnedBy, ...]
    refused: str = ""


def chain_of(first: OwnedBy | None, owner_of: Callable[[str], OwnedBy | None]) -> OwnerChain:
    """Walk from an owner to its own controller and on; `owner_of` knows the controller of an object by UID.

    Owners in a circle, or too many of them, are refused.
    """
    owners: list[OwnedBy] = []
    while first is not None:
        if any(owner.uid == first.uid for owner in owners):
            return OwnerChain(tuple(owners), f"{first.kind} {first.name} is among its own owners")
        owners.append(first)
        if len(owners) > MAX_OWNERS:
            return OwnerChain(tuple(owners[:MAX_OWNERS]), f"it has more than {MAX_OWNERS} owners above one another")
        first = owner_of(first.uid)
    return OwnerChain(tuple(owners))
