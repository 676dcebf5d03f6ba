"""Persistent volumes: binding of claims, and a provisioner of simulated volumes.

A claim is bound to a volume that satisfies it (Immediate), or to one that is accessible from the node of its first pod
(WaitForFirstConsumer), and something must create volumes. Pure functions for a claim and for a volume. Classes with the
provisioner `cotenant.io/local` get a simulated volume of the requested size: on the selected node for
WaitForFirstConsumer, on all nodes for Immediate. The scheduler names the node in the same annotation as upstream's.
Limits: nothing is mounted; volumes are not resized; a claim's selector is honoured among existing volumes only.
Source: Kubernetes documentation "Persistent Volumes" (binding, reclaiming), "Storage Classes" (volumeBindingMode).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.cluster.labels import HOSTNAME
from cotenant.model.errors import InvalidInput
from cotenant.model.quantities import whole
from cotenant_local.controllers.runtime.actions import CLAIMS, VOLUMES, Create, Delete, Draft, EmitEvent, Patch, Plan
from cotenant_local.controllers.views.cluster import PersistentVolumeView, StorageClassView, VolumeClaimView

PROVISIONER = "cotenant.io/local"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_PROTECTION = ("kubernetes.io/pvc-protection", "kubernetes.io/pv-protection")


def bind_claim(
    claim: VolumeClaimView,
    volumes: Iterable[PersistentVolumeView],
    storage_class: Callable[[str], StorageClassView | None],
    in_use: Callable[[str], bool] = lambda name: False,
) -> Plan:
    """Bind a claim, provision its volume, or say why it is pending. `in_use`: whether an unfinished pod uses the
    claim of that name.
    """
    draft = Draft()
    meta = claim.metadata
    existing = list(volumes)
    if meta.terminating:
        if _PROTECTION[0] in meta.finalizers and not in_use(meta.name):
            left = [f for f in meta.finalizers if f != _PROTECTION[0]]
            draft.add(
                Patch(CLAIMS, meta.namespace, meta.name, {"metadata": {"finalizers": left or None}}), "no pod uses it"
            )
        return draft.plan("being deleted")
    if claim.spec.volume_name:
        named = next((v for v in existing if v.metadata.name == claim.spec.volume_name), None)
        if named is None:
            if claim.status.phase == "Bound":
                _phase(draft, claim, "Lost", None)
            return draft.plan(f"volume {claim.spec.volume_name} does not exist")
        return _bind(draft, claim, named)
    reserved = next((v for v in existing if _claimed_by(v, claim)), None)
    if reserved is not None:  # provisioned or reserved for this claim
        return _bind(draft, claim, reserved)
    kind = storage_class(claim.spec.storage_class_name) if claim.spec.storage_class_name else None
    waits = kind is not None and kind.volume_binding_mode == "WaitForFirstConsumer"
    node = meta.annotations.get(SELECTED_NODE, "")
    if not waits:
        fitting = [v for v in existing if satisfies(v, claim)]
        if fitting:
            return _bind(draft, claim, min(fitting, key=lambda v: (_size(v), v.metadata.name)))
    if waits and not node:
        _phase(draft, claim, "Pending", None)
        return draft.plan("waits for its first consumer")
    if kind is not None and kind.provisioner == PROVISIONER:
        draft.add(
            Create(VOLUMES, "", _provisioned(claim, kind, node)), f"provision a volume{' on ' + node if node else ''}"
        )
        text = f"Successfully provisioned volume pvc-{meta.uid}"
        draft.add(EmitEvent(claim, "PersistentVolumeClaim", "v1", "Normal", "ProvisioningSucceeded", text))
        return draft.plan()
    _phase(draft, claim, "Pending", None)
    return draft.plan("no volume satisfies it and its class has no provisioner here")


def satisfies(volume: PersistentVolumeView, claim: VolumeClaimView) -> bool:
    """Whether an unclaimed volume matches the claim's size, class, volume mode, access modes and selector."""
    spec = volume.spec
    if (
        spec.claim_ref is not None
        or volume.metadata.terminating
        or volume.status.phase not in ("", "Available", "Pending")
    ):
        return False
    if spec.storage_class_name != (claim.spec.storage_class_name or "") or spec.volume_mode != claim.spec.volume_mode:
        return False
    if not set(claim.spec.access_modes) <= set(spec.access_modes):
        return False
    if claim.spec.selector is not None and not claim.spec.selector.matches(volume.metadata.labels):
        return False
    return _size(volume) >= _bytes(claim.spec.resources.requests.get("storage", 0))


