"""Budgets, garbage, pods without nodes, namespaces, volumes."""

from typing import Any

import msgspec
import pytest

from cotenant.local.controllers.cleanup import garbage, namespaces, pod_gc
from cotenant.local.controllers.cleanup.garbage import FOREGROUND, ORPHAN, Dependent, Presence
from cotenant.local.controllers.cluster import disruption, volumes
from cotenant.local.controllers.runtime.actions import (
    CLAIMS,
    PODS,
    REPLICA_SETS,
    Create,
    Delete,
    DeleteAll,
    FinalizeNamespace,
    Patch,
    Plan,
)
from cotenant.local.controllers.views.cluster import (
    Budget,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from cotenant.local.controllers.views.core import Object, OwnerReference, Pod, stamp

NOW = 1_800_000_000.0


def pod(name: str, ready: bool = True, owner: str = "rs", **more: Any) -> Pod:
    meta: dict[str, Any] = {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}}
    if owner:
        meta["ownerReferences"] = [{"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}]
    if more.pop("ending", False):
        meta["deletionTimestamp"] = stamp(NOW)
    status = {"phase": more.pop("phase", "Running"), "conditions": [{"type": "Ready", "status": str(ready)}]}
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": more.pop("node", "n")}, "status": status}, Pod)


def budget(status: dict[str, Any] | None = None, **spec: Any) -> Budget:
    spec.setdefault("selector", {"matchLabels": {"app": "web"}})
    meta = {"name": "b", "namespace": "default", "generation": 1}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status or {}}, Budget)


def figures(plan: Plan) -> dict[str, int]:
    assert isinstance(plan.actions[0], Patch)
    status = plan.actions[0].body["status"]
    return {k: status[k] for k in ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 2}, (3, 2, 3, 1)),
        ({"minAvailable": "50%"}, (4, 2, 3, 1)),  # of what the controller wants, rounded up
        ({"minAvailable": "51%"}, (4, 3, 3, 0)),
        ({"maxUnavailable": 1}, (4, 3, 3, 0)),
        ({"maxUnavailable": 2}, (4, 2, 3, 1)),
        ({"maxUnavailable": "30%"}, (4, 2, 3, 1)),  # 1.2 rounds up to 2
        ({"minAvailable": 9}, (3, 9, 3, 0)),
    ],
)
def test_budget_figures(spec: dict[str, Any], expected: tuple[int, ...]) -> None:
    pods = [pod(f"p{i}") for i in range(3)]
    plan = disruption.reconcile(budget(**spec), pods, NOW, lambda namespace, owner: 4)
    assert tuple(figures(plan).values()) == expected


def test_unready_terminating_and_finished_pods_are_not_healthy() -> None:
    pods = [pod("a"), pod("b", ready=False), pod("c", ending=True), pod("d", phase="Failed")]
    plan = disruption.reconcile(budget(minAvailable=1), pods, NOW, lambda namespace, owner: None)
    assert figures(plan) == {"expectedPods": 3, "desiredHealthy": 1, "currentHealthy": 1, "disruptionsAllowed": 0}


def test_a_granted_disruption_counts_until_it_expires() -> None:
    held = budget({"disruptedPods": {"p0": stamp(NOW), "gone": stamp(NOW)}}, minAvailable=1)
    pods = [pod("p0"), pod("p1"), pod("p2")]
    plan = disruption.reconcile(held, pods, NOW + 10, lambda namespace, owner: 3)
    assert figures(plan)["currentHealthy"] == 2
    assert plan.requeue_at_s == NOW + disruption.GRANT_S
    assert isinstance(plan.actions[0], Patch)
    assert plan.actions[0].body["status"]["disruptedPods"] == {"gone": None}
    later = disruption.reconcile(held, pods, NOW + 121, lambda namespace, owner: 3)
    assert figures(later)["currentHealthy"] == 3


def test_a_budget_without_selector_selects_no_pod() -> None:
    empty = budget(minAvailable=1, selector=None)
    assert figures(disruption.reconcile(empty, [pod("a")], NOW, lambda namespace, owner: 1))["disruptionsAllowed"] == 0


# --- garbage


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
    owners: list[tuple[OwnerReference, Presence]] = list(zip(thing.metadata.owner_references, presence, strict=True))
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


# --- pods without nodes, namespaces


def test_a_pod_of_a_missing_node_is_failed_and_deleted_after_the_quarantine() -> None:
    lost = pod("p")
    assert pod_gc.orphaned(lost, lambda n: True, None, NOW).actions == ()
    waits = pod_gc.orphaned(lost, lambda n: False, NOW, NOW + 1)
    assert (waits.actions, waits.requeue_at_s) == ((), NOW + pod_gc.QUARANTINE_S)
    plan = pod_gc.orphaned(lost, lambda n: False, NOW, NOW + pod_gc.QUARANTINE_S)
    assert [type(a) for a in plan.actions] == [Patch, Delete]
    assert isinstance(plan.actions[1], Delete)
    assert plan.actions[1].grace_s == 0


def test_a_terminating_unassigned_pod_is_deleted_immediately() -> None:
    plan = pod_gc.orphaned(pod("p", node="", ending=True), lambda n: False, None, NOW)
    assert [type(a) for a in plan.actions] == [Delete]


