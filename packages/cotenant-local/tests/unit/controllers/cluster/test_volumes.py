"""Binding of claims, provisioning and reclaiming of volumes."""

from typing import Any

import msgspec

from cotenant_local.controllers.cluster import volumes
from cotenant_local.controllers.runtime.actions import (
    Create,
    Delete,
    Patch,
    Plan,
)
from cotenant_local.controllers.views.cluster import (
    PersistentVolumeView,
    StorageClassView,
    VolumeClaimView,
)


def claim(size: str = "1Gi", phase: str = "Pending", volume: str = "", node: str = "") -> VolumeClaimView:
    notes = {volumes.SELECTED_NODE: node} if node else {}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": "local",
        "volumeName": volume,
    }
    meta = {"name": "c", "namespace": "default", "uid": "cu", "annotations": notes}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase}}, VolumeClaimView)


def volume(
    name: str, size: str, claim_uid: str = "", modes: tuple[str, ...] = ("ReadWriteOnce",)
) -> PersistentVolumeView:
    spec: dict[str, Any] = {"capacity": {"storage": size}, "accessModes": modes, "storageClassName": "local"}
    if claim_uid:
        spec["claimRef"] = {"namespace": "default", "name": "c", "uid": claim_uid}
    meta = {"name": name, "uid": name, "resourceVersion": "4"}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": "Available"}}, PersistentVolumeView)


def kind(mode: str, provisioner: str = volumes.PROVISIONER) -> StorageClassView:
    return StorageClassView(
        metadata=msgspec.convert({"name": "local"}, type(claim().metadata)),
        provisioner=provisioner,
        volume_binding_mode=mode,
    )


def bind(
    wanted: VolumeClaimView, have: list[PersistentVolumeView], mode: str, provisioner: str = volumes.PROVISIONER
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
