"""The claims that a pod needs, and what its containers request of extended resources.

A claim from a template has the name that `status.resourceClaimStatuses` says, once it is made.

An entry that is equal to one of the pod's PodGroup means the group's claim, reserved for the group.

Source: Kubernetes API reference, PodResourceClaim; KEP-4381, 5004, 5729.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from cotenant.drivers.kube.kinds.pod.groups import GroupTerms
from cotenant.drivers.kube.kinds.pod.schema import Container, PodClaim, PodMeta, PodSpec, PodStatus
from cotenant.model.claims.needs import ClaimGroup, ClaimNeeds, ContainerRequest, GroupClaim, NamedClaim
from cotenant.model.claims.requests import EXTENDED_PREFIX
from cotenant.model.errors import InvalidInput
from cotenant.model.quantities import whole

_NATIVE = "kubernetes.io/"


def extended_requests(spec: PodSpec) -> tuple[ContainerRequest, ...]:
    """What containers request of resources that are no native ones; empty for pods that request none."""
    init, containers = spec.init_containers or (), spec.containers or ()
    found = [
        _of_container(position, container, position >= len(init) or container.restart_policy == "Always")
        for position, container in enumerate((*init, *containers))
    ]
    return tuple(request for request in found if request.amounts)


def _of_container(position: int, container: Container, is_long_lived: bool) -> ContainerRequest:
    resources = container.resources
    written = (resources.requests or resources.limits or {}) if resources is not None else {}
    amounts: list[tuple[str, int]] = []
    for name, text in sorted(written.items()):
        if "/" in name and (_NATIVE not in name or name.startswith(EXTENDED_PREFIX)):
            try:
                amount = whole(text)
            except InvalidInput:
                continue  # named where requests are read
            if amount:
                amounts.append((name, amount))
    return ContainerRequest(position, container.name, is_long_lived, tuple(amounts), tuple(sorted(written)))


def mapped(requests: Iterable[ContainerRequest], resources: Set[str]) -> tuple[ContainerRequest, ...]:
    """These requests, as far as classes may stand for one of their resources."""
    return tuple(
        request
        for request in requests
        if any(name in resources or name.startswith(EXTENDED_PREFIX) for name, _ in request.amounts)
    )


def read_needs(
    meta: PodMeta, spec: PodSpec, status: PodStatus, extended: tuple[ContainerRequest, ...], terms: GroupTerms
) -> ClaimNeeds | None:
    """What a pod needs; None for no claim. `terms`: what the pod's PodGroup says."""
    made = {found.name: found.resource_claim_name for found in status.resource_claim_statuses or ()}
    namespace = meta.namespace or "default"
    claims: dict[str, NamedClaim] = {}
    missing: list[str] = []
    shared: ClaimGroup | None = None
    for wanted in spec.resource_claims or ():
        group = _group_of(wanted, spec, terms) if terms.claims else None
        shared = shared or group
        if wanted.resource_claim_name:
            key = f"{namespace}/{wanted.resource_claim_name}"
            claims.setdefault(key, NamedClaim(key, group=group))
        elif wanted.name not in made:
            missing.append(wanted.name)
        elif name := made[wanted.name]:
            key = f"{namespace}/{name}"
            claims[key] = NamedClaim(key, must_own=True, group=group)
    if not (claims or missing or extended):
        return None
    return ClaimNeeds(tuple(missing), extended, shared, meta.uid or "", tuple(claims.values()))


def _group_of(wanted: PodClaim, spec: PodSpec, terms: GroupTerms) -> ClaimGroup | None:
    claim = GroupClaim(wanted.name, wanted.resource_claim_name or "", wanted.resource_claim_template_name or "")
    if claim not in terms.claims or spec.scheduling_group is None:
        return None
    return ClaimGroup(spec.scheduling_group.pod_group_name or "", terms.uid)
