"""Job: defaults and rules.

Limits: the selector and the labels that tie pods to their Job contain its UID and are set by the kind's behaviour,
which also checks the restart policy and immutable fields. Source: Kubernetes API reference batch/v1 Job.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.pod import default_template
from cotenant_local.apiserver.schema.kinds.workloads import check_template

_MODES = frozenset({"NonIndexed", "Indexed"})
_ANY_RESTART = frozenset({"Always", "OnFailure", "Never"})
_NO_LIMIT = 2**31 - 1
_MAX_INDEXED = 100_000


def default_job(obj: Manifest) -> None:
    """Set the defaults of a Job."""
    spec = obj.setdefault("spec", {})
    default_template(spec.setdefault("template", {}))
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _NO_LIMIT if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")


def check_job(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a Job."""
    causes: list[FieldError] = []
    spec = obj.setdefault("spec", {})
    for key in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ):
        field_errors.not_negative(spec.get(key), f"spec.{key}", causes)
    field_errors.one_of(spec.get("completionMode"), _MODES, "spec.completionMode", causes)
    if spec.get("completionMode") == "Indexed":
        if "completions" not in spec:
            causes.append(field_errors.required("spec.completions", "when completion mode is Indexed"))
        if spec.get("parallelism", 0) > _MAX_INDEXED:
            causes.append(
                field_errors.invalid(
                    "spec.parallelism",
                    spec["parallelism"],
                    f"must be less than or equal to {_MAX_INDEXED} when completion mode is Indexed",
                )
            )
    elif "backoffLimitPerIndex" in spec:
        causes.append(
            field_errors.invalid(
                "spec.backoffLimitPerIndex", spec["backoffLimitPerIndex"], "requires indexed completion mode"
            )
        )
    check_template(spec.get("template", {}), "spec.template", causes, _ANY_RESTART)
    return causes
