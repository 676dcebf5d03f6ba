"""Moves as receipts: the PodMigrationJobs of a cluster, and the approval of one that waits for it.

An approval ends the pause of the job that was read, in one patch that is refused where it has changed since.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import MERGE_PATCH, Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.migration_job import MIGRATION_JOBS, MigrationJobObject, read_migration_job
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.migration import ALLOWED_BY, JobPhase, JobStep, MigrationJob

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MoveReceipts:
    """Of one cluster."""

    kubeconfig: Path | None = None
    context: str = ""

    def all(self, namespace: str = "") -> Sequence[MigrationJob]:
        """Every move of a pod of this namespace, the newest first; no namespace = of all. Empty where the kind is
        not installed.
        """

        async def ask(client: Client) -> Sequence[MigrationJob]:
            try:
                found = read_jobs(await client.all_of(MIGRATION_JOBS))
            except NotFound:
                return ()
            own = [job for job in found if namespace in ("", job.pod.namespace)]
            return sorted(own, key=lambda job: (-job.created_s, job.name))

        return self._ask(ask)

    def approve(self, name: str, by: str) -> None:
        """Let a suggested move begin. Raises `InvalidInput` for one that does not wait for it."""
        self._ask(lambda client: approve_move(client, name, by))

    def _ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        access = load_access(self.kubeconfig, self.context)

        async def run() -> T:
            async with Client(access, qps=50.0, burst=10, in_flight=2, user_agent="cotenant-receipts") as client:
                return await question(client)

        return asyncio.run(run())


async def approve_move(client: Client, name: str, by: str) -> None:
    """Let a suggested move begin. Raises `InvalidInput` for one that does not wait for it."""
    try:
        job = read_migration_job(await client.get(MIGRATION_JOBS, "", name))
    except NotFound as error:
        raise InvalidInput("NAME", name, "a move", "`cotenant receipts` has them") from error
    if not waits_for_approval(job):
        raise InvalidInput("NAME", name, "a move that waits for approval", f"it is {job.phase.value.lower()}")
    meta = {"uid": job.uid, "resourceVersion": job.version, "annotations": {ALLOWED_BY: by}}
    body: dict[str, object] = {"metadata": meta, "spec": {"paused": False}}
    await client.patch(MIGRATION_JOBS, "", name, body, content_type=MERGE_PATCH)


def waits_for_approval(job: MigrationJob) -> bool:
    """Whether it is a move that the rebalancer suggested and nobody has allowed yet."""
    return job.suggested and job.paused and not job.phase.is_final


def move_state(job: MigrationJob) -> str:
    """How far it is, or what came of it, in a word or two."""
    helped = job.condition(JobStep.HELPED)
    if job.phase is JobPhase.SUCCEEDED and helped is not None:
        return {"True": "helped", "False": "did not help"}.get(helped.status, "not measured")
    if job.phase.is_final:
        return "failed" if job.phase is not JobPhase.SUCCEEDED else "moved"
    return "suggested" if waits_for_approval(job) else job.phase.value.lower()


def who_allowed(job: MigrationJob) -> str:
    """Who allowed it, or what earned it; empty = nobody yet."""
    return job.allowed_by or ("" if job.is_ours else f"whoever made it ({job.created_by or 'a user'})")


def read_jobs(objects: Iterable[MigrationJobObject]) -> list[MigrationJob]:
    """Those that can be read; the others are logged."""
    found = []
    for stored in objects:
        try:
            found.append(read_migration_job(stored))
        except InvalidInput as error:
            _log.warning("%s", error)
    return found
