"""How often pods are evicted: of the cluster in a minute, of each workload in its own time.

Read from the jobs' conditions, so rates survive a restart. That of a workload is known of jobs that were planned here,
of others only while their pod exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan

from cotenant.engine.migration.contracts import MigrationSettings
from cotenant.engine.migration.instructions import Instruction, PodFacts, WriteStatus
from cotenant.model.groups.migration import JobStep, MigrationJob
from cotenant.policy.rebalance.migration.object_limiter import ObjectLimiter

_MINUTE_S = 60.0


class EvictionRates:
    """The evictions of one cluster."""

    def __init__(self, settings: MigrationSettings) -> None:
        self._settings = settings
        self._limiter = ObjectLimiter(settings.per_workload)
        self._counted: set[str] = set()  # UIDs of jobs whose eviction the limiter knows

    def forget(self, uid: str) -> None:
        """A job is gone."""
        self._counted.discard(uid)

    def recent(self, jobs: Iterable[MigrationJob], now_s: float) -> int:
        """Evictions begun in the last minute; those of an earlier process are counted with their workloads."""
        recent = 0
        for job in sorted(jobs, key=lambda migration_job: migration_job.name):
            began_s = job.began_evicting_s()
            if isnan(began_s):
                continue
            recent += began_s > now_s - _MINUTE_S
            if job.uid not in self._counted and job.note is not None and job.note.workload:
                self._counted.add(job.uid)
                if now_s - began_s < self._settings.per_workload.duration_s:
                    self._limiter.moved(job.note.workload, job.note.replicas, began_s)
        return recent

    def count(self, job: MigrationJob, pod: PodFacts | None, now_s: float) -> None:
        """A job begins to evict its pod."""
        if pod is not None and pod.workload and job.uid not in self._counted:
            self._counted.add(job.uid)
            self._limiter.moved(pod.workload, pod.replicas, now_s)

    def holds_back(self, job: MigrationJob, pod: PodFacts | None, evictions: int, now_s: float) -> str:
        """Why a job may not evict now, `evictions` having begun in the last minute; empty = it may."""
        limit = self._settings.per_minute
        if limit and evictions >= limit:
            return f"{evictions} pods were evicted in the last minute, at most {limit} may be"
        if pod is None or not pod.workload or job.forced:
            return ""
        if self._limiter.must_wait(pod.workload, pod.replicas, now_s):
            return f"its workload was moved less than {self._settings.per_workload.duration_s:.0f} s ago"
        return ""

    def refuses(self, workload: str, replicas: int, more: int, now_s: float) -> str:
        """Why a workload (UID) may not be moved again yet, `more` of its pods being about to be; empty = it may."""
        if self._limiter.must_wait(workload, replicas, now_s, more):
            return f"its workload is moved, or was less than {self._settings.per_workload.duration_s:.0f} s ago"
        return ""


def begins_evicting(job: MigrationJob, write: Instruction | None) -> bool:
    """Whether this write of a job is the one with which it begins to evict."""
    return (
        isinstance(write, WriteStatus)
        and job.condition(JobStep.EVICTION) is None
        and write.job.condition(JobStep.EVICTION) is not None
    )
