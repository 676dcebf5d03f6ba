"""Whether a move helped, from measurements after it, and how long its kind is left alone otherwise."""

from __future__ import annotations

from dataclasses import replace

from cotenant.engine.migration.proof import FIRST_REST_S, LONGEST_REST_S, Proofs, rests
from cotenant.model.groups.migration import JobCondition, JobPhase, JobStep, MigrationJob, MoveNote, PodRef

NOTE = MoveNote(
    "k",
    "old",
    "new",
    "cpu",
    node_before={"cpu": 80.0},
    node_after={"cpu": 60.0},
    target_before={"cpu": 10.0},
    target_after={"cpu": 30.0},
)
DONE = MigrationJob(
    "job",
    "u",
    PodRef("default", "p", "pu"),
    phase=JobPhase.SUCCEEDED,
    note=NOTE,
    conditions=(JobCondition(JobStep.POD_READY, "True", since_s=1000.0),),
)


def judged(use: dict[str, float | None], until_s: float = 1200.0) -> MigrationJob | None:
    proofs = Proofs(lambda node, resource: use[node], watch_s=180.0)
    now_s = 1000.0
    while now_s <= until_s:
        found = proofs.judge(DONE, now_s)
        if found is not None:
            return found
        now_s += 10.0
    return None


def verdict(job: MigrationJob | None) -> JobCondition:
    assert job is not None
    found = job.condition(JobStep.HELPED)
    assert found is not None
    return found


def test_it_helped_where_half_of_the_expected_relief_is_measured() -> None:
    found = verdict(judged({"old": 70.0, "new": 30.0}))
    assert (found.status, found.since_s) == ("True", 1180.0)
    assert found.message == (
        "cpu of old: 80.0 % before, 70.0 % after (expected 60.0 %); of new: 10.0 % before, 30.0 % after"
    )
    assert verdict(judged({"old": 70.1, "new": 30.0})).status == "False"


def test_it_did_not_help_where_the_target_is_now_as_hot() -> None:
    assert verdict(judged({"old": 60.0, "new": 80.0})).status == "False"


def test_without_measurements_nothing_is_claimed() -> None:
    assert judged({"old": None, "new": 1.0}, 1500.0) is None
    assert verdict(judged({"old": None, "new": 1.0}, 2000.0)).status == "Unknown"


def test_a_verdict_is_given_once_and_only_about_planned_moves() -> None:
    proofs = Proofs(lambda node, resource: 50.0)
    found = judged({"old": 60.0, "new": 30.0})
    assert found is not None
    assert proofs.judge(found, 9000.0) is None
    assert proofs.judge(replace(DONE, note=None), 9000.0) is None
    assert proofs.judge(replace(DONE, phase=JobPhase.FAILED), 9000.0) is None


def jobs(*verdicts: str, kind: str = "k") -> list[MigrationJob]:
    return [
        replace(
            DONE,
            name=f"{kind}-{at}",
            note=replace(NOTE, kind=kind),
            conditions=(JobCondition(JobStep.HELPED, status, since_s=100.0 * at),),
        )
        for at, status in enumerate(verdicts)
    ]


def test_kinds_that_do_not_help_rest_twice_as_long_each_time() -> None:
    assert rests(jobs("False"), 1.0) == {"k": FIRST_REST_S}
    assert rests(jobs("False", "False"), 101.0) == {"k": 100.0 + 2 * FIRST_REST_S}
    assert rests(jobs(*["False"] * 12), 1101.0) == {"k": 1100.0 + LONGEST_REST_S}
    assert rests(jobs("False"), FIRST_REST_S + 1.0) == {}


def test_one_that_helps_ends_the_rest_and_other_kinds_go_on() -> None:
    assert rests(jobs("False", "False", "True"), 201.0) == {}
    assert rests(jobs("False", "Unknown"), 101.0) == {"k": FIRST_REST_S}
    assert set(rests([*jobs("True"), *jobs("False", kind="other")], 1.0)) == {"other"}


def test_one_that_helped_and_broke_an_objective_did_not_help() -> None:
    use = {"old": 60.0, "new": 30.0}
    broken = ["ServiceObjective shop/fast"]
    proofs = Proofs(lambda node, resource: use[node], 180.0, broken=lambda job, now_s: broken[0])
    assert proofs.judge(DONE, 1100.0) is None
    found = verdict(proofs.judge(DONE, 1180.0))
    assert (found.status, found.reason) == ("False", "ObjectiveBroken")
    assert found.message.startswith("ServiceObjective shop/fast burns its budget since the move; cpu of old: 80.0 %")
    broken[0] = ""
    proofs.judge(DONE, 1100.0)
    assert verdict(proofs.judge(DONE, 1180.0)).status == "True"
