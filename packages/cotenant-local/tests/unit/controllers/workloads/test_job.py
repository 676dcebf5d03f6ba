from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.processes.plain_cluster import PlainCluster, template

from cotenant_local.controllers.runtime.actions import JOBS, PODS, Create, Plan
from cotenant_local.controllers.workloads.job import BACKOFF_S, INDEX, finished, reconcile

NOW = 1_800_000_000.0


class Work:
    def __init__(self, **spec: Any) -> None:
        self.c = PlainCluster(NOW)
        body = {"parallelism": 1, "completions": 1, "template": template("w", restartPolicy="Never"), **spec}
        self.c.put(JOBS, {"metadata": {"name": "work"}, "spec": body})

    def plan(self) -> Plan:
        return reconcile(self.c.view(JOBS, "work"), self.c.views(PODS), self.c.now_s)

    def look(self) -> None:
        self.c.converge(self.plan, limit=10)

    @property
    def job(self) -> Any:
        return self.c.view(JOBS, "work")

    def active(self) -> list[Any]:
        return [p for p in self.c.views(PODS) if p.active]

    def end(self, phase: str, most: int = 100) -> None:
        for pod in self.active()[:most]:
            self.c.kubelet(pod.metadata.name, phase)
        self.look()

    def ended(self) -> tuple[str, str]:
        end = finished(self.job)
        assert end is not None
        return end.type, end.reason


def test_runs_pods_until_enough_have_succeeded() -> None:
    work = Work(parallelism=2, completions=3)
    work.look()
    assert len(work.active()) == 2
    work.end("Succeeded")
    assert len(work.active()) == 1
    assert work.job.status.succeeded == 2
    work.end("Succeeded")
    assert work.ended() == ("Complete", "CompletionsReached")
    status = work.job.status
    assert (status.active, status.succeeded, status.failed) == (0, 3, 0)
    assert status.completion_time is not None
    assert [c.type for c in status.conditions] == ["SuccessCriteriaMet", "Complete"]


def test_failed_pods_are_replaced_with_back_off() -> None:
    work = Work(backoffLimit=5)
    work.look()
    for failures in (1, 2, 3):
        at = work.c.now_s
        work.end("Failed")
        assert not work.active()
        due = at + BACKOFF_S * 2 ** (failures - 1)
        assert work.plan().requeue_at_s == due
        work.c.now_s = due - 0.1
        work.look()
        assert not work.active()
        work.c.now_s = due
        work.look()
        assert len(work.active()) == 1


def test_exceeding_the_back_off_limit_fails_the_job_and_deletes_its_pods() -> None:
    work = Work(parallelism=3, completions=3, backoffLimit=0)
    work.look()
    work.end("Failed", most=1)
    assert work.ended() == ("Failed", "BackoffLimitExceeded")
    assert not work.active()


def test_the_active_deadline_fails_the_job() -> None:
    work = Work(activeDeadlineSeconds=60)
    work.look()
    assert work.plan().requeue_at_s == NOW + 60
    work.c.now_s += 60
    work.look()
    assert work.ended() == ("Failed", "DeadlineExceeded")


def test_a_suspended_job_has_no_pods_and_resets_its_start_time() -> None:
    work = Work(parallelism=2, completions=2)
    work.look()
    work.c.edit(JOBS, "work", {"spec": {"suspend": True}})
    work.look()
    assert not work.active()
    assert work.job.status.start_time is None
    assert [(c.type, c.status) for c in work.job.status.conditions] == [("Suspended", "True")]
    work.c.end_terminating()
    work.c.edit(JOBS, "work", {"spec": {"suspend": False}})
    work.look()
    assert len(work.active()) == 2
    assert [(c.type, c.status) for c in work.job.status.conditions] == [("Suspended", "False")]
    assert work.job.status.start_time is not None


def test_a_finished_job_is_deleted_after_its_ttl() -> None:
    work = Work(ttlSecondsAfterFinished=30)
    work.look()
    work.end("Succeeded")
    assert work.plan().requeue_at_s == NOW + 30
    work.c.now_s += 30
    work.c.execute(work.plan().actions)
    assert not work.c.views(JOBS)


def test_each_indexed_pod_has_its_index_and_a_failed_index_is_retried() -> None:
    work = Work(parallelism=3, completions=4, completionMode="Indexed")
    work.look()
    assert sorted(p.metadata.annotations[INDEX] for p in work.active()) == ["0", "1", "2"]
    first = next(p for p in work.active() if p.metadata.annotations[INDEX] == "1")
    work.c.kubelet(first.metadata.name, "Failed")
    work.c.now_s += BACKOFF_S
    work.look()
    assert sorted(p.metadata.annotations[INDEX] for p in work.active()) == ["0", "1", "2"]
    work.end("Succeeded")
    assert work.job.status.completed_indexes == "0-2"
    work.end("Succeeded")
    assert work.ended() == ("Complete", "CompletionsReached")
    assert work.job.status.completed_indexes == "0-3"


def test_a_work_queue_job_completes_when_one_pod_succeeded_and_all_finished() -> None:
    work = Work(parallelism=3, completions=None)
    work.look()
    work.end("Succeeded", most=1)
    assert finished(work.job) is None
    assert len(work.active()) == 2  # no new one
    work.end("Succeeded")
    assert work.ended() == ("Complete", "CompletionsReached")


def test_reducing_parallelism_deletes_pods() -> None:
    work = Work(parallelism=4, completions=8)
    work.look()
    work.c.edit(JOBS, "work", {"spec": {"parallelism": 1}})
    work.look()
    assert len(work.active()) == 1


def test_without_a_selector_other_pods_are_not_adopted() -> None:
    work = Work()
    work.c.put(PODS, {"metadata": {"name": "free", "labels": {"app": "w"}}, "spec": {}})
    work.look()
    assert work.c.view(PODS, "free").metadata.controller is None
    assert len(work.active()) == 2


@pytest.mark.parametrize("text", ["0-2", "0,2-4,7", ""])
def test_completed_indexes_round_trip(text: str) -> None:
    from cotenant_local.controllers.workloads import job

    assert job._ranges(job._indexes(text, 8)) == text


@pytest.mark.parametrize(("text", "indexes"), [("0-99999999999", {0, 1, 2}), ("x,1,2-x,-", {1}), ("9" * 5000, set())])
def test_completed_indexes_are_bounded_by_the_completions(text: str, indexes: set[int]) -> None:
    from cotenant_local.controllers.workloads import job

    assert job._indexes(text, 3) == indexes


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    parallelism=st.integers(0, 5),
    completions=st.integers(0, 8),
    luck=st.lists(st.booleans(), max_size=30),
    limit=st.integers(0, 4),
)
def test_never_more_pods_than_requested_and_the_job_ends(
    parallelism: int, completions: int, luck: list[bool], limit: int
) -> None:
    work = Work(parallelism=parallelism, completions=completions, backoffLimit=limit)
    flips = iter(luck)
    for _ in range(60):
        plan = work.plan()
        work.c.execute(plan.actions)
        assert len(work.active()) <= parallelism
        won = sum(p.status.phase == "Succeeded" for p in work.c.views(PODS))
        assert won + len(work.active()) <= max(completions, won)
        if finished(work.job) is not None:
            break
        for pod in work.active()[:1]:
            work.c.kubelet(pod.metadata.name, "Succeeded" if next(flips, True) else "Failed")
        work.c.now_s += 700
    assert finished(work.job) is not None or parallelism == 0
    assert not [a for a in work.plan().actions if isinstance(a, Create)] or parallelism == 0
