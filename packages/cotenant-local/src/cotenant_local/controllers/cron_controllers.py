"""The controller of CronJobs: maps events to keys and gathers the Jobs of each. The rules are in
`workloads/cronjob.py`.
"""

from __future__ import annotations

from cotenant_local.controllers.runtime.actions import CRON_JOBS, JOBS, Plan
from cotenant_local.controllers.runtime.cache import CachedObjects, Key, NamedObject
from cotenant_local.controllers.runtime.controller import GONE, ResourceController
from cotenant_local.controllers.runtime.runner import Enqueue
from cotenant_local.controllers.views.scheduled import CronJob
from cotenant_local.controllers.views.workloads import JobView
from cotenant_local.controllers.workloads import cronjob


class CronJobs(ResourceController):
    """CronJob."""

    resource, name = CRON_JOBS, "cronjob-controller"

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to CronJobs and their Jobs."""
        super().attach(enqueue)
        self._jobs: CachedObjects[JobView] = self._informers.store(JOBS)
        self._informers.of(JOBS).subscribe(self._job)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `cronjob.reconcile`."""
        found: CronJob | None = self._own.store.get(*key)
        if found is None:
            return GONE
        return cronjob.reconcile(found, self._jobs.by("owner", found.metadata.uid), now_s)

    def _job(self, old: NamedObject | None, new: NamedObject | None) -> None:
        seen = new or old
        controller = seen.metadata.controller if seen is not None else None
        if seen is not None and controller is not None and controller.kind == "CronJob":
            self._enqueue((seen.metadata.namespace, controller.name))
