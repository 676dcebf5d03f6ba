"""ResourceQuota: rules of its own fields.

Source: Kubernetes API reference core/v1 ResourceQuota.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.field_errors import nano


def check_quota(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a quota. `old` is None on create."""
    causes: list[FieldError] = []
    spec = obj.get("spec") or {}
    for name, amount in sorted((spec.get("hard") or {}).items()):
        if nano(amount) < 0:
            causes.append(field_errors.invalid(f"spec.hard[{name}]", amount, "must be greater than or equal to 0"))
        if why := field_errors.key_problem(name.removeprefix("count/") or name):
            causes.append(field_errors.invalid(f"spec.hard[{name}]", name, why))
    if old is not None and set(spec.get("scopes") or ()) != set((old.get("spec") or {}).get("scopes") or ()):
        causes.append(field_errors.invalid("spec.scopes", spec.get("scopes"), "field is immutable"))
    return causes
