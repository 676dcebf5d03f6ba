"""Node: defaults and rules. Source: Kubernetes API reference v1 Node (allocatable defaults to the capacity)."""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.placement import EFFECTS


def default_node(obj: Manifest) -> None:
    """Set the defaults of a Node."""
    status = obj.get("status")
    if status and "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def check_node(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a Node."""
    causes: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    spec = obj.get("spec", {})
    for index, taint in enumerate(spec.get("taints", ())):
        here = f"spec.taints[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        if why := field_errors.key_problem(key):
            causes.append(field_errors.invalid(f"{here}.key", key, why))
        if why := field_errors.value_problem(taint.get("value", "")):
            causes.append(field_errors.invalid(f"{here}.value", taint["value"], why))
        field_errors.one_of(effect, EFFECTS, f"{here}.effect", causes)
        if (key, effect) in seen:
            cause = field_errors.duplicate(here, taint)
            causes.append(
                FieldError(cause.reason, f"{cause.message}: taints must be unique by key and effect pair", here)
            )
        seen.add((key, effect))
    status = obj.get("status", {})
    for key in ("capacity", "allocatable"):
        for name, amount in status.get(key, {}).items():
            if field_errors.nano(amount) < 0:
                causes.append(field_errors.invalid(f"status.{key}[{name}]", amount, field_errors.NOT_NEGATIVE))
    return causes
