"""CronJob: defaults and rules.

Limits: of the template's Job only what a Job's own rules check.
Source: Kubernetes API reference batch/v1 CronJob.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import cron_schedule, field_errors
from cotenant_local.apiserver.schema.kinds.jobs import check_job
from cotenant_local.apiserver.schema.kinds.pod import default_template

_POLICIES = frozenset({"Allow", "Forbid", "Replace"})
_MAX_NAME = 52  # a Job's name has eleven more


def default_cron_job(obj: Manifest) -> None:
    """Set the defaults of a CronJob."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    made = spec.setdefault("jobTemplate", {})
    made.setdefault("metadata", {})
    template = made.setdefault("spec", {}).setdefault("template", {})
    template.setdefault("metadata", {})
    default_template(template)


def check_cron_job(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a CronJob. `old` is None on create."""
    causes: list[FieldError] = []
    spec, before = obj.setdefault("spec", {}), (old or {}).get("spec") or {}
    schedule, zone = spec.get("schedule") or "", spec.get("timeZone")
    if not schedule:
        causes.append(field_errors.required("spec.schedule"))
    elif schedule != before.get("schedule"):
        causes += _check_schedule(schedule)
    if zone is not None and zone != before.get("timeZone"):
        if not zone:
            causes.append(field_errors.invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string"))
        elif zone.lower() == "local":
            causes.append(
                field_errors.invalid("spec.timeZone", zone, "timeZone must be an explicit time zone as defined in "
                                     "https://www.iana.org/time-zones")
            )  # fmt: skip
        elif not cron_schedule.is_zone(zone):
            causes.append(field_errors.invalid("spec.timeZone", zone, f"unknown time zone {zone}"))
    for key in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        field_errors.not_negative(spec.get(key), f"spec.{key}", causes)
    field_errors.one_of(spec.get("concurrencyPolicy"), _POLICIES, "spec.concurrencyPolicy", causes)
    template = spec.get("jobTemplate") or {}
    causes += [
        FieldError(cause.reason, cause.message, f"spec.jobTemplate.{cause.field}")
        for cause in check_job({"spec": {"completionMode": "NonIndexed", **(template.get("spec") or {})}}, None)
    ]
    causes += _check_restart(template)
    name = (obj.get("metadata") or {}).get("name") or ""
    if old is None and len(name) > _MAX_NAME:
        causes.append(field_errors.invalid("metadata.name", name, f"must be no more than {_MAX_NAME} characters"))
    return causes


def _check_schedule(schedule: str) -> list[FieldError]:
    if "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        return [field_errors.invalid("spec.schedule", schedule, detail)]
    try:
        cron_schedule.parse(schedule)
    except cron_schedule.BadSchedule as error:
        return [field_errors.invalid("spec.schedule", schedule, str(error))]
    return []


def _check_restart(template: Manifest) -> list[FieldError]:
    pod = (((template.get("spec") or {}).get("template")) or {}).get("spec") or {}
    field = "spec.jobTemplate.spec.template.spec.restartPolicy"
    policy = pod.get("restartPolicy")
    if policy in ("OnFailure", "Never"):
        return []
    if policy in (None, "", "Always"):
        return [field_errors.required(field, 'valid values: "OnFailure", "Never"')]
    return []  # an unknown one is a cause of the template's own rules
