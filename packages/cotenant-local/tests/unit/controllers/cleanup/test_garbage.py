"""Garbage collection: background, foreground and orphan deletion."""

from typing import Any

import msgspec

from cotenant_local.controllers.cleanup import garbage
from cotenant_local.controllers.cleanup.garbage import FOREGROUND, ORPHAN, Dependent, Presence
from cotenant_local.controllers.runtime.actions import (
    PODS,
    REPLICA_SETS,
    Delete,
    Patch,
    Plan,
)
from cotenant_local.controllers.views.core import Object, OwnerReferenceView, stamp

NOW = 1_800_000_000.0


def obj(name: str, owners: tuple[str, ...] = (), finalizers: tuple[str, ...] = (), ending: bool = False) -> Object:
    references = [
        {"kind": "ReplicaSet", "name": o, "uid": o, "apiVersion": "apps/v1", "blockOwnerDeletion": True} for o in owners
    ]
    meta: dict[str, Any] = {"name": name, "namespace": "default", "uid": name, "ownerReferences": references}
    meta["finalizers"] = finalizers
    if ending:
        meta["deletionTimestamp"] = stamp(NOW)
    return msgspec.convert({"metadata": meta}, Object)


def judge(thing: Object, presence: tuple[Presence, ...] = (), dependents: tuple[Object, ...] = ()) -> Plan:
    owners: list[tuple[OwnerReferenceView, Presence]] = list(
        zip(thing.metadata.owner_references, presence, strict=True)
    )
    held = [Dependent(PODS, d, blocks=True) for d in dependents]
    return garbage.reconcile(REPLICA_SETS, thing, owners, held)


def test_an_object_is_deleted_only_when_all_its_owners_are_gone() -> None:
    assert judge(obj("x")).actions == ()
    assert judge(obj("x", ("a",)), (Presence.PRESENT,)).actions == ()
    gone = judge(obj("x", ("a",)), (Presence.ABSENT,))
    assert gone.actions == (Delete(REPLICA_SETS, "default", "x", "x", propagation="Background"),)
    left = judge(obj("x", ("a", "b")), (Presence.ABSENT, Presence.PRESENT))
    assert isinstance(left.actions[0], Patch)
    assert [o["name"] for o in left.actions[0].body["metadata"]["ownerReferences"]] == ["b"]


def test_foreground_waits_for_blocking_dependents() -> None:
    owner = obj("owner", finalizers=(FOREGROUND, "mine"), ending=True)
    waits = judge(owner, dependents=(obj("d", ("owner",)), obj("shared", ("owner", "other"))))
    assert [a.name for a in waits.actions if isinstance(a, Delete)] == ["d"]
    assert not [a for a in waits.actions if isinstance(a, Patch)]
    done = judge(owner)
    assert isinstance(done.actions[0], Patch)
    assert done.actions[0].body["metadata"]["finalizers"] == ["mine"]


def test_orphaning_removes_the_reference_and_keeps_the_object() -> None:
    owner = obj("owner", finalizers=(ORPHAN,), ending=True)
    plan = judge(owner, dependents=(obj("d", ("owner", "other")),))
    assert isinstance(plan.actions[0], Patch)
    assert [o["name"] for o in plan.actions[0].body["metadata"]["ownerReferences"]] == ["other"]
    assert not [a for a in plan.actions if isinstance(a, Delete)]
    done = judge(owner)
    assert isinstance(done.actions[0], Patch)
    assert done.actions[0].body["metadata"]["finalizers"] is None


def test_foreground_deletion_propagates_to_dependents() -> None:
    plan = judge(obj("x", ("a",)), (Presence.DELETING_DEPENDENTS,), (obj("y", ("x",)),))
    assert isinstance(plan.actions[0], Delete)
    assert plan.actions[0].propagation == "Foreground"
