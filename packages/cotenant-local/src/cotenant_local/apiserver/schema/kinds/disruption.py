"""PodDisruptionBudget: rules. Source: Kubernetes API reference policy/v1."""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.selectors import label_selector
from cotenant_local.apiserver.schema.kinds.workloads import check_share

_POLICIES = frozenset({"IfHealthyBudget", "AlwaysAllow"})


def check_budget(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a PodDisruptionBudget."""
    causes: list[FieldError] = []
    spec = obj.get("spec", {})
    if "minAvailable" in spec and "maxUnavailable" in spec:
        causes.append(field_errors.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for key in ("minAvailable", "maxUnavailable"):
        if key in spec:
            check_share(spec[key], f"spec.{key}", causes)
    if "selector" in spec:
        label_selector(spec["selector"], "spec.selector", causes)
    if "unhealthyPodEvictionPolicy" in spec:
        field_errors.one_of(spec["unhealthyPodEvictionPolicy"], _POLICIES, "spec.unhealthyPodEvictionPolicy", causes)
    return causes
