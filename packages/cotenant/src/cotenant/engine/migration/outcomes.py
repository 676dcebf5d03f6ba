"""Jobs as receipts, and as outcomes of the ladder: what helped, what did not, and what broke an objective."""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan

from cotenant.engine.migration.proof import OBJECTIVE_BROKEN, ended_s
from cotenant.model.groups.migration import JobPhase, JobStep, MigrationJob
from cotenant.policy.autonomy.ladder import JudgedChange

MAX_RECEIPTS = 20  # of a namespace
RECEIPT_S = 30 * 86_400.0
MAX_RECEIPTS_OF_ALL = 2000


def judged(jobs: Iterable[MigrationJob]) -> list[JudgedChange]:
    """One outcome a move that a rebalancer of ours planned: it held where its pod runs again and it helped. One that
    failed after its pod was evicted did not; what was never evicted, or could not be measured, tells nothing.
    """
    return [outcome for job in jobs if (outcome := outcome_of(job)) is not None]


def outcome_of(job: MigrationJob) -> JudgedChange | None:
    """None = none yet, or never."""
    if not job.is_ours or job.note is None or not job.phase.is_final:
        return None
    if job.phase is not JobPhase.SUCCEEDED:
        at_s = ended_s(job)
        return JudgedChange(at_s, held=False) if job.has(JobStep.EVICTION) and not isnan(at_s) else None
    verdict = job.condition(JobStep.HELPED)
    if verdict is None or verdict.status not in ("True", "False") or isnan(verdict.since_s):
        return None
    return JudgedChange(verdict.since_s, verdict.status == "True", verdict.reason == OBJECTIVE_BROKEN)


def kept_receipts(jobs: Iterable[MigrationJob], most: int, now_s: float) -> frozenset[str]:
    """Names of the jobs that are kept for their outcome: the newest of each namespace, and of all."""
    if most == 0:
        return frozenset()
    found = [(outcome.at_s, job) for job in jobs if (outcome := outcome_of(job)) is not None]
    counts: dict[str, int] = {}
    kept: list[str] = []
    for at_s, job in sorted(found, key=lambda dated: (-dated[0], dated[1].name)):
        counts[job.pod.namespace] = counts.get(job.pod.namespace, 0) + 1
        if counts[job.pod.namespace] <= most and now_s - at_s < RECEIPT_S and len(kept) < MAX_RECEIPTS_OF_ALL:
            kept.append(job.name)
    return frozenset(kept)
