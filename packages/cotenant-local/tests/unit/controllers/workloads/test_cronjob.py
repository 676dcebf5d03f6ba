"""CronJobs: what is due, concurrency, deadlines, history."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from cotenant_local.apiserver.schema.kinds.cron_schedule import parse
from cotenant_local.controllers.runtime.actions import Create, Delete, EmitEvent, Patch, Plan
from cotenant_local.controllers.views.core import ConditionView, Meta, OwnerReferenceView
from cotenant_local.controllers.views.scheduled import ActiveJob, CronJob, CronJobSpec, CronJobStatus, JobTemplate
from cotenant_local.controllers.views.workloads import JobStatusView, JobView
from cotenant_local.controllers.workloads.cronjob import due, reconcile

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
NOW_S = START.timestamp() + 90  # one run is due, at 12:01


def cron(last: datetime | None = None, active: tuple[ActiveJob, ...] = (), **spec: Any) -> CronJob:
    template = JobTemplate({"labels": {"a": "b"}, "annotations": {"c": "d"}}, {"template": {}})
    return CronJob(
        Meta("tick", "n", "cron-uid", creation_timestamp=START),
        CronJobSpec(**{"schedule": "* * * * *", "job_template": template, **spec}),
        CronJobStatus(active, last),
    )


def job(name: str, end: str = "", created_s: float = 0.0) -> JobView:
    owner = OwnerReferenceView("CronJob", "tick", "cron-uid", controller=True)
    created = datetime.fromtimestamp(START.timestamp() + created_s, UTC)
    conditions = (ConditionView(end, "True"),) if end else ()
    completed = created if end == "Complete" else None
    status = JobStatusView(conditions=conditions, completion_time=completed)
    return JobView(Meta(name, "n", f"{name}-uid", creation_timestamp=created, owner_references=(owner,)), status=status)


def of(plan: Plan, kind: type[Any]) -> list[Any]:
    return [action for action in plan.actions if isinstance(action, kind)]


def status(plan: Plan) -> Any:
    return of(plan, Patch)[0].body["status"]


def test_a_job_is_created_once_for_its_time() -> None:
    plan = reconcile(cron(), [], NOW_S)
    (created,) = of(plan, Create)
    minute = int(START.timestamp() + 60) // 60
    assert created.obj["metadata"]["name"] == f"tick-{minute}"
    assert created.obj["metadata"]["labels"] == {"a": "b"}
    assert created.obj["metadata"]["annotations"] == {
        "c": "d", "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T12:01:00Z",
    }  # fmt: skip
    assert status(plan) == {"lastScheduleTime": "2026-01-01T12:01:00Z"}
    assert plan.requeue_at_s == START.timestamp() + 120
    again = reconcile(cron(), [job(f"tick-{minute}")], NOW_S)  # its status was not written
    assert not of(again, Create)
    assert status(again)["active"][0]["name"] == f"tick-{minute}"


def test_nothing_is_due_between_times_or_when_suspended() -> None:
    assert not reconcile(cron(START.replace(minute=1)), [], NOW_S).actions
    assert not reconcile(cron(suspend=True), [], NOW_S).actions


@pytest.mark.parametrize(
    ("policy", "created", "deleted"), [("Allow", 1, []), ("Forbid", 0, []), ("Replace", 1, ["running"])]
)
def test_a_job_that_still_runs(policy: str, created: int, deleted: list[str]) -> None:
    plan = reconcile(cron(concurrency_policy=policy), [job("running")], NOW_S)
    assert len(of(plan, Create)) == created
    assert [action.name for action in of(plan, Delete)] == deleted


def test_a_time_past_its_deadline_is_missed() -> None:
    assert not of(reconcile(cron(starting_deadline_seconds=10), [], NOW_S), Create)
    assert of(reconcile(cron(starting_deadline_seconds=40), [], NOW_S), Create)


def test_of_many_missed_times_the_latest_is_run_and_said() -> None:
    now_s = START.timestamp() + 300 * 60 + 5
    plan = reconcile(cron(), [], now_s)
    assert status(plan)["lastScheduleTime"] == "2026-01-01T17:00:00Z"
    assert "TooManyMissedTimes" in [event.reason for event in of(plan, EmitEvent)]


@pytest.mark.parametrize("schedule", ["* * * * *", "0 * * * *", "0 0 1 * *", "@every 7m"])
def test_the_latest_time_is_the_last_of_a_walk(schedule: str) -> None:
    now_s, at_s = NOW_S + 8 * 86_400, NOW_S
    latest = None
    while (following := parse(schedule).after(at_s)) is not None and following <= now_s:
        latest = at_s = following
    found, _ = due(parse(schedule), NOW_S, now_s, "")
    if schedule.startswith("@every"):
        assert found is not None
        assert now_s - 420 < found <= now_s
    else:
        assert found == latest


def test_history_keeps_the_newest_of_each_kind() -> None:
    jobs = [job(f"ok{i}", "Complete", i) for i in range(5)] + [job(f"bad{i}", "Failed", i) for i in range(3)]
    plan = reconcile(cron(START.replace(minute=1), suspend=True), jobs, NOW_S)
    assert [action.name for action in of(plan, Delete)] == ["ok0", "ok1", "bad0", "bad1"]
    assert status(plan)["lastSuccessfulTime"] == "2026-01-01T12:00:04Z"


def test_what_has_ended_is_no_longer_active() -> None:
    plan = reconcile(cron(START.replace(minute=1), (ActiveJob("x", "x-uid"),)), [job("x", "Failed")], NOW_S)
    assert status(plan) == {"active": None}


def test_a_schedule_that_cannot_be_read_is_an_event() -> None:
    plan = reconcile(cron(schedule="every day"), [], NOW_S)
    assert [event.reason for event in of(plan, EmitEvent)] == ["UnparseableSchedule"]
