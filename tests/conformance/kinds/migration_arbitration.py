"""Kinds of migration_arbitration.json: order of jobs, limits, and whether a pod may be moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cotenant.model.cluster.labels import Labels
from cotenant.model.groups.migration import JobPhase
from cotenant.policy.rebalance.migration.arbitration import (
    Job,
    Verdict,
    adjacent,
    arbitrate,
    by_creation,
    by_moving,
    by_pod,
    chain,
    is_moving_already,
    moving_count,
    verdict,
)
from cotenant.policy.rebalance.migration.evictable import EvictionFacts, EvictionFilter, Gate
from cotenant.policy.rebalance.migration.object_limiter import ObjectLimit, ObjectLimiter
from cotenant.policy.rebalance.migration.workload_limits import (
    Share,
    WorkloadState,
    admits_one_more,
    has_expected_replicas,
    limit_of_replicas,
    workload_refuses,
)


def _jobs(given: Mapping[str, Any]) -> list[Job]:
    return [
        Job(each["name"], each.get("created", 0), "uid", each.get("pod", ""), each.get("batch_job") or "")
        for each in given["jobs"]
    ]


def _names(jobs: list[Job]) -> list[str]:
    return [job.name for job in jobs]


def _share(value: Any) -> Share | None:
    return None if value is None else Share.parse(value, "value")


def sort_by_pod(case: Any) -> Iterator[tuple[str, Any, Any]]:
    rank = {each["name"]: each["pod_rank"] for each in case.given["jobs"]}
    yield "order", case.expect["order"], _names(by_pod(_jobs(case.given), rank))


def sort_by_creation(case: Any) -> Iterator[tuple[str, Any, Any]]:
    yield "order", case.expect["order"], _names(by_creation(_jobs(case.given)))


def sort_by_moving(case: Any) -> Iterator[tuple[str, Any, Any]]:
    got = by_moving(_jobs(case.given), case.given["already_migrating_per_batch_job"])
    yield "order", case.expect["order"], _names(got)


def sort_adjacent(case: Any) -> Iterator[tuple[str, Any, Any]]:
    yield "order", case.expect["order"], _names(adjacent(_jobs(case.given)))


def sort_chain(case: Any) -> Iterator[tuple[str, Any, Any]]:
    stages = {
        "pod-name": lambda jobs: sorted(jobs, key=lambda job: job.pod_key),
        "last-character-of-pod-name": lambda jobs: sorted(jobs, key=lambda job: job.pod_key[-1]),
    }
    got = chain(_jobs(case.given), [stages[name] for name in case.given["stages"]])
    yield "order", case.expect["order"], _names(got)


def migrating(case: Any) -> Iterator[tuple[str, Any, Any]]:
    yield "count", case.expect["count"], moving_count(case.given["running"], case.given["passed_pending"])


def arbitration_verdict(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    got = verdict(given["pod_exists"], given["non_retryable_ok"], lambda: given["retryable_ok"])
    yield "failed", case.expect["failed"], got is Verdict.FAILED
    yield "passed", case.expect["passed"], got is Verdict.PASSED


def arbitration_round(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    jobs = [Job(name, 0.0, "uid") for name in given["jobs"]]
    found = arbitrate(
        jobs,
        lambda job: job.name not in given["fails_non_retryable"],
        lambda job: job.name not in given["fails_retryable"],
    )
    for key in ("waiting", "passed", "failed"):
        yield key, case.expect[key], [name for name, each in found.items() if each == key]


def max_migrating(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    others = given["migrating"] - bool(given["candidate_is_one_of_them"])
    got = admits_one_more(given["max"], others if given["same_scope"] else 0)
    yield "passes", case.expect["passes"], got


def per_workload(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    pods = [f"m{i}" for i in range(given["migrating"])]
    uid = pods[0] if given["candidate_is_one_of_migrating"] else "other"
    same = given["same_workload"]
    away = [f"u{i}" for i in range(given["unavailable"])]
    state = WorkloadState(given["replicas"], pods if same else [], away if same else [])
    skip = given.get("skip_gates", [])
    got = workload_refuses(
        uid,
        state,
        _share(given["max_migrating"]),
        _share(given["max_unavailable"]),
        checks_moving=Gate.MAX_MOVING not in skip,
        checks_unavailable=Gate.MAX_UNAVAILABLE not in skip,
    )
    yield "passes", case.expect["passes"], not got


def limit(case: Any) -> Iterator[tuple[str, Any, Any]]:
    yield "limit", case.expect["limit"], limit_of_replicas(_share(case.given["value"]), case.given["replicas"])


def expected_replicas(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    got = given.get("skip_check", False) or has_expected_replicas(
        given["replicas"], _share(given["max_migrating"]), _share(given["max_unavailable"])
    )
    yield "passes", case.expect["passes"], got


def eviction_cost(case: Any) -> Iterator[tuple[str, Any, Any]]:
    facts = EvictionFacts("default", Labels(), 0, "ReplicaSet", eviction_cost=case.given["cost"], replicas=3)
    yield "passes", case.expect["passes"], not EvictionFilter().refuses(facts)


def already_migrating(case: Any) -> Iterator[tuple[str, Any, Any]]:
    def key(pod: Mapping[str, Any]) -> str:
        return f"{pod['namespace']}/{pod['name']}"

    jobs = [
        (Job("j", 0.0, each["pod"]["uid"], key(each["pod"])), JobPhase(each["phase"] or "Pending"))
        for each in case.given["jobs"]
    ]
    pod = case.given["pod"]
    yield "passes", case.expect["passes"], not is_moving_already(pod["uid"], key(pod), jobs)


def object_limiter(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    waits = False
    for scope, limit in given["limits"].items():
        limiter = ObjectLimiter(ObjectLimit(limit["duration_s"], _share(limit["max_migrating"]), limit.get("burst", 1)))
        evicted = given["evicted"] if given[f"evicted_from_same_{scope}"] else 0
        replicas = given["replicas"] if scope == "workload" else 10**9
        for _ in range(evicted):
            limiter.moved("it", replicas, 0.0)
        waits = waits or limiter.must_wait("it", replicas, given["seconds_since_eviction"])
    yield "wait", case.expect["wait"], waits


KINDS = {
    "sort_jobs_by_pod": sort_by_pod,
    "sort_jobs_by_creation": sort_by_creation,
    "sort_jobs_by_migrating": sort_by_moving,
    "sort_jobs_adjacent": sort_adjacent,
    "sort_jobs_chain": sort_chain,
    "migrating_count": migrating,
    "arbitration_verdict": arbitration_verdict,
    "arbitration_round": arbitration_round,
    "max_migrating": max_migrating,
    "per_workload": per_workload,
    "limit_of_replicas": limit,
    "expected_replicas": expected_replicas,
    "eviction_cost_gate": eviction_cost,
    "already_migrating": already_migrating,
    "object_limiter": object_limiter,
}
