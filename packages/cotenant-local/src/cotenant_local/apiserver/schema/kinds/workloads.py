"""Deployment, ReplicaSet, StatefulSet, DaemonSet: defaults and rules.

Source: Kubernetes API reference apps/v1 (rolling updates of 25 %, ten old revisions, ten minutes of progress). Limits:
that a selector exists, matches its template and is immutable, and other immutable fields, are checked by the kind's
behaviour (`kinds/workloads.py` of the API server).
"""

from __future__ import annotations

import re

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.pod import ALWAYS, check_spec, default_template
from cotenant_local.apiserver.schema.kinds.selectors import label_selector
from cotenant_local.apiserver.schema.kinds.storage import check_claim_spec, default_claim

_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_MESSAGE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is "
    "'[0-9]+%')"
)
_ROLLING = "RollingUpdate"


def default_deployment(obj: Manifest) -> None:
    """Set the defaults of a Deployment."""
    spec = _spec(obj)
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", _ROLLING) == _ROLLING:
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def default_replica_set(obj: Manifest) -> None:
    """Set the defaults of a ReplicaSet."""
    _spec(obj).setdefault("replicas", 1)


def default_stateful_set(obj: Manifest) -> None:
    """Set the defaults of a StatefulSet."""
    spec = _spec(obj)
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", _ROLLING) == _ROLLING:
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    kept = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    kept.setdefault("whenDeleted", "Retain")
    kept.setdefault("whenScaled", "Retain")
    for claim in spec.get("volumeClaimTemplates", ()):
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        default_claim(claim)


def default_daemon_set(obj: Manifest) -> None:
    """Set the defaults of a DaemonSet."""
    spec = _spec(obj)
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", _ROLLING) == _ROLLING:
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


def _spec(obj: Manifest) -> Manifest:
    spec: Manifest = obj.setdefault("spec", {})
    default_template(spec.setdefault("template", {}))
    return spec


