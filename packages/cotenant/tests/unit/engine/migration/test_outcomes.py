"""Which moves count for the ladder, and which of their jobs are kept as receipts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.engine.migration.outcomes import MAX_RECEIPTS_OF_ALL, RECEIPT_S, judged, kept_receipts
from cotenant.engine.migration.proof import HELPED, NOT_HELPED, NOT_MEASURED, OBJECTIVE_BROKEN
from cotenant.model.autonomy.autonomy import AutonomyRung
from cotenant.model.groups.migration import JobCondition, JobPhase, JobStep, MigrationJob, MoveNote, PodRef
from cotenant.policy.autonomy.ladder import LadderSettings, earned

NOTE = MoveNote("k", "old", "new", "cpu")


def job(at_s: float, status: str, reason: str = HELPED, namespace: str = "shop") -> MigrationJob:
    verdict = JobCondition(JobStep.HELPED, status, reason, since_s=at_s)
    pod = PodRef(namespace, "p", "pu")
    made = MigrationJob(f"{namespace}-{at_s:.0f}", "u", pod, is_ours=True, phase=JobPhase.SUCCEEDED, note=NOTE)
    return replace(made, conditions=(JobCondition(JobStep.EVICTION, "True", since_s=at_s - 5.0), verdict))


def failed(at_s: float, evicted: str) -> MigrationJob:
    conditions = (JobCondition(JobStep.EVICTION, evicted, since_s=at_s),) if evicted else ()
    return replace(job(at_s, "True"), phase=JobPhase.FAILED, conditions=conditions)


@pytest.mark.parametrize(
    ("found", "held"),
    [
        (job(1.0, "True"), [(True, False)]),
        (job(1.0, "False", NOT_HELPED), [(False, False)]),
        (job(1.0, "False", OBJECTIVE_BROKEN), [(False, True)]),
        (job(1.0, "Unknown", NOT_MEASURED), []),
        (failed(1.0, "True"), [(False, False)]),  # the pod is gone, and does not run again
        (failed(1.0, "False"), []),  # a budget kept it where it is
        (failed(1.0, ""), []),  # nobody approved it
        (replace(job(1.0, "True"), phase=JobPhase.RUNNING), []),
        (replace(job(1.0, "True"), is_ours=False), []),
        (replace(job(1.0, "True"), note=None), []),
    ],
)
def test_what_counts(found: MigrationJob, held: list[tuple[bool, bool]]) -> None:
    assert [(outcome.held, outcome.broke_objective) for outcome in judged([found])] == held


def test_nine_that_helped_act_and_one_broken_objective_or_two_in_vain_end_it() -> None:
    good = [job(float(k), "True") for k in range(9)]
    for more, rung in (
        ([], AutonomyRung.ACT),
        ([job(10.0, "False", NOT_HELPED)], AutonomyRung.ACT),
        ([job(10.0, "False", OBJECTIVE_BROKEN)], AutonomyRung.APPROVE),
        ([job(10.0, "False", NOT_HELPED), job(11.0, "False", NOT_HELPED)], AutonomyRung.APPROVE),
        ([job(10.0, "False", NOT_HELPED), failed(11.0, "True")], AutonomyRung.APPROVE),
    ):
        assert earned(judged([*good, *more]), LadderSettings()).rung is rung
    assert earned(judged(good[:8]), LadderSettings()).rung is AutonomyRung.APPROVE


def test_the_newest_of_each_namespace_are_kept_for_a_month() -> None:
    jobs = [job(float(k), "True", namespace=name) for name in ("a", "b") for k in range(30)]
    assert kept_receipts(jobs, 0, 30.0) == frozenset()
    kept = kept_receipts([*jobs, failed(100.0, "")], 20, 30.0)
    assert kept == {f"{name}-{k}" for name in ("a", "b") for k in range(10, 30)}
    assert kept_receipts(jobs, 20, RECEIPT_S + 28.5) == {"a-29", "b-29"}
    many = [job(float(k), "True", namespace=f"n{k}") for k in range(MAX_RECEIPTS_OF_ALL + 5)]
    assert len(kept_receipts(many, 20, 0.0)) == MAX_RECEIPTS_OF_ALL
