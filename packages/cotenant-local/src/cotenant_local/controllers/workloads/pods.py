"""Creating pods from templates, claiming them, and choosing which to delete.

Every workload controller creates pods, must own exactly those given by its selector and their owner references, and
when it has too many should delete those whose loss costs least. Small pure functions, shared by all of them.
Sources: Kubernetes API reference (ownerReferences: adoption and release by selector), ReplicaSet documentation
(deletion order: unassigned, pending, not ready, lower pod-deletion-cost, doubled-up on a node, ready for a shorter
time, more restarts, younger).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.runtime.actions import PODS, Create, Draft, HasMetadata, Patch, ResourceName
from cotenant_local.controllers.views.core import Meta, SelectorView, seconds
from cotenant_local.controllers.views.pods import PodObjectView

TEMPLATE_HASH = "pod-template-hash"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
NAME_ALPHABET = (
    "bcdfghjklmnpqrstvwxz2456789"  # Kubernetes' alphabet for generated names: no vowels, no easily confused digits
)
_canonical = msgspec.json.Encoder(order="deterministic")


def template_hash(template: Manifest, collisions: int = 0) -> str:
    """A short hash of a pod template; a different `collisions` gives a different hash."""
    digest = hashlib.sha256(_canonical.encode(template) + (str(collisions).encode() if collisions else b"")).digest()
    number = int.from_bytes(digest[:8], "big")
    out = []
    for _ in range(10):
        number, place = divmod(number, len(NAME_ALPHABET))
        out.append(NAME_ALPHABET[place])
    return "".join(out)


def without_hash(template: Manifest) -> Manifest:
    """The template without the pod-template-hash label, for comparison."""
    metadata = template.get("metadata") or {}
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k != TEMPLATE_HASH}
    kept = {k: v for k, v in metadata.items() if k not in ("labels", "creationTimestamp") and v not in (None, {}, [])}
    if labels:
        kept["labels"] = labels
    return {**template, "metadata": kept}


def same_template(one: Manifest, other: Manifest) -> bool:
    """Whether two templates produce the same pods."""
    return without_hash(one) == without_hash(other)


def owner_reference(owner: Meta, kind: str, api_version: str, controls: bool = True) -> Manifest:
    """An ownerReferences entry."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": controls,
        "blockOwnerDeletion": True,
    }


def pod_from(
    template: Manifest, owner: Meta, kind: str, api_version: str, name: str = "", suffix: str = ""
) -> Manifest:
    """A pod manifest from the template, controlled by `owner`; without a `name` the API server generates one from
    the owner's.
    """
    written = template.get("metadata") or {}
    metadata: Manifest = {"ownerReferences": [owner_reference(owner, kind, api_version)], "namespace": owner.namespace}
    for key in ("labels", "annotations", "finalizers"):
        if written.get(key):
            metadata[key] = dict(written[key]) if key != "finalizers" else list(written[key])
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = f"{owner.name}-{suffix}" if suffix else f"{owner.name}-"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(template.get("spec") or {})}


@dataclass(frozen=True, slots=True)
class ClaimedPods:
    """The result of a claim: `owned` pods (adopted ones included) and the patches that adopt or release."""

    owned: tuple[PodObjectView, ...]
    actions: tuple[Patch, ...]


def claim(
    owner: Meta,
    kind: str,
    api_version: str,
    selector: SelectorView,
    candidates: Iterable[PodObjectView],
    adopts: bool = True,
) -> ClaimedPods:
    """Adopt orphans that the selector matches, release owned pods that it no longer matches. An owner being deleted
    adopts nothing.
    """
    owned: list[PodObjectView] = []
    patches: list[Patch] = []
    for pod in candidates:
        controller = pod.metadata.controller
        selected = selector.matches(pod.metadata.labels)
        if controller is not None:
            if controller.uid != owner.uid:
                continue
            if selected:
                owned.append(pod)
            elif not owner.terminating:
                patches.append(released(PODS, pod, owner.uid))
        elif adopts and selected and not owner.terminating and pod.active:
            patches.append(adopted(PODS, pod, owner_reference(owner, kind, api_version)))
            owned.append(pod)
    return ClaimedPods(tuple(owned), tuple(patches))


def adopted(resource: ResourceName, obj: HasMetadata, reference: Manifest) -> Patch:
    """Add `reference` to an object's owners, provided that the object has not changed since."""
    meta = obj.metadata
    owners = [_owner(o) for o in meta.owner_references] + [reference]
    body = {"metadata": {"uid": meta.uid, "ownerReferences": owners}}
    return Patch(resource, meta.namespace, meta.name, body, resource_version=meta.resource_version)


def released(resource: ResourceName, obj: HasMetadata, owner_uid: str) -> Patch:
    """Remove an owner from an object, provided that the object has not changed since."""
    meta = obj.metadata
    owners = [_owner(o) for o in meta.owner_references if o.uid != owner_uid]
    body = {"metadata": {"uid": meta.uid, "ownerReferences": owners or None}}
    return Patch(resource, meta.namespace, meta.name, body, resource_version=meta.resource_version)


def _owner(reference: object) -> Manifest:
    out: Manifest = msgspec.to_builtins(reference)
    for key in ("controller", "blockOwnerDeletion"):
        if not out.get(key):
            out.pop(key, None)
    return out


def deletion_order(
    pods: Sequence[PodObjectView], related: Iterable[PodObjectView], now_s: float
) -> list[PodObjectView]:
    """The pods in order of deletion. `related` are all pods of the same workload: several on one node count as
    doubled up.
    """
    on_node = Counter(p.spec.node_name for p in related if p.spec.node_name and p.active)

    def rank(pod: PodObjectView) -> tuple[object, ...]:
        condition = pod.ready_condition
        ready_for = now_s - (seconds(condition.last_transition_time) or 0.0) if pod.ready and condition else 0.0
        phase = {"Pending": 0, "Unknown": 1, "Running": 2}.get(pod.status.phase or "Pending", 1)
        return (
            bool(pod.spec.node_name),
            phase,
            pod.ready,
            _cost(pod),
            -on_node[pod.spec.node_name],
            ready_for,
            -pod.restarts,
            -pod.metadata.created_s,
            pod.metadata.name,
        )

    return sorted(pods, key=rank)


def _cost(pod: PodObjectView) -> int:
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def conditions_with(
    existing: Sequence[object], kind: str, status: str, reason: str, message: str, now: str, touch: bool = False
) -> list[Manifest]:
    """The conditions with one set: its transition time changes only with its status; `touch` updates lastUpdateTime
    in any case.
    """
    out: list[Manifest] = []
    found = False
    for condition in existing:
        entry: Manifest = {k: v for k, v in msgspec.to_builtins(condition).items() if v not in (None, "", 0)}
        if entry["type"] == kind:
            found = True
            if entry.get("status") == status:
                if touch or (entry.get("reason", ""), entry.get("message", "")) != (reason, message):
                    entry = {**entry, "reason": reason, "message": message, "lastUpdateTime": now}
            else:
                entry = _condition(kind, status, reason, message, now)
        out.append(entry)
    if not found:
        out.append(_condition(kind, status, reason, message, now))
    return out


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> Manifest:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
        "lastUpdateTime": now,
    }


def create_pods(draft: Draft, namespace: str, pods: Sequence[Manifest], why: str) -> None:
    """Add the creation of these pods to the plan."""
    for pod in pods:
        draft.add(Create(PODS, namespace, pod))
    if pods:
        draft.reasons.append(f"create {len(pods)}: {why}")
