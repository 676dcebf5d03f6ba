"""HorizontalPodAutoscaler: defaults and rules.

Limits: of metrics by objects, pods and external systems only that their part is there; nothing here answers for them.
An empty list of policies counts as none.
Source: Kubernetes API reference autoscaling/v2 HorizontalPodAutoscaler (defaults of `behavior` as described there).
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.field_errors import nano

CPU_UTILIZATION_PCT = 80  # where no metric is given
_MAX_WINDOW_S, _MAX_PERIOD_S = 3600, 1800
_SELECT = frozenset({"Max", "Min", "Disabled"})
_POLICIES = frozenset({"Pods", "Percent"})
_PARTS = {
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "External": "external",
    "ContainerResource": "containerResource",
}
_FULL = {"type": "Percent", "value": 100, "periodSeconds": 15}
_DEFAULTS: dict[str, Manifest] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _FULL],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [_FULL]},
}


def default_autoscaler(obj: Manifest) -> None:
    """Set the defaults of a HorizontalPodAutoscaler."""
    spec = obj.setdefault("spec", {})
    if spec.get("minReplicas") is None:
        spec["minReplicas"] = 1
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": CPU_UTILIZATION_PCT}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        for side, defaults in _DEFAULTS.items():
            given = behavior.get(side) or {}
            rules = {key: given[key] for key in given if given[key] is not None}
            behavior[side] = {**defaults, "policies": [dict(one) for one in defaults["policies"]], **rules}


def check_autoscaler(obj: Manifest, _: Manifest | None) -> list[FieldError]:
    """Validation errors of a HorizontalPodAutoscaler."""
    spec = obj.setdefault("spec", {})
    causes: list[FieldError] = []
    least, most = spec.get("minReplicas", 1), spec.get("maxReplicas") or 0
    if least < 1:
        causes.append(field_errors.invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most == 0:
        causes.append(field_errors.required("spec.maxReplicas", "must be set and greater than 0"))
    elif most < 0:
        causes.append(field_errors.invalid("spec.maxReplicas", most, "must be greater than or equal to 1"))
    if most < least:
        causes.append(field_errors.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    target = spec.get("scaleTargetRef") or {}
    causes += [field_errors.required(f"spec.scaleTargetRef.{key}") for key in ("kind", "name") if not target.get(key)]
    if "/" not in (target.get("apiVersion") or ""):
        version = target.get("apiVersion") or ""
        causes.append(
            field_errors.invalid("spec.scaleTargetRef.apiVersion", version, "apiVersion must specify API group")
        )
    metrics = spec.get("metrics") or ()
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        why = "must specify at least one Object or External metric to support scaling to zero replicas"
        causes.append(field_errors.forbidden("spec.metrics", why))
    for i, metric in enumerate(metrics):
        causes += _check_metric(metric, f"spec.metrics[{i}]")
    for side in _DEFAULTS:
        rules = (spec.get("behavior") or {}).get(side)
        if rules is not None:
            causes += _check_rules(rules, f"spec.behavior.{side}")
    return causes


def _check_metric(metric: Manifest, field: str) -> list[FieldError]:
    kind = metric.get("type") or ""
    causes: list[FieldError] = []
    if not kind:
        causes.append(field_errors.required(f"{field}.type", "must specify a metric source type"))
    if kind not in _PARTS:
        return [*causes, field_errors.unsupported(f"{field}.type", kind, _PARTS)]
    present = [part for part in _PARTS.values() if metric.get(part) is not None]
    part = _PARTS[kind]
    if part in ("resource", "containerResource") and part in present:
        causes += _check_resource(metric[part], f"{field}.{part}")
    if part not in present:
        causes.append(field_errors.required(f"{field}.{part}", "must populate information for the given metric source"))
    if len(present) > 1:
        why = "must populate the given metric source only"
        causes += [field_errors.forbidden(f"{field}.{other}", why) for other in present if other != part]
    return causes


def _check_resource(source: Manifest, field: str) -> list[FieldError]:
    causes: list[FieldError] = []
    if not source.get("name"):
        causes.append(field_errors.required(f"{field}.name", "must specify a resource name"))
    if field.endswith("containerResource") and not source.get("container"):
        causes.append(field_errors.required(f"{field}.container", "must specify a container"))
    target = source.get("target") or {}
    kind, share, average = target.get("type") or "", target.get("averageUtilization"), target.get("averageValue")
    if not kind:
        causes.append(field_errors.required(f"{field}.target.type", "must specify a metric target type"))
    if kind not in ("Utilization", "Value", "AverageValue"):
        causes.append(
            field_errors.invalid(f"{field}.target.type", kind, "must be either Utilization, Value, or AverageValue")
        )
    if target.get("value") is not None and nano(str(target["value"])) <= 0:
        causes.append(field_errors.invalid(f"{field}.target.value", target["value"], "must be positive"))
    if average is not None and nano(str(average)) <= 0:
        causes.append(field_errors.invalid(f"{field}.target.averageValue", average, "must be positive"))
    if share is not None and share < 1:
        causes.append(field_errors.invalid(f"{field}.target.averageUtilization", share, "must be greater than 0"))
    if share is not None and average is not None:
        why = "may not set both a target raw value and a target utilization"
        causes.append(field_errors.forbidden(f"{field}.target.averageValue", why))
    if share is None and average is None:
        why = "must set either a target raw value or a target utilization"
        causes.append(field_errors.required(f"{field}.target.averageUtilization", why))
    return causes


def _check_rules(rules: Manifest, field: str) -> list[FieldError]:
    causes: list[FieldError] = []
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        causes.append(
            field_errors.invalid(f"{field}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
        )
    if window is not None and window > _MAX_WINDOW_S:
        why = f"must be less than or equal to {_MAX_WINDOW_S}"
        causes.append(field_errors.invalid(f"{field}.stabilizationWindowSeconds", window, why))
    select = rules.get("selectPolicy")
    if select is not None and select not in _SELECT:
        causes.append(field_errors.unsupported(f"{field}.selectPolicy", select, _SELECT))
    policies = rules.get("policies") or ()
    if not policies:
        causes.append(field_errors.required(f"{field}.policies", "must specify at least one Policy"))
    for i, policy in enumerate(policies):
        at, kind = f"{field}.policies[{i}]", policy.get("type") or ""
        if kind not in _POLICIES:
            causes.append(field_errors.unsupported(f"{at}.type", kind, _POLICIES))
        causes += [
            field_errors.invalid(f"{at}.{key}", policy.get(key) or 0, "must be greater than zero")
            for key in ("value", "periodSeconds")
            if (policy.get(key) or 0) <= 0
        ]
        if (policy.get("periodSeconds") or 0) > _MAX_PERIOD_S:
            why = f"must be less than or equal to {_MAX_PERIOD_S}"
            causes.append(field_errors.invalid(f"{at}.periodSeconds", policy["periodSeconds"], why))
    if rules.get("tolerance") is not None and nano(str(rules["tolerance"])) < 0:
        causes.append(field_errors.invalid(f"{field}.tolerance", rules["tolerance"], field_errors.NOT_NEGATIVE))
    return causes
