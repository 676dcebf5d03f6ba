"""Claims made from templates for pods and for PodGroups, and their names in the statuses of these.

A claim is found again by its owner and its annotation, so a controller that was restarted between the creation and the
status makes no second one. An entry of a pod that is equal to one of its PodGroup means the group's claim.

Source: KEP-4381, "Resource claim controller"; KEP-5729; Kubernetes API reference, PodResourceClaimStatus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.runtime.actions import (
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    Create,
    Draft,
    EmitEvent,
    Patch,
    Plan,
    ResourceName,
)
from cotenant_local.controllers.views.claims import ClaimTemplate, ConsumerView, ResourceClaimView
from cotenant_local.controllers.views.pods import PodClaimView, PodObjectView
from cotenant_local.controllers.views.workloads import PodGroupView
from cotenant_local.controllers.workloads.pods import owner_reference

POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
_API = "resource.k8s.io/v1"
_MAX_CONSUMERS = 256
_MAX_PREFIX = 57  # leaves room for five characters in a label


@dataclass(frozen=True, slots=True)
class _Owner:
    """A pod or a PodGroup that asks for claims of its own."""

    owner: PodObjectView | PodGroupView
    resource: ResourceName
    kind: str
    api_version: str
    named: Mapping[str, str | None]  # in its status


def of_pod(
    pod: PodObjectView,
    owned: Iterable[ResourceClaimView],
    claim_of: Callable[[str], ResourceClaimView | None],
    template_of: Callable[[str], ClaimTemplate | None],
    group: PodGroupView | None = None,
) -> Plan:
    """`owned`: claims that the pod controls; `claim_of`, `template_of`: by name, in its namespace; `group`: its own."""
    draft = Draft()
    if pod.metadata.terminating or pod.finished:
        return draft.plan("the pod needs no claims")
    if group is None and (pod.spec.scheduling_group or {}).get("podGroupName"):
        return draft.plan("its PodGroup, which may have its claims, does not exist yet")
    named = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    shared = group.spec.resource_claims if group is not None else ()
    statuses = group.status.resource_claim_statuses if group is not None else ()
    of_its_group = {status.name: status.resource_claim_name for status in statuses}
    own = [asked for asked in pod.spec.resource_claims if asked not in shared]
    owner = _Owner(pod, PODS, "Pod", "v1", named)
    names = _made(draft, owner, own, owned, claim_of, template_of)
    for asked in pod.spec.resource_claims:
        if asked in shared and asked.resource_claim_template_name and asked.name in of_its_group:
            names[asked.name] = of_its_group[asked.name]
    _name(draft, owner, names)
    if pod.spec.node_name:
        for asked in pod.spec.resource_claims:
            name = asked.resource_claim_name or named.get(asked.name)
            if name and asked not in shared:
                _reserve(draft, pod, claim_of(name))
        extended = pod.status.extended_resource_claim_status
        if extended is not None and extended.resource_claim_name:
            _reserve(draft, pod, claim_of(extended.resource_claim_name))
    return draft.plan()


def of_group(
    group: PodGroupView,
    owned: Iterable[ResourceClaimView],
    claim_of: Callable[[str], ResourceClaimView | None],
    template_of: Callable[[str], ClaimTemplate | None],
) -> Plan:
    """As `of_pod`, for the claims that the pods of a group share."""
    draft = Draft()
    if group.metadata.terminating:
        return draft.plan("the group is being deleted")
    named = {status.name: status.resource_claim_name for status in group.status.resource_claim_statuses}
    owner = _Owner(group, POD_GROUPS, "PodGroup", "scheduling.k8s.io/v1beta1", named)
    _name(draft, owner, _made(draft, owner, group.spec.resource_claims, owned, claim_of, template_of))
    return draft.plan()


def _made(
    draft: Draft,
    of: _Owner,
    asks: Iterable[PodClaimView],
    owned: Iterable[ResourceClaimView],
    claim_of: Callable[[str], ResourceClaimView | None],
    template_of: Callable[[str], ClaimTemplate | None],
) -> dict[str, str | None]:
    """Make what is missing; the names of what there is."""
    made = {claim.metadata.annotations.get(POD_CLAIM, ""): claim for claim in owned}
    names = dict(of.named)
    for asked in asks:
        if not asked.resource_claim_template_name:
            continue
        kept = claim_of(of.named.get(asked.name) or "")
        if asked.name in of.named and (of.named[asked.name] is None or _is_of(kept, of.owner.metadata.uid)):
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
            draft.add(
                EmitEvent(of.owner, of.kind, of.api_version, "Warning", "FailedResourceClaimCreation", text), text
            )
            continue
        draft.add(Create(RESOURCE_CLAIMS, of.owner.metadata.namespace, _claim(of, asked, template)), "makes a claim")
    return names


def _name(draft: Draft, of: _Owner, names: Mapping[str, str | None]) -> None:
    if names != of.named:
        statuses = [{"name": name, "resourceClaimName": found} for name, found in names.items()]
        body = {"status": {"resourceClaimStatuses": statuses}}
        meta = of.owner.metadata
        draft.add(Patch(of.resource, meta.namespace, meta.name, body, "status"), "names its claims")


def claim_names(pod: PodObjectView) -> list[str]:
    """The names of a pod's claims, as far as they exist; the one for its extended resources too."""
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    found = [asked.resource_claim_name or made.get(asked.name) for asked in pod.spec.resource_claims]
    if pod.status.extended_resource_claim_status is not None:
        found.append(pod.status.extended_resource_claim_status.resource_claim_name)
    return [name for name in found if name]


def _is_of(claim: ResourceClaimView | None, uid: str) -> bool:
    controller = claim.metadata.controller if claim is not None else None
    return controller is not None and controller.uid == uid


def _claim(of: _Owner, asked: PodClaimView, template: ClaimTemplate) -> Manifest:
    given, meta = template.spec.metadata, of.owner.metadata
    owner = owner_reference(meta, of.kind, of.api_version)
    del owner["blockOwnerDeletion"]  # as upstream
    metadata: Manifest = {
        "generateName": _prefix(meta.name, asked.name),
        "namespace": meta.namespace,
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


def _reserve(draft: Draft, pod: PodObjectView, claim: ResourceClaimView | None) -> None:
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


def reference(consumer: ConsumerView) -> Manifest:
    """An entry of `status.reservedFor`."""
    found: Manifest = {"resource": consumer.resource, "name": consumer.name, "uid": consumer.uid}
    return {"apiGroup": consumer.api_group, **found} if consumer.api_group else found
