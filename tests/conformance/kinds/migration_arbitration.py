"""Kinds of migration_arbitration.json: order of jobs, limits, and whether a pod may be moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.conformance.reading import Unreadable, no_matter, one_of, plain

from cotenant.model.cluster.labels import Labels
from cotenant.model.groups.migration import JobPhase
from cotenant.policy.rebalance.migration.arbitration import (
    ArbitrationVerdict,
    MoveJob,
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
from cotenant.policy.rebalance.migration.evictable import EvictionFacts, EvictionFilter, EvictionGate
from cotenant.policy.rebalance.migration.object_limiter import ObjectLimit, ObjectLimiter
from cotenant.policy.rebalance.migration.workload_limits import (
    MovingWorkload,
    ReplicaShare,
    admits_one_more,
    has_expected_replicas,
    limit_of_replicas,
    workload_refuses,
)


def _jobs(given: Mapping[str, Any]) -> list[MoveJob]:
    return [
        MoveJob(entry["name"], entry.get("created", 0), "uid", entry.get("pod", ""), entry.get("batch_job", ""))
        for entry in given["jobs"]
    ]


def _names(jobs: list[MoveJob]) -> list[str]:
    return [job.name for job in jobs]


def _share(value: Any) -> ReplicaShare | None:
    return None if value is None else ReplicaShare.parse(value, "value")


def sort_by_pod(case: Any) -> Iterator[tuple[str, Any, Any]]:
    rank = {entry["name"]: entry["pod_rank"] for entry in case.given["jobs"] if entry["pod_rank"] is not None}
    yield "order", case.expect["order"], _names(by_pod(_jobs(case.given), rank))


def sort_by_creation(case: Any) -> Iterator[tuple[str, Any, Any]]:
    yield "order", case.expect["order"], _names(by_creation(_jobs(case.given)))


def sort_by_moving(case: Any) -> Iterator[tuple[str, Any, Any]]:
    got = by_moving(_jobs(case.given), plain(case.given.get("already_migrating_per_batch_job", {})))
    yield "order", case.expect["order"], _names(got)


def sort_adjacent(case: Any) -> Iterator[tuple[str, Any, Any]]:
    yield "order", case.expect["order"], _names(adjacent(_jobs(case.given)))


def sort_chain(case: Any) -> Iterator[tuple[str, Any, Any]]:
    stages = {
        "pod-name": lambda jobs: sorted(jobs, key=lambda job: job.pod_key),
        "last-character-of-pod-name": lambda jobs: sorted(jobs, key=lambda job: job.pod_key[-1]),
    }
    unknown = set(case.given["stages"]) - stages.keys()
    if unknown:
        raise Unreadable(f"the stages {sorted(unknown)} are not known")
    got = chain(_jobs(case.given), [stages[name] for name in case.given["stages"]])
    yield "order", case.expect["order"], _names(got)


def migrating(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    no_matter(given, "pending")  # a pending job counts once it has passed
    yield "count", case.expect["count"], moving_count(given.get("running", 0), given.get("passed_pending", 0))


def arbitration_verdict(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    no_matter(given, "retryable_ok")  # asked only of a pod that passed before
    got = verdict(bool(given["pod_exists"]), bool(given["non_retryable_ok"]), lambda: bool(given["retryable_ok"]))
    yield "failed", case.expect["failed"], got is ArbitrationVerdict.FAILED
    yield "passed", case.expect["passed"], got is ArbitrationVerdict.PASSED


def arbitration_round(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    jobs = [MoveJob(name, 0.0, "uid") for name in given["jobs"]]
    for_good, for_now = given.get("fails_non_retryable", ()), given.get("fails_retryable", ())
    found = arbitrate(jobs, lambda job: job.name not in for_good, lambda job: job.name not in for_now)
    for key in ("waiting", "passed", "failed"):
        yield key, case.expect[key], [name for name, entry in found.items() if entry == key]


def max_migrating(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    gate = SCOPES[one_of(given, "scope", SCOPES)]
    others = given.get("migrating", 0) - bool(given["candidate_is_one_of_them"])
    got = admits_one_more(given["max"], others if given.get("same_scope", True) else 0)
    yield "passes", case.expect["passes"], got or gate in _skipped(given)


def per_workload(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    pods = [f"m{i}" for i in range(given.get("migrating", 0))]
    uid = pods[0] if given["candidate_is_one_of_migrating"] and pods else "other"
    same = given.get("same_workload", True)
    away = [f"u{i}" for i in range(given.get("unavailable", 0))]
    state = MovingWorkload(given["replicas"], pods if same else [], away if same else [])
    skip = _skipped(given)
    got = workload_refuses(
        uid,
        state,
        _share(given["max_migrating"]),
        _share(given["max_unavailable"]),
        checks_moving=EvictionGate.MAX_MOVING not in skip,
        checks_unavailable=EvictionGate.MAX_UNAVAILABLE not in skip,
    )
    yield "passes", case.expect["passes"], not got


def limit(case: Any) -> Iterator[tuple[str, Any, Any]]:
    yield "limit", case.expect["limit"], limit_of_replicas(_share(case.given["value"]), case.given["replicas"])


def expected_replicas(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    got = has_expected_replicas(given["replicas"], _share(given["max_migrating"]), _share(given["max_unavailable"]))
    skips = bool(given["skip_check"]) or EvictionGate.EXPECTED_REPLICAS in _skipped(given)
    yield "passes", case.expect["passes"], got or skips


def eviction_cost(case: Any) -> Iterator[tuple[str, Any, Any]]:
    facts = EvictionFacts("default", Labels(), 0, "ReplicaSet", eviction_cost=case.given.get("cost", 0), replicas=3)
    yield "passes", case.expect["passes"], not EvictionFilter().refuses(facts)


def already_migrating(case: Any) -> Iterator[tuple[str, Any, Any]]:
    def key(pod: Mapping[str, Any]) -> str:
        return f"{pod['namespace']}/{pod['name']}"

    jobs = [
        (
            MoveJob("j", 0.0, entry["pod"].get("uid", ""), key(entry["pod"])),
            JobPhase(entry.get("phase", "") or "Pending"),
        )
        for entry in case.given.get("jobs", ())
    ]
    pod = case.given["pod"]
    yield "passes", case.expect["passes"], not is_moving_already(pod.get("uid", ""), key(pod), jobs)


def object_limiter(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    waits = False
    # Of a scope without a limit.
    no_matter(given, "evicted_from_same_namespace", "evicted_from_same_workload", "replicas", "evicted")
    no_matter(given, "seconds_since_eviction")
    for scope, limit in given.get("limits", {}).items():
        if scope not in ("workload", "namespace"):
            raise Unreadable(f"the scope {scope!r} of a limit is not known")
        limit = limit or {}
        share, burst = _share(limit.get("max_migrating")), limit.get("burst") or 1
        limiter = ObjectLimiter(ObjectLimit(limit.get("duration_s") or 0, share, burst))
        evicted = given.get("evicted", 0) * bool(given.get(f"evicted_from_same_{scope}", True))
        replicas = given["replicas"] if scope == "workload" else 10**9
        for _ in range(evicted):
            limiter.moved("it", replicas, 0.0)
        waits = waits or limiter.must_wait("it", replicas, given["seconds_since_eviction"])
    yield "wait", case.expect["wait"], waits


SCOPES = {"global": EvictionGate.GLOBALLY, "node": EvictionGate.PER_NODE, "namespace": EvictionGate.PER_NAMESPACE}


def _skipped(given: Mapping[str, Any]) -> list[EvictionGate]:
    """Gates that are not asked. Those of other questions change nothing here."""
    return [EvictionGate(name) for name in given.get("skip_gates", ())]


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
