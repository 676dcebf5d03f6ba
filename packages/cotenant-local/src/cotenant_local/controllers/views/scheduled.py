"""Views of CronJobs. Choice and limits as in `views/core.py`."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.views.core import Meta, View


class JobTemplate(View, frozen=True):
    """`jobTemplate`."""

    metadata: Manifest = field(default_factory=dict)
    spec: Manifest = field(default_factory=dict)


class CronJobSpec(View, frozen=True):
    """`spec` of a CronJob."""

    schedule: str = ""
    time_zone: str = ""
    concurrency_policy: str = "Allow"
    suspend: bool = False
    starting_deadline_seconds: int | None = None
    successful_jobs_history_limit: int = 3
    failed_jobs_history_limit: int = 1
    job_template: JobTemplate = JobTemplate()


class ActiveJob(View, frozen=True):
    """An entry of `status.active`."""

    name: str = ""
    uid: str = ""


class CronJobStatus(View, frozen=True):
    """`status` of a CronJob."""

    active: tuple[ActiveJob, ...] = ()
    last_schedule_time: datetime | None = None
    last_successful_time: datetime | None = None


class CronJob(View, frozen=True):
    """A CronJob."""

    metadata: Meta
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
