"""Garbage collection: deletes objects whose owners are gone, in the order that the deletion asked for.

Deleting a Deployment must delete its ReplicaSets and their pods (background), or delete those first (foreground), or
keep them (orphan); and an owner that was removed without a watch event must not leave dependents behind. A pure
function of one object and what is known of its owners and dependents. Background: an object all of whose owners are
gone is deleted. Foreground: the owner has the finalizer `foregroundDeletion` until no dependent with blockOwnerDeletion
is left. Orphan: the finalizer `orphan` until the references are removed.
Limits: an owner is looked up by its UID in one cluster-wide graph; one of a kind that is not served counts as present.
Source: Kubernetes documentation "Garbage Collection", "Owners and Dependents", "Finalizers".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

import msgspec

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.runtime.actions import Delete, Draft, Patch, Plan, ResourceName
from cotenant_local.controllers.views.core import Object, OwnerReferenceView
from cotenant_local.controllers.workloads.pods import released

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class Presence(Enum):
    """The known state of an owner."""

    PRESENT = "present"
    DELETING_DEPENDENTS = "deleting its dependents first"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Dependent:
    """An object that references the reconciled object as an owner."""

    resource: ResourceName
    obj: Object
    blocks: bool  # blockOwnerDeletion of that reference


def reconcile(
    resource: ResourceName,
    obj: Object,
    owners: Iterable[tuple[OwnerReferenceView, Presence]],
    dependents: Iterable[Dependent],
) -> Plan:
    """Delete, orphan or keep one object, depending on its owners and dependents."""
    draft = Draft()
    meta = obj.metadata
    dependents = tuple(dependents)
    if meta.terminating and ORPHAN in meta.finalizers:
        for dependent in dependents:
            draft.add(released(dependent.resource, dependent.obj, meta.uid), f"orphan {dependent.obj.metadata.name}")
        if not dependents:
            draft.add(_without(resource, obj, ORPHAN), "dependents are orphaned")
        return draft.plan()
    if meta.terminating and FOREGROUND in meta.finalizers:
        blocking = [d for d in dependents if d.blocks]
        for dependent in dependents:
            if not dependent.obj.metadata.terminating and _only_owner(dependent.obj, meta.uid):
                draft.add(
                    _delete(dependent.resource, dependent.obj, "Foreground"),
                    f"delete dependent {dependent.obj.metadata.name}",
                )
        if not blocking:
            draft.add(_without(resource, obj, FOREGROUND), "no dependent blocks it")
        return draft.plan("waiting for its dependents")
    if meta.terminating:
        return draft.plan("being deleted")
    known = list(owners)
    if not known:
        return draft.plan("it has no owner")
    absent = [o for o, p in known if p is Presence.ABSENT]
    waiting = [o for o, p in known if p is Presence.DELETING_DEPENDENTS]
    present = len(known) - len(absent) - len(waiting)
    if present:
        dropped = {o.uid for o in (*absent, *waiting)}
        if dropped:  # another owner remains: keep the object, drop these references
            left: list[Manifest] = [msgspec.to_builtins(o) for o in meta.owner_references if o.uid not in dropped]
            body: Manifest = {"metadata": {"uid": meta.uid, "ownerReferences": left}}
            patch = Patch(resource, meta.namespace, meta.name, body, resource_version=meta.resource_version)
            draft.add(patch, "an owner is gone, another exists")
        return draft.plan("its owner exists")
    if waiting and any(d.blocks for d in dependents):
        draft.add(_delete(resource, obj, "Foreground"), "its owner deletes its dependents first")
    elif waiting:
        draft.add(
            _delete(resource, obj, "Foreground" if dependents else "Background"),
            "its owner deletes its dependents first",
        )
    else:
        draft.add(_delete(resource, obj, "Background"), "its owners are gone")
    return draft.plan()


def _only_owner(obj: Object, uid: str) -> bool:
    return all(o.uid == uid for o in obj.metadata.owner_references)


def _delete(resource: ResourceName, obj: Object, propagation: str) -> Delete:
    meta = obj.metadata
    return Delete(resource, meta.namespace, meta.name, meta.uid, propagation=propagation)


def _without(resource: ResourceName, obj: Object, finalizer: str) -> Patch:
    meta = obj.metadata
    body: Manifest = {
        "metadata": {"uid": meta.uid, "finalizers": [f for f in meta.finalizers if f != finalizer] or None}
    }
    return Patch(resource, meta.namespace, meta.name, body, resource_version=meta.resource_version)
