"""Claims made from templates for pods, and their names in the pods' statuses.

A claim is found again by its owner and its annotation, so a controller that was restarted between the creation and the
status makes no second one. Left out: claims of PodGroups (alpha).

Source: KEP-4381, "Resource claim controller"; Kubernetes API reference, PodResourceClaimStatus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.runtime.actions import PODS, RESOURCE_CLAIMS, Create, Draft, EmitEvent, Patch, Plan
from cotenant_local.controllers.views.claims import ClaimTemplate, Consumer, ResourceClaimView
from cotenant_local.controllers.views.core import Pod, PodClaim
from cotenant_local.controllers.workloads.pods import owner_reference

POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
_API = "resource.k8s.io/v1"
_MAX_CONSUMERS = 256
_MAX_PREFIX = 57  # leaves room for five characters in a label


def reconcile(
    pod: Pod,
    owned: Iterable[ResourceClaimView],
    claim_of: Callable[[str], ResourceClaimView | None],
    template_of: Callable[[str], ClaimTemplate | None],
) -> Plan:
    """`owned`: claims that the pod controls; `claim_of`, `template_of`: by name, in its namespace."""
    draft = Draft()
    if pod.metadata.terminating or pod.finished:
        return draft.plan("the pod needs no claims")
    made = {claim.metadata.annotations.get(POD_CLAIM, ""): claim for claim in owned}
    named = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    names = dict(named)
    for asked in pod.spec.resource_claims:
        if not asked.resource_claim_template_name:
            continue
        kept = claim_of(named.get(asked.name) or "")
        if asked.name in named and (named[asked.name] is None or _is_of(kept, pod)):
            continue
        claim = made.get(asked.name)
        if claim is not None:
            names[asked.name] = claim.metadata.name
            continue
        template = template_of(asked.resource_claim_template_name)
        if template is None:
            name = asked.resource_claim_template_name
            text = (
                f'PodResourceClaim {asked.name}: resource claim template "{name}": '
                f'resourceclaimtemplate.resource.k8s.io "{name}" not found'
            )
            draft.add(EmitEvent(pod, "Pod", "v1", "Warning", "FailedResourceClaimCreation", text), text)
            continue
        draft.add(Create(RESOURCE_CLAIMS, pod.metadata.namespace, _claim(pod, asked, template)), "makes a claim")
    if names != named:
        statuses = [{"name": name, "resourceClaimName": found} for name, found in names.items()]
        body = {"status": {"resourceClaimStatuses": statuses}}
        draft.add(Patch(PODS, pod.metadata.namespace, pod.metadata.name, body, "status"), "names its claims")
    if pod.spec.node_name:
        for name in claim_names(pod):
            _reserve(draft, pod, claim_of(name))
    return draft.plan()


def claim_names(pod: Pod) -> list[str]:
    """The names of a pod's claims, as far as they exist; the one for its extended resources too."""
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    found = [asked.resource_claim_name or made.get(asked.name) for asked in pod.spec.resource_claims]
    if pod.status.extended_resource_claim_status is not None:
        found.append(pod.status.extended_resource_claim_status.resource_claim_name)
    return [name for name in found if name]


def _is_of(claim: ResourceClaimView | None, pod: Pod) -> bool:
    controller = claim.metadata.controller if claim is not None else None
    return controller is not None and controller.uid == pod.metadata.uid


def _claim(pod: Pod, asked: PodClaim, template: ClaimTemplate) -> Manifest:
    given = template.spec.metadata
    owner = owner_reference(pod.metadata, "Pod", "v1")
    del owner["blockOwnerDeletion"]  # as upstream
    metadata: Manifest = {
        "generateName": _prefix(pod.metadata.name, asked.name),
        "namespace": pod.metadata.namespace,
        "annotations": {**given.annotations, POD_CLAIM: asked.name},
        "ownerReferences": [owner],
    }
    if given.labels:
        metadata["labels"] = dict(given.labels)
    return {"apiVersion": _API, "kind": "ResourceClaim", "metadata": metadata, "spec": template.spec.spec}


def _prefix(pod: str, claim: str) -> str:
    """Both names shortened alike where they are too long together."""
    whole = f"{pod}-{claim}-"
    if len(whole) <= _MAX_PREFIX:
        return whole
    short = pod[: len(pod) * _MAX_PREFIX // len(whole)] + "-"
    return short + claim[: len(claim) * _MAX_PREFIX // len(whole)]


def _reserve(draft: Draft, pod: Pod, claim: ResourceClaimView | None) -> None:
    """Hold an allocated claim for a pod that something else than a scheduler has bound."""
    if claim is None or claim.status.allocation is None:
        return
    held = claim.status.reserved_for
    if len(held) >= _MAX_CONSUMERS or any(one.uid == pod.metadata.uid for one in held):
        return
    meta = claim.metadata
    consumer = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
    body = {"status": {"reservedFor": [*map(reference, held), consumer]}}
    draft.add(
        Patch(RESOURCE_CLAIMS, meta.namespace, meta.name, body, "status", meta.resource_version), "reserves a claim"
    )


def reference(consumer: Consumer) -> Manifest:
    """An entry of `status.reservedFor`."""
    found: Manifest = {"resource": consumer.resource, "name": consumer.name, "uid": consumer.uid}
    return {"apiGroup": consumer.api_group, **found} if consumer.api_group else found
