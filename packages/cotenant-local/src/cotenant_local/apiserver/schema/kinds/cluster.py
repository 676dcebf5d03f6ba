"""PriorityClass, Lease, Event: defaults and rules.

Sources: Kubernetes API reference; "Pod Priority and Preemption".
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors

_PREEMPTION = frozenset({"Never", "PreemptLowerPriority"})


def default_priority_class(obj: Manifest) -> None:
    """Set the defaults of a PriorityClass."""
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
    obj.setdefault("value", 0)


def check_priority_class(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a PriorityClass."""
    causes: list[FieldError] = []
    field_errors.one_of(obj.get("preemptionPolicy"), _PREEMPTION, "preemptionPolicy", causes)
    return causes


def check_lease(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a Lease."""
    causes: list[FieldError] = []
    spec = obj.get("spec", {})
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        causes.append(field_errors.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    field_errors.not_negative(spec.get("leaseTransitions"), "spec.leaseTransitions", causes)
    return causes


def check_event(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of an Event of the core group."""
    involved = obj.get("involvedObject", {})
    namespace = obj.get("metadata", {}).get("namespace", "")
    about = involved.get("namespace", "")
    if about:
        fits = about == namespace
    else:  # about a cluster-scoped object
        fits = namespace in ("", "default")
    if fits:
        return []
    return [field_errors.invalid("involvedObject.namespace", about, "does not match event.namespace")]
