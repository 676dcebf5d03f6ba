"""Taints of devices, tolerations of requests, and DeviceTaintRules: defaults and rules.

Source: KEP-5055, and what a server of 1.36 answers.
"""

from __future__ import annotations

import time

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.claims import names
from cotenant_local.apiserver.verbs.context import timestamp

MAX_TAINTS = 16
_MAX_CONDITIONS = 8
_EFFECTS = frozenset({"NoSchedule", "NoExecute", "None"})
_OPERATORS = frozenset({"Equal", "Exists"})


def default_taint(taint: Manifest) -> None:
    """Set when it was added."""
    if not taint.get("timeAdded"):
        taint["timeAdded"] = timestamp(time.time())


def default_rule(obj: Manifest) -> None:
    """Set the defaults of a DeviceTaintRule."""
    if isinstance(taint := obj.get("spec", {}).get("taint"), dict):
        default_taint(taint)


def check_taint(taint: Manifest, field: str, causes: list[FieldError]) -> None:
    """Check a device's taint."""
    names.label_key(taint.get("key", ""), f"{field}.key", causes)
    _label_value(taint.get("value", ""), f"{field}.value", causes)
    field_errors.one_of(taint.get("effect", ""), _EFFECTS, f"{field}.effect", causes)


def check_toleration(toleration: Manifest, field: str, causes: list[FieldError]) -> None:
    """Check a request's toleration."""
    if toleration.get("key"):
        names.label_key(toleration["key"], f"{field}.key", causes)
    operator, value, effect = toleration.get("operator", ""), toleration.get("value", ""), toleration.get("effect", "")
    if operator == "Exists":
        if value:
            causes.append(field_errors.invalid(f"{field}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        _label_value(value, f"{field}.value", causes)
    else:
        field_errors.one_of(operator, _OPERATORS, f"{field}.operator", causes)
    if effect and effect not in _EFFECTS:
        causes.append(field_errors.unsupported(f"{field}.effect", effect, _EFFECTS))


def check_rule(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a DeviceTaintRule."""
    causes: list[FieldError] = []
    spec, field = obj.get("spec", {}), "spec.deviceSelector"
    if old is None or spec != old.get("spec"):
        chosen = spec.get("deviceSelector") or {}
        if "driver" in chosen:
            names.driver(chosen["driver"], f"{field}.driver", causes)
        if "pool" in chosen:
            names.pool(chosen["pool"], f"{field}.pool", causes)
        if "device" in chosen:
            names.label(chosen["device"], f"{field}.device", causes)
        check_taint(spec.get("taint", {}), "spec.taint", causes)
    conditions = (obj.get("status") or {}).get("conditions", ())
    if len(conditions) > _MAX_CONDITIONS:
        causes.append(names.too_many("status.conditions", len(conditions), _MAX_CONDITIONS))
    return causes


def _label_value(value: str, field: str, causes: list[FieldError]) -> None:
    if why := field_errors.value_problem(value):
        causes.append(field_errors.invalid(field, value, why))
