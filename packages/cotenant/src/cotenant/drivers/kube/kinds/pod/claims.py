"""The claims that a pod needs, and what its containers request of extended resources.

A claim from a template has the name that `status.resourceClaimStatuses` says, once it is made.

Source: Kubernetes API reference, PodResourceClaim; KEP-4381, 5004.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from cotenant.drivers.kube.kinds.pod.schema import Container, PodMeta, PodSpec, PodStatus
from cotenant.model.claims.needs import ClaimNeeds, ContainerRequest, NamedClaim
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
    meta: PodMeta, spec: PodSpec, status: PodStatus, extended: tuple[ContainerRequest, ...]
) -> ClaimNeeds | None:
    """What a pod needs; None for no claim."""
    made = {found.name: found.resource_claim_name for found in status.resource_claim_statuses or ()}
    namespace = meta.namespace or "default"
    claims: dict[str, NamedClaim] = {}
    missing: list[str] = []
    for wanted in spec.resource_claims or ():
        if wanted.resource_claim_name:
            key = f"{namespace}/{wanted.resource_claim_name}"
            claims.setdefault(key, NamedClaim(key))
        elif wanted.name not in made:
            missing.append(wanted.name)
        elif name := made[wanted.name]:
            key = f"{namespace}/{name}"
            claims[key] = NamedClaim(key, must_own=True)
    if not (claims or missing or extended):
        return None
    return ClaimNeeds(tuple(missing), extended, meta.uid or "", tuple(claims.values()))