def reconcile_volume(volume: PersistentVolumeView, claim_uid: Callable[[str, str], str | None]) -> Plan:
    """Set a volume's phase, and reclaim it when its claim is deleted. `claim_uid(namespace, name)`: None if there
    is no such claim.
    """
    draft = Draft()
    meta, reference = volume.metadata, volume.spec.claim_ref
    if meta.terminating:
        bound = reference is not None and claim_uid(reference.namespace, reference.name) == reference.uid
        if _PROTECTION[1] in meta.finalizers and not bound:
            left = [f for f in meta.finalizers if f != _PROTECTION[1]]
            draft.add(
                Patch(VOLUMES, "", meta.name, {"metadata": {"finalizers": left or None}}), "no claim is bound to it"
            )
        return draft.plan("being deleted")
    if reference is None:
        phase = "Available"
    elif not reference.uid:
        phase = "Available"  # reserved by name
    elif claim_uid(reference.namespace, reference.name) == reference.uid:
        phase = "Bound"
    else:
        phase = "Released"
        if volume.spec.persistent_volume_reclaim_policy == "Delete" and _provisioned_here(volume):
            draft.add(Delete(VOLUMES, "", meta.name, meta.uid), "its claim was deleted")
            return draft.plan()
    if volume.status.phase != phase:
        draft.add(Patch(VOLUMES, "", meta.name, {"status": {"phase": phase}}, "status"), phase)
    return draft.plan(phase)


def _provisioned_here(volume: PersistentVolumeView) -> bool:
    return volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER


def _claimed_by(volume: PersistentVolumeView, claim: VolumeClaimView) -> bool:
    reference = volume.spec.claim_ref
    if reference is None or (reference.namespace, reference.name) != claim.metadata.key:
        return False
    return reference.uid in ("", claim.metadata.uid)


def _bind(draft: Draft, claim: VolumeClaimView, volume: PersistentVolumeView) -> Plan:
    """Set the references on both sides, the volume's first, so that two claims cannot bind the same volume."""
    meta = claim.metadata
    if not _claimed_by(volume, claim) and volume.spec.claim_ref is not None:
        return draft.plan(f"volume {volume.metadata.name} belongs to another claim")
    if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
        }
        body: Manifest = {
            "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}},
            "spec": {"claimRef": reference},
        }
        version = volume.metadata.resource_version
        draft.add(
            Patch(VOLUMES, "", volume.metadata.name, body, resource_version=version), f"bind {volume.metadata.name}"
        )
    if claim.spec.volume_name != volume.metadata.name or BIND_COMPLETED not in meta.annotations:
        body = {
            "metadata": {"annotations": {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}},
            "spec": {"volumeName": volume.metadata.name},
        }
        draft.add(Patch(CLAIMS, meta.namespace, meta.name, body), f"use {volume.metadata.name}")
    _phase(draft, claim, "Bound", volume)
    if volume.status.phase != "Bound":
        draft.add(Patch(VOLUMES, "", volume.metadata.name, {"status": {"phase": "Bound"}}, "status"))
    return draft.plan(f"bound to {volume.metadata.name}")


def _phase(draft: Draft, claim: VolumeClaimView, phase: str, volume: PersistentVolumeView | None) -> None:
    if claim.status.phase == phase:
        return
    status: Manifest = {"phase": phase}
    if volume is not None:
        status |= {"accessModes": list(volume.spec.access_modes), "capacity": dict(volume.spec.capacity)}
    draft.add(Patch(CLAIMS, claim.metadata.namespace, claim.metadata.name, {"status": status}, "status"), phase)


def _provisioned(claim: VolumeClaimView, kind: StorageClassView, node: str) -> Manifest:
    meta = claim.metadata
    spec: Manifest = {
        "capacity": {"storage": claim.spec.resources.requests.get("storage", "1Gi")},
        "accessModes": list(claim.spec.access_modes) or ["ReadWriteOnce"],
        "storageClassName": kind.metadata.name,
        "volumeMode": claim.spec.volume_mode,
        "persistentVolumeReclaimPolicy": kind.reclaim_policy,
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
        },
        "hostPath": {"path": f"/var/lib/cotenant/volumes/pvc-{meta.uid}"},
    }
    if node:
        here = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [here]}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pvc-{meta.uid}", "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": spec,
    }


def _size(volume: PersistentVolumeView) -> int:
    return _bytes(volume.spec.capacity.get("storage", 0))


def _bytes(amount: str | int | float) -> int:
    try:
        return whole(amount)
    except InvalidInput:
        return 0
