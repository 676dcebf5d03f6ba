"""The moves of a pod, for `cotenant explain pod`: from where, why, and what became better.

A person who finds a pod on another node asks what moved it. The PodMigrationJobs about the pod, as the one that was
moved or as its replacement, from the API server.
Limits: jobs are kept for some hours; every job of the cluster is listed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isnan
from pathlib import Path

import msgspec

from cotenant.drivers.kube.client.access import Access, load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import UNREADABLE
from cotenant.drivers.kube.kinds.custom.migration_job import MIGRATION_JOBS, MigrationJobObject, read_migration_job
from cotenant.engine.migration.proof import ended_s
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.model.groups.migration import JobPhase, JobStep, MigrationJob


class _Jobs(msgspec.Struct, frozen=True):
    items: tuple[MigrationJobObject, ...] = ()


@dataclass(frozen=True, slots=True)
class PodMove:
    """One move. `at` is the time of its last step (RFC 3339; of its creation before the first)."""

    job: str
    at: str
    phase: str
    pod: str  # namespace/name of the pod that was moved
    replacement: str  # the same; empty = none yet
    node: str
    target: str  # empty = not known
    why: str
    outcome: str  # why it failed; empty = it did not
    helped: str  # True, False, Unknown; empty = not judged yet, or not planned here
    figures: str

    @property
    def words(self) -> str:
        """A sentence."""
        if self.phase == JobPhase.SUCCEEDED:
            to = f" to {self.target}" if self.target else ""
            by = f" as {self.replacement}" if self.replacement else ""
            said = f"{self.pod} was moved from {self.node}{to}{by}"
        elif self.phase == JobPhase.FAILED:
            said = f"{self.pod} was to be moved from {self.node} and was not: {self.outcome}"
        else:
            said = f"{self.pod} is being moved from {self.node}" if self.node else f"{self.pod} is to be moved"
        return f"{said}; why: {self.why}" if self.why else said

    @property
    def effect(self) -> str:
        """What became better, in words; empty = not known yet."""
        said = {"True": "it helped", "False": "it did not help", "Unknown": "whether it helped is not known"}
        return f"{said[self.helped]}: {self.figures}" if self.helped in said else ""


def moves_of(access: Access, namespace: str, name: str, within_s: float = 5.0) -> tuple[PodMove, ...]:
    """The moves of a pod, oldest first. Raises `CotenantError`."""

    async def fetch() -> bytes:
        async with Client(access, qps=50.0, burst=10, in_flight=1, timeout_s=within_s) as client:
            return await client.request("GET", MIGRATION_JOBS.path())

    try:
        listed = msgspec.json.decode(asyncio.run(fetch()), type=_Jobs)
    except UNREADABLE as error:
        raise InvalidInput("PodMigrationJobs", str(error), "a list") from None
    key = f"{namespace}/{name}"
    found = []
    for entry in listed.items:
        job = read_migration_job(entry)
        if key == job.pod.key or (job.new_pod is not None and key == job.new_pod.key):
            at_s = ended_s(job)
            found.append((job.created_s if isnan(at_s) else at_s, _move(job)))
    return tuple(move for _, move in sorted(found, key=lambda pair: pair[0]))


def known_moves(kubeconfig: Path | None, context: str, namespace: str, name: str) -> tuple[PodMove, ...]:
    """As `moves_of`; none where no API server can be asked or the kind is not installed."""
    try:
        return moves_of(load_access(kubeconfig, context), namespace, name)
    except CotenantError:
        return ()


def _move(job: MigrationJob) -> PodMove:
    helped, placed = job.condition(JobStep.HELPED), job.condition(JobStep.RESERVATION_SCHEDULED)
    target = placed.message.removeprefix("on ") if placed is not None and placed.status == "True" else ""
    at_s = ended_s(job)
    at = datetime.fromtimestamp(job.created_s if isnan(at_s) else at_s, UTC)
    return PodMove(
        job.name,
        at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        str(job.phase),
        job.pod.key,
        job.new_pod.key if job.new_pod is not None else "",
        job.node,
        target,
        job.reason,
        f"{job.status_reason}: {job.message}" if job.phase is JobPhase.FAILED else "",
        helped.status if helped is not None else "",
        helped.message if helped is not None else "",
    )
