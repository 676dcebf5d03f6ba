"""EvictionRequest and Eviction of lifecycle.k8s.io: rules, and those of a pod's evictionResponders.

Left out: that only the active responder's status may change, which a server checks by field ownership.
Source: KEP-4563; Kubernetes API reference lifecycle.k8s.io/v1alpha1 (1.37).
"""

from __future__ import annotations

import re

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors

_INTENTS = frozenset({"Eviction", "Withdrawn"})
_STATES = frozenset({"Active", "Canceled", "Completed", "Inactive", "Interrupted"})
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MAX_RESPONDERS = 10
_MAX_PRIORITY = 100_000
_RESERVED_BELOW = 1000  # priorities of Kubernetes' own responders
_MAX_MESSAGE = 4000


def check_request(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of an EvictionRequest."""
    spec, causes = obj.get("spec") or {}, list[FieldError]()
    _check_target(spec.get("target"), causes)
    check_participant(spec.get("requester"), "spec.requester", causes)
    field_errors.one_of(spec.get("intent"), _INTENTS, "spec.intent", causes)
    before = (old or {}).get("spec") or {}
    if old is None:
        if spec.get("intent") == "Withdrawn":
            causes.append(field_errors.unsupported("spec.intent", "Withdrawn", {"Eviction"}))
        return causes
    for key in ("target", "requester"):
        field_errors.immutable(spec.get(key), before.get(key), f"spec.{key}", causes)
    return causes


def check_eviction(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of an Eviction."""
    spec, status, causes = obj.get("spec") or {}, obj.get("status") or {}, list[FieldError]()
    _check_target(spec.get("target"), causes)
    if old is not None:
        field_errors.immutable(spec.get("target"), (old.get("spec") or {}).get("target"), "spec.target", causes)
    active = 0
    for index, responder in enumerate(status.get("targetResponders") or ()):
        field = f"status.targetResponders[{index}].state"
        field_errors.one_of(responder.get("state"), _STATES, field, causes)
        active += responder.get("state") == "Active"
    if active > 1:
        causes.append(field_errors.invalid("status.targetResponders", active, "at most one responder may be active"))
    before = {one.get("name"): one for one in ((old or {}).get("status") or {}).get("responders") or ()}
    for index, responder in enumerate(status.get("responders") or ()):
        field = f"status.responders[{index}]"
        if len(responder.get("message") or "") > _MAX_MESSAGE:
            causes.append(field_errors.invalid(f"{field}.message", "", f"may not be longer than {_MAX_MESSAGE}"))
        known = before.get(responder.get("name")) or {}
        for key in ("startTime", "completionTime"):
            if known.get(key):
                field_errors.immutable(responder.get(key), known[key], f"{field}.{key}", causes)
    return causes


def check_responders(responders: list[Manifest], field: str, causes: list[FieldError]) -> None:
    """Check `evictionResponders` of a pod."""
    if len(responders) > _MAX_RESPONDERS:
        why = f"Too many: {len(responders)}: must have at most {_MAX_RESPONDERS} items"
        causes.append(FieldError("FieldValueTooMany", why, field))
    names: set[str] = set()
    for index, responder in enumerate(responders):
        name, priority = responder.get("name", ""), responder.get("priority")
        check_participant(name, f"{field}[{index}].name", causes)
        if name in names:
            causes.append(field_errors.duplicate(f"{field}[{index}].name", name))
        names.add(name)
        if priority is None:
            causes.append(field_errors.required(f"{field}[{index}].priority"))
        elif not _RESERVED_BELOW <= priority <= _MAX_PRIORITY:
            why = f"must be between {_RESERVED_BELOW} and {_MAX_PRIORITY}, inclusive"
            causes.append(field_errors.invalid(f"{field}[{index}].priority", priority, why))


def check_participant(name: str | None, field: str, causes: list[FieldError]) -> None:
    """Check the name of a requester or a responder: a key with a domain that is not Kubernetes' own."""
    if not name:
        causes.append(field_errors.required(field))
        return
    domain, slash, _ = name.partition("/")
    if not slash:
        causes.append(field_errors.invalid(field, name, 'must be a domain-prefixed key (such as "acme.io/foo")'))
    elif why := field_errors.key_problem(name):
        causes.append(field_errors.invalid(field, name, why))
    elif any(domain == own or domain.endswith(f".{own}") for own in ("k8s.io", "kubernetes.io")):
        causes.append(field_errors.invalid(field, name, "domain names *.k8s.io and *.kubernetes.io are reserved"))


def _check_target(target: Manifest | None, causes: list[FieldError]) -> None:
    pod = (target or {}).get("pod")
    if pod is None:
        causes.append(field_errors.invalid("spec.target", "", "must specify one of: `pod`"))
        return
    name, uid = pod.get("name", ""), pod.get("uid", "")
    if not name:
        causes.append(field_errors.required("spec.target.pod.name"))
    elif why := field_errors.subdomain_problem(name):
        causes.append(field_errors.invalid("spec.target.pod.name", name, why))
    if not uid:
        causes.append(field_errors.required("spec.target.pod.uid"))
    elif not _UUID.fullmatch(uid):
        why = "must be a lowercase UUID in 8-4-4-4-12 format"
        causes.append(field_errors.invalid("spec.target.pod.uid", uid, why))
