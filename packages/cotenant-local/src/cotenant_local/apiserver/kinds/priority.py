"""PriorityClasses: an immutable value, and at most one default.

Source: Kubernetes documentation "Pod Priority and Preemption".
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.kinds.behaviour import KindBehaviour, ObjectLookup
from cotenant_local.apiserver.verbs.errors import forbidden_message, immutable

MAX_USER_PRIORITY = 1_000_000_000
SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class PriorityClassBehaviour(KindBehaviour):
    """A priority class."""

    has_generation = True

    def admit(self, obj: Manifest, old: Manifest | None, world: ObjectLookup) -> None:
        """Set the defaults of value and preemption policy."""
        obj.setdefault("value", 0)
        if not obj.get("preemptionPolicy"):
            obj["preemptionPolicy"] = "PreemptLowerPriority"

    def admit_last(self, obj: Manifest, old: Manifest | None, world: ObjectLookup) -> None:
        """At most one class may be the default. Raises ApiError 403."""
        if not obj.get("globalDefault"):
            return
        name = obj["metadata"].get("name", "")
        for other in world.scan("scheduling.k8s.io", "priorityclasses"):
            if other.get("globalDefault") and other["metadata"]["name"] != name:
                raise forbidden_message(
                    "priorityclasses.scheduling.k8s.io",
                    name,
                    f"PriorityClass {other['metadata']['name']} is already marked as default. Only one default can "
                    "exist",
                )

    def check_create(self, obj: Manifest) -> list[FieldError]:
        """The prefix `system-` and the highest values are reserved for the system."""
        name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
        if name.startswith("system-") and (name not in SYSTEM or value != SYSTEM[name]):
            why = "Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: "
            return [
                FieldError("FieldValueForbidden", f"{why}{name} is not a known system priority class", "metadata.name")
            ]
        if isinstance(value, int) and value > MAX_USER_PRIORITY and name not in SYSTEM:
            why = f"Forbidden: maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}"
            return [FieldError("FieldValueForbidden", why, "value")]
        return []

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[FieldError]:
        """Value and preemption policy are immutable."""
        causes = []
        if obj.get("value") != old.get("value"):
            causes.append(FieldError("FieldValueForbidden", "Forbidden: may not be changed in an update.", "value"))
        if obj.get("preemptionPolicy") != old.get("preemptionPolicy"):
            causes.append(immutable("preemptionPolicy", obj.get("preemptionPolicy")))
        return causes
