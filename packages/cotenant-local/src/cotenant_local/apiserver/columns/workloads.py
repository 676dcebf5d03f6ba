"""The printer columns of workloads and disruption budgets."""

from __future__ import annotations

from collections.abc import Callable

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.columns.formatting import (
    AGE,
    CONTAINERS,
    IMAGES,
    NAME,
    NONE,
    SELECTOR,
    at,
    containers,
    duration,
    field,
    images,
    labels_text,
    number,
    seconds,
    selector_text,
    sequence,
    since,
    text,
)


def _of(obj: Manifest, ready: str, desired: str) -> str:
    return f"{at(obj, 'status', ready) or 0}/{at(obj, 'spec', desired) or 0}"


def _controller(obj: Manifest, now: float) -> str:
    for owner in sequence(obj, "metadata", "ownerReferences"):
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = owner.get("kind", "").lower()
            return f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
    return NONE


def _job_status(obj: Manifest, now: float) -> str:
    true = {one.get("type") for one in sequence(obj, "status", "conditions") if one.get("status") == "True"}
    for condition, shown in (("Complete", "Complete"), ("Failed", "Failed")):
        if condition in true:
            return shown
    if at(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    for condition in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition in true:
            return condition
    return "Running"


def _completions(obj: Manifest, now: float) -> str:
    succeeded = at(obj, "status", "succeeded") or 0
    desired = at(obj, "spec", "completions")
    if desired is not None:
        return f"{succeeded}/{desired}"
    parallelism = at(obj, "spec", "parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(obj: Manifest, now: float) -> str:
    start = seconds(at(obj, "status", "startTime"))
    if start is None:
        return ""
    end = seconds(at(obj, "status", "completionTime"))
    if end is None:
        for condition in sequence(obj, "status", "conditions"):
            if condition.get("type") == "Failed" and condition.get("status") == "True":
                end = seconds(condition.get("lastTransitionTime"))
    return duration((now if end is None else end) - start)


def _limit(field: str, obj: Manifest) -> str:
    value = at(obj, "spec", field)
    return "N/A" if value is None else str(value)


def _last_schedule(obj: Manifest, now: float) -> str:
    last = at(obj, "status", "lastScheduleTime")
    return NONE if last is None else since(last, now)


def _of_jobs(value: Callable[[Manifest, float], str]) -> Callable[[Manifest, float], str]:
    """A column's value of the Jobs that an object makes."""
    return lambda obj, now: value({"spec": at(obj, "spec", "jobTemplate", "spec") or {}}, now)


_DESIRED = number("Desired", "spec", "replicas")

CONTROLLER_REVISION = (
    NAME,
    text("Controller", _controller),
    text("Revision", lambda obj, now: str(obj.get("revision", 0))),
    AGE,
)
DEPLOYMENT = (
    NAME,
    text("Ready", lambda obj, now: _of(obj, "readyReplicas", "replicas")),
    text("Up-to-date", lambda obj, now: at(obj, "status", "updatedReplicas") or 0),
    text("Available", lambda obj, now: at(obj, "status", "availableReplicas") or 0),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)
REPLICA_SET = (
    NAME,
    _DESIRED,
    number("Current", "status", "replicas"),
    number("Ready", "status", "readyReplicas"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)
STATEFUL_SET = (NAME, text("Ready", lambda obj, now: _of(obj, "readyReplicas", "replicas")), AGE, CONTAINERS, IMAGES)
DAEMON_SET = (
    NAME,
    number("Desired", "status", "desiredNumberScheduled"),
    number("Current", "status", "currentNumberScheduled"),
    number("Ready", "status", "numberReady"),
    number("Up-to-date", "status", "updatedNumberScheduled"),
    number("Available", "status", "numberAvailable"),
    text("Node Selector", lambda obj, now: labels_text(at(obj, "spec", "template", "spec", "nodeSelector"))),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)
JOB = (
    NAME,
    text("Status", _job_status),
    text("Completions", _completions),
    text("Duration", _job_duration),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)
CRON_JOB = (
    NAME,
    field("Schedule", "spec", "schedule"),
    field("Timezone", "spec", "timeZone", default=NONE),
    text("Suspend", lambda obj, now: "True" if at(obj, "spec", "suspend") else "False"),
    text("Active", lambda obj, now: len(sequence(obj, "status", "active"))),
    text("Last Schedule", _last_schedule),
    AGE,
    text("Containers", _of_jobs(containers), wide=True),
    text("Images", _of_jobs(images), wide=True),
    text("Selector", _of_jobs(lambda obj, now: selector_text(at(obj, "spec", "selector"))), wide=True),
)
DISRUPTION_BUDGET = (
    NAME,
    text("Min Available", lambda obj, now: _limit("minAvailable", obj)),
    text("Max Unavailable", lambda obj, now: _limit("maxUnavailable", obj)),
    number("Allowed Disruptions", "status", "disruptionsAllowed"),
    AGE,
)
