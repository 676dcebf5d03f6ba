from __future__ import annotations

from tests.unit.policy.quota.shapes import cpu, quota

from cotenant.policy.quota.reclaim import ReclaimJob, reclaim
from cotenant.policy.quota.tree import QuotaTree


def running(*jobs: ReclaimJob, **minima: int) -> QuotaTree:
    tree = QuotaTree([quota(name, minimum) for name, minimum in minima.items()], cpu(100))
    for job in jobs:
        tree.ask(job.quota, job.held)
        tree.use(job.quota, job.held)
    return tree


def job(key: str, of: str, held: int, priority: int = 0, started_us: int = 0, preemptible: bool = True) -> ReclaimJob:
    return ReclaimJob(key, of, cpu(held), priority, started_us, preemptible)


def test_b_gets_its_minimum_back_from_a_by_whole_jobs() -> None:
    jobs = [job("old", "a", 40), job("mid", "a", 30, 0, 5), job("late", "a", 30, 0, 9)]
    tree = running(*jobs, a=50, b=50)
    tree.ask("b", cpu(50))
    told = reclaim(tree, "b", cpu(50), jobs)
    assert told.granted
    assert told.jobs == (jobs[1], jobs[2])
    assert told.reason.text == "b reclaims its guarantee: 50m of cpu"
    for gone in told.jobs:
        tree.release("a", gone.held)
        tree.withdraw("a", gone.held)
    tree.use("b", cpu(50))
    assert reclaim(tree, "b", cpu(1), jobs[:1]).reason.text == "b requests more than its guarantee: 1m of cpu"


def test_the_largest_relative_excess_is_reclaimed_first() -> None:
    jobs = [job("c1", "c", 25, 0, 9), job("a1", "a", 25, 9), job("a2", "a", 25, 9, 1), job("a3", "a", 25, 9, 2)]
    tree = running(*jobs, a=30, b=40, c=10)
    tree.ask("b", cpu(20))
    told = reclaim(tree, "b", cpu(20), jobs)
    assert told.jobs == (jobs[3],)


def test_a_job_that_turns_out_not_to_be_needed_stays() -> None:
    jobs = [job("small", "a", 10), job("large", "a", 90, 1)]
    tree = running(*jobs, a=50, b=50)
    tree.ask("b", cpu(50))
    assert reclaim(tree, "b", cpu(50), jobs).jobs == (jobs[1],)


def test_quotas_within_their_runtime_and_non_preemptible_jobs_are_not_reclaimed() -> None:
    jobs = [job("a1", "a", 50), job("c1", "c", 50, preemptible=False)]
    tree = running(*jobs, a=50, b=50, c=0)
    tree.ask("b", cpu(50))
    told = reclaim(tree, "b", cpu(50), jobs)
    assert (told.granted, told.jobs) == (False, ())
    assert told.reason.text == "b cannot reclaim its guarantee: no borrower can free it: 50m of cpu"


def test_with_headroom_no_job_is_evicted() -> None:
    jobs = [job("a1", "a", 50)]
    tree = running(*jobs, a=20, b=50)
    tree.ask("b", cpu(50))
    told = reclaim(tree, "b", cpu(50), jobs)
    assert (told.granted, told.jobs, told.reason.text) == (True, (), "b has headroom")


def test_inside_a_parent_the_sibling_that_borrowed_gives() -> None:
    tree = QuotaTree(
        [
            quota("p", 60, 60, is_parent=True),
            quota("a", 30, 60, "p"),
            quota("b", 30, 60, "p"),
            quota("other", 40, 100),
        ],
        cpu(100),
    )
    jobs = [job("a1", "a", 30), job("a2", "a", 30, 5), job("o", "other", 40)]
    for held in jobs:
        tree.ask(held.quota, held.held)
        tree.use(held.quota, held.held)
    tree.ask("b", cpu(20))
    assert reclaim(tree, "b", cpu(20), jobs).jobs == (jobs[0],)