def check_deployment(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a Deployment."""
    causes = _check_common(obj)
    spec = obj["spec"]
    strategy = spec.get("strategy", {})
    kind = strategy.get("type")
    if kind == "Recreate":
        if "rollingUpdate" in strategy:
            causes.append(
                field_errors.forbidden(
                    "spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'"
                )
            )
    elif kind == _ROLLING:
        _check_rolling(strategy.get("rollingUpdate", {}), "spec.strategy.rollingUpdate", causes)
    else:
        field_errors.one_of(kind, frozenset({"Recreate", _ROLLING}), "spec.strategy.type", causes)
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        field_errors.not_negative(deadline, "spec.progressDeadlineSeconds", causes)
        if deadline <= spec.get("minReadySeconds", 0):
            causes.append(
                field_errors.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
            )
    return causes


def check_replica_set(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a ReplicaSet."""
    return _check_common(obj)


def check_stateful_set(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a StatefulSet."""
    spec = obj.get("spec", {})
    templates = spec.get("volumeClaimTemplates", ())
    claims = frozenset(template.get("metadata", {}).get("name", "") for template in templates)
    causes = _check_common(obj, claims)
    field_errors.one_of(
        spec.get("podManagementPolicy"), frozenset({"OrderedReady", "Parallel"}), "spec.podManagementPolicy", causes
    )
    strategy = spec.get("updateStrategy", {})
    kind = strategy.get("type")
    field_errors.one_of(kind, frozenset({_ROLLING, "OnDelete"}), "spec.updateStrategy.type", causes)
    if kind == "OnDelete" and "rollingUpdate" in strategy:
        causes.append(
            field_errors.invalid(
                "spec.updateStrategy.rollingUpdate",
                strategy["rollingUpdate"],
                "only allowed for updateStrategy 'RollingUpdate'",
            )
        )
    field_errors.not_negative(
        strategy.get("rollingUpdate", {}).get("partition"), "spec.updateStrategy.rollingUpdate.partition", causes
    )
    field_errors.not_negative(spec.get("ordinals", {}).get("start"), "spec.ordinals.start", causes)
    for index, template in enumerate(templates):
        here = f"spec.volumeClaimTemplates[{index}]"
        if not template.get("metadata", {}).get("name"):
            causes.append(field_errors.required(f"{here}.metadata.name"))
        check_claim_spec(template.get("spec", {}), f"{here}.spec", causes)
    return causes


def check_daemon_set(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a DaemonSet."""
    causes = _check_common(obj)
    strategy = obj["spec"].get("updateStrategy", {})
    field_errors.one_of(strategy.get("type"), frozenset({_ROLLING, "OnDelete"}), "spec.updateStrategy.type", causes)
    if strategy.get("type") == _ROLLING:
        rolling = strategy.get("rollingUpdate", {})
        here = "spec.updateStrategy.rollingUpdate"
        unavailable = _share(rolling.get("maxUnavailable", 0), f"{here}.maxUnavailable", causes)
        surge = _share(rolling.get("maxSurge", 0), f"{here}.maxSurge", causes)
        if unavailable and surge:
            causes.append(
                field_errors.invalid(
                    f"{here}.maxSurge", rolling["maxSurge"], "may not be set when maxUnavailable is non-zero"
                )
            )
        elif not unavailable and not surge:
            causes.append(field_errors.required(f"{here}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return causes


def _check_common(obj: Manifest, claims: frozenset[str] = frozenset()) -> list[FieldError]:
    causes: list[FieldError] = []
    spec = obj.setdefault("spec", {})
    for key in ("replicas", "minReadySeconds", "revisionHistoryLimit"):
        field_errors.not_negative(spec.get(key), f"spec.{key}", causes)
    if "selector" in spec:
        label_selector(spec["selector"], "spec.selector", causes)
    check_template(spec.get("template", {}), "spec.template", causes, ALWAYS, claims)
    return causes


def check_template(
    template: Manifest,
    field: str,
    causes: list[FieldError],
    restart: frozenset[str],
    claims: frozenset[str] = frozenset(),
) -> None:
    """Check a pod template."""
    labels = template.get("metadata", {}).get("labels")
    if labels:
        field_errors.labels(labels, f"{field}.labels", causes)
    check_spec(template.get("spec", {}), f"{field}.spec", causes, restart, claims)


def _check_rolling(rolling: Manifest, field: str, causes: list[FieldError]) -> None:
    unavailable = _share(rolling.get("maxUnavailable", 0), f"{field}.maxUnavailable", causes)
    surge = _share(rolling.get("maxSurge", 0), f"{field}.maxSurge", causes)
    if unavailable == 0 and surge == 0:
        causes.append(
            field_errors.invalid(
                f"{field}.maxUnavailable", rolling.get("maxUnavailable", 0), "may not be 0 when `maxSurge` is 0"
            )
        )
    if isinstance(rolling.get("maxUnavailable"), str) and unavailable > 100:
        causes.append(
            field_errors.invalid(f"{field}.maxUnavailable", rolling["maxUnavailable"], "must not be greater than 100%")
        )


def _share(value: JsonValue, field: str, causes: list[FieldError]) -> int:
    """Check a number or a percentage. Returns its numeric value."""
    if isinstance(value, int):
        field_errors.not_negative(value, field, causes)
        return value
    if not _PERCENT.fullmatch(value):
        causes.append(field_errors.invalid(field, value, _PERCENT_MESSAGE))
        return 1
    return min(int(value[:9].rstrip("%")), 10**9)


def check_share(value: object, field: str, causes: list[FieldError]) -> None:
    """Check a number that is not negative, or a percentage of at most 100."""
    share = _share(value, field, causes)
    if isinstance(value, str) and _PERCENT.fullmatch(value) and share > 100:
        causes.append(field_errors.invalid(field, value, "must not be greater than 100%"))
