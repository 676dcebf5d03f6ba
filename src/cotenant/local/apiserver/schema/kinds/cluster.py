"""PriorityClass, Lease, Event: defaults and rules.

Sources: Kubernetes API reference; "Pod Priority and Preemption" (values above a billion are the system's; a class's value never changes).
"""

from __future__ import annotations

from cotenant.local.apiserver.contract import Cause, Manifest
from cotenant.local.apiserver.schema.kinds import words

_HIGHEST = 1_000_000_000
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREEMPTION = frozenset({"Never", "PreemptLowerPriority"})


def default_priority_class(obj: Manifest) -> None:
    """Fill a PriorityClass in."""
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
    obj.setdefault("value", 0)


def check_priority_class(obj: Manifest, old: Manifest | None) -> list[Cause]:
    """What is wrong with a PriorityClass."""
    causes: list[Cause] = []
    name, value = obj.get("metadata", {}).get("name", ""), obj.get("value", 0)
    if name.startswith("system-"):
        if _SYSTEM.get(name) != value:
            causes.append(
                words.forbidden(
                    "metadata.name",
                    "priority class names with 'system-' prefix are reserved for system use only",
                )
            )
    elif value > _HIGHEST:
        causes.append(words.forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST}"))
    words.one_of(obj.get("preemptionPolicy"), _PREEMPTION, "preemptionPolicy", causes)
    if old is not None:
        if value != old.get("value", 0):
            causes.append(words.forbidden("value", "may not be changed in an update."))
        if obj.get("preemptionPolicy") != old.get("preemptionPolicy"):
            causes.append(words.wrong("preemptionPolicy", obj.get("preemptionPolicy"), words.IMMUTABLE))
    return causes


def check_lease(obj: Manifest, old: Manifest | None) -> list[Cause]:
    """What is wrong with a Lease."""
    causes: list[Cause] = []
    spec = obj.get("spec", {})
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        causes.append(words.wrong("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    words.not_negative(spec.get("leaseTransitions"), "spec.leaseTransitions", causes)
    return causes


def check_event(obj: Manifest, old: Manifest | None) -> list[Cause]:
    """What is wrong with an Event of the core group."""
    involved = obj.get("involvedObject", {})
    namespace = obj.get("metadata", {}).get("namespace", "")
    about = involved.get("namespace", "")
    if about:
        fits = about == namespace
    else:  # about something outside namespaces
        fits = namespace in ("", "default")
    if fits:
        return []
    return [words.wrong("involvedObject.namespace", about, "does not match event.namespace")]
