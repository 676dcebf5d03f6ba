"""What a pod says of its ResourceClaims: in its spec, its containers, and its status.

Source: Kubernetes API reference core/v1 PodResourceClaim, and what a server of 1.36 answers.
"""

from __future__ import annotations

from collections.abc import Set

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.claims import names

_KINDS = ("resourceClaimName", "resourceClaimTemplateName")


def check_claims(claims: list[Manifest], field: str, causes: list[FieldError]) -> Set[str]:
    """Check the claims of a pod. Returns their names."""
    known: set[str] = set()
    for index, claim in enumerate(claims):
        here, name = f"{field}[{index}]", claim.get("name", "")
        if not name:
            causes.append(field_errors.required(f"{here}.name"))
        elif name in known:
            causes.append(field_errors.duplicate(f"{here}.name", name))
        else:
            names.label(name, f"{here}.name", causes)
            known.add(name)
        given = [kind for kind in _KINDS if kind in claim]
        if len(given) > 1:
            why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            causes.append(field_errors.invalid(here, claim, why))
        if not given:
            why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            causes.append(field_errors.invalid(here, claim, why))
        for kind in given:
            _object_name(claim[kind], f"{here}.{kind}", causes)
    return known


def check_uses(uses: list[Manifest], known: Set[str], field: str, causes: list[FieldError]) -> None:
    """Check the claims that a container uses: wholly, or one request of them."""
    seen: set[str] = set()
    for index, use in enumerate(uses):
        here, name, request = f"{field}[{index}]", use.get("name", ""), use.get("request", "")
        if not name:
            causes.append(field_errors.required(here))
            continue
        key = f"{name}/{request}" if request else name
        if request and name not in seen:
            names.label(request, f"{here}.request", causes)
        if name in seen or (not request and any(one.startswith(f"{name}/") for one in seen)):
            causes.append(field_errors.duplicate(here, name))
        elif key in seen:
            causes.append(field_errors.duplicate(here, key))
        seen.add(key)
        if name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            why = f'Not found: "{name}": must be one of the names in pod.spec.resourceClaims{listed}'
            causes.append(FieldError("FieldValueNotFound", why, here))


def check_status(obj: Manifest) -> list[FieldError]:
    """Validation errors of what a pod's status says of its claims."""
    causes: list[FieldError] = []
    status, spec = obj.get("status") or {}, obj.get("spec") or {}
    known = {claim.get("name") for claim in spec.get("resourceClaims", ())}
    seen: set[str] = set()
    for index, found in enumerate(status.get("resourceClaimStatuses", ())):
        here, name = f"status.resourceClaimStatuses[{index}]", found.get("name", "")
        if name not in known:
            why = "must match the name of an entry in `spec.resourceClaims`"
            causes.append(field_errors.invalid(f"{here}.name", name, why))
        if name in seen:
            causes.append(field_errors.duplicate(f"{here}.name", name))
        seen.add(name)
        if "resourceClaimName" in found:
            _object_name(found["resourceClaimName"], f"{here}.resourceClaimName", causes)
    if "extendedResourceClaimStatus" in status:
        _check_extended(status["extendedResourceClaimStatus"], spec, causes)
    return causes


def _check_extended(found: Manifest, spec: Manifest, causes: list[FieldError]) -> None:
    field = "status.extendedResourceClaimStatus"
    containers = {one.get("name"): one for kind in ("initContainers", "containers") for one in spec.get(kind, ())}
    mappings = found.get("requestMappings", ())
    if not mappings:
        causes.append(field_errors.required(f"{field}.requestMappings", "at least one request mapping is required"))
    seen: set[tuple[str, str, str]] = set()
    for index, mapping in enumerate(mappings):
        here = f"{field}.requestMappings[{index}]"
        container, resource = mapping.get("containerName", ""), mapping.get("resourceName", "")
        request = mapping.get("requestName", "")
        if container not in containers:
            why = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            causes.append(field_errors.invalid(f"{here}.containerName", container, why))
        elif resource not in ((containers[container].get("resources") or {}).get("requests") or {}):
            why = (
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
                "spec.containers.resources.requests"
            )
            causes.append(field_errors.invalid(f"{here}.resourceName", resource, why))
        names.label(request, f"{field}.requestName", causes)
        key = (container, resource, request)
        if key in seen:
            parts = zip(("containerName", "resourceName", "requestName"), key, strict=True)
            causes += [field_errors.duplicate(f"{here}.{part}", value) for part, value in parts]
        seen.add(key)
    if found.get("resourceClaimName"):
        _object_name(found["resourceClaimName"], f"{field}.resourceClaimName", causes)
    else:
        causes.append(field_errors.required(f"{field}.resourceClaimName"))


def _object_name(name: str, field: str, causes: list[FieldError]) -> None:
    if why := field_errors.subdomain_problem(name):
        causes.append(field_errors.invalid(field, name, why))
