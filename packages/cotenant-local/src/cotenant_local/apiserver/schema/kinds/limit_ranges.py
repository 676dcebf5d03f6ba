"""LimitRange: defaults and rules of its own fields. What it does to pods is in `kinds/limit_ranges.py`.

Limits: ratios are not compared with minima and maxima.
Source: Kubernetes API reference core/v1 LimitRange.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.field_errors import nano


def default_range(obj: Manifest) -> None:
    """A container's default limit is its maximum, its default request that or the minimum, where none is given."""
    for limit in (obj.get("spec") or {}).get("limits") or ():
        if limit.get("type") != "Container":
            continue
        limits = {**(limit.get("max") or {}), **(limit.get("default") or {})}
        requests = {**(limit.get("min") or {}), **limits, **(limit.get("defaultRequest") or {})}
        if limits:
            limit["default"] = limits
        if requests:
            limit["defaultRequest"] = requests


def check_range(obj: Manifest, _: Manifest | None) -> list[FieldError]:
    """Validation errors of a LimitRange."""
    causes: list[FieldError] = []
    seen: set[str] = set()
    for i, limit in enumerate((obj.get("spec") or {}).get("limits") or ()):
        field, kind = f"spec.limits[{i}]", limit.get("type") or ""
        if kind in seen:
            causes.append(field_errors.duplicate(f"{field}.type", kind))
        seen.add(kind)
        if kind == "Pod":
            causes += [
                field_errors.forbidden(f"{field}.{name}", "may not be specified when `type` is 'Pod'")
                for name in ("default", "defaultRequest")
                if limit.get(name)
            ]
        if kind == "PersistentVolumeClaim" and not (
            "storage" in (limit.get("min") or {}) or "storage" in (limit.get("max") or {})
        ):
            why = "either minimum or maximum storage value is required, but neither was provided"
            causes.append(field_errors.required(f"{field}.limits", why))
        causes += _check_order(limit, field)
    return causes


def _check_order(limit: Manifest, field: str) -> list[FieldError]:
    """Minimum, default request, default and maximum must be in this order, each where both are given."""
    causes: list[FieldError] = []
    least, most = limit.get("min") or {}, limit.get("max") or {}
    request, default = limit.get("defaultRequest") or {}, limit.get("default") or {}
    pairs = (
        ("min", "min value", least, "max value", most, "min"),
        ("defaultRequest", "min value", least, "default request value", request, "request"),
        ("defaultRequest", "default request value", request, "max value", most, "request"),
        ("defaultRequest", "default request value", request, "default limit value", default, "request"),
        ("default", "min value", least, "default value", default, "min"),
        ("default", "default value", default, "max value", most, "max"),
    )
    shown = {"min": least, "request": request, "max": most}
    for name in sorted({*least, *most, *request, *default}):
        for at, low_name, low, high_name, high, value in pairs:
            if name in low and name in high and nano(low[name]) > nano(high[name]):
                detail = f"{low_name} {low[name]} is greater than {high_name} {high[name]}"
                causes.append(field_errors.invalid(f"{field}.{at}[{name}]", shown[value][name], detail))
    return causes