def test_the_oldest_finished_pods_beyond_the_limit_are_deleted() -> None:
    pods = [pod(f"p{i}", phase="Succeeded") for i in range(5)] + [pod("runs")]
    plan = pod_gc.surplus(pods, most=3)
    assert [a.name for a in plan.actions if isinstance(a, Delete)] == ["p0", "p1"]


def test_a_namespace_is_finalized_when_it_is_empty() -> None:
    meta = {"name": "x", "deletionTimestamp": stamp(NOW)}
    going = msgspec.convert({"metadata": meta, "spec": {"finalizers": ["kubernetes"]}}, Namespace)
    full = namespaces.reconcile(going, {PODS: (3, 2), CLAIMS: (1, 0)}, NOW)
    assert full.actions == (DeleteAll(PODS, "x"),)
    assert full.requeue_at_s is not None
    assert namespaces.reconcile(going, {PODS: (0, 0)}, NOW).actions == (FinalizeNamespace("x"),)
    active = msgspec.convert({"metadata": {"name": "x"}, "spec": {"finalizers": ["kubernetes"]}}, Namespace)
    assert namespaces.reconcile(active, {PODS: (3, 3)}, NOW).actions == ()


# --- volumes


def claim(size: str = "1Gi", phase: str = "Pending", volume: str = "", node: str = "") -> PersistentVolumeClaim:
    notes = {volumes.SELECTED_NODE: node} if node else {}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": "local",
        "volumeName": volume,
    }
    meta = {"name": "c", "namespace": "default", "uid": "cu", "annotations": notes}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase}}, PersistentVolumeClaim)


def volume(name: str, size: str, claim_uid: str = "", modes: tuple[str, ...] = ("ReadWriteOnce",)) -> PersistentVolume:
    spec: dict[str, Any] = {"capacity": {"storage": size}, "accessModes": modes, "storageClassName": "local"}
    if claim_uid:
        spec["claimRef"] = {"namespace": "default", "name": "c", "uid": claim_uid}
    meta = {"name": name, "uid": name, "resourceVersion": "4"}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": "Available"}}, PersistentVolume)


def kind(mode: str, provisioner: str = volumes.PROVISIONER) -> StorageClass:
    return StorageClass(
        metadata=msgspec.convert({"name": "local"}, type(claim().metadata)),
        provisioner=provisioner,
        volume_binding_mode=mode,
    )


def bind(
    wanted: PersistentVolumeClaim, have: list[PersistentVolume], mode: str, provisioner: str = volumes.PROVISIONER
) -> Plan:
    return volumes.bind_claim(wanted, have, lambda name: kind(mode, provisioner))


def test_the_smallest_matching_volume_is_bound_on_both_sides() -> None:
    have = [
        volume("small", "500Mi"),
        volume("large", "9Gi"),
        volume("fits", "2Gi"),
        volume("wrong", "2Gi", modes=("ReadOnlyMany",)),
    ]
    plan = bind(claim(), have, "Immediate")
    patches = [a for a in plan.actions if isinstance(a, Patch)]
    assert [p.name for p in patches] == ["fits", "c", "c", "fits"]
    assert patches[0].body["spec"]["claimRef"]["uid"] == "cu"
    assert patches[1].body["spec"]["volumeName"] == "fits"


def test_wait_for_first_consumer_does_not_bind_a_matching_volume() -> None:
    assert not [
        a for a in bind(claim(), [volume("fits", "2Gi")], "WaitForFirstConsumer").actions if isinstance(a, Patch)
    ]


def test_the_provisioner_creates_a_volume_on_the_selected_node() -> None:
    plan = bind(claim(node="n3"), [], "WaitForFirstConsumer")
    made = next(a for a in plan.actions if isinstance(a, Create)).obj
    term = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]
    assert term["values"] == ["n3"]
    assert made["spec"]["claimRef"]["uid"] == "cu"
    assert (
        "nodeAffinity"
        not in next(a for a in bind(claim(), [], "Immediate").actions if isinstance(a, Create)).obj["spec"]
    )


def test_claims_of_another_provisioner_are_not_provisioned() -> None:
    assert not [a for a in bind(claim(), [], "Immediate", "example.com/other").actions if isinstance(a, Create)]


def test_a_volume_without_its_claim_is_released_or_deleted() -> None:
    kept = volumes.reconcile_volume(volume("v", "1Gi", "cu"), lambda namespace, name: None)
    assert isinstance(kept.actions[0], Patch)
    assert kept.actions[0].body["status"]["phase"] == "Released"
    ours = msgspec.structs.replace(
        volume("v", "1Gi", "cu"),
        metadata=msgspec.convert(
            {"name": "v", "uid": "v", "annotations": {volumes.PROVISIONED_BY: volumes.PROVISIONER}},
            type(claim().metadata),
        ),
        spec=msgspec.structs.replace(volume("v", "1Gi", "cu").spec, persistent_volume_reclaim_policy="Delete"),
    )
    assert isinstance(volumes.reconcile_volume(ours, lambda namespace, name: None).actions[0], Delete)
    assert isinstance(volumes.reconcile_volume(ours, lambda namespace, name: "cu").actions[0], Patch)


def test_a_claim_that_names_a_missing_volume_is_lost() -> None:
    plan = bind(claim(phase="Bound", volume="gone"), [], "Immediate")
    assert isinstance(plan.actions[0], Patch)
    assert plan.actions[0].body["status"]["phase"] == "Lost"
