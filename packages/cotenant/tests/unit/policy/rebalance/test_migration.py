"""Limits, filters and order of moves, beyond the upstream cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.migration import JobPhase
from cotenant.policy.rebalance.migration.arbitration import (
    ArbitrationVerdict,
    MoveJob,
    arbitrate,
    in_order,
    is_moving_already,
)
from cotenant.policy.rebalance.migration.evictable import NEVER_COST, EvictionFacts, EvictionFilter, EvictionGate
from cotenant.policy.rebalance.migration.object_limiter import ObjectLimit, ObjectLimiter
from cotenant.policy.rebalance.migration.workload_limits import (
    MovingWorkload,
    ReplicaShare,
    has_expected_replicas,
    limit_of_replicas,
    workload_refuses,
)

POD = EvictionFacts("default", Labels.of({"app": "a"}), 100, "ReplicaSet", replicas=5)


@pytest.mark.parametrize(
    ("change", "settings", "reason"),
    [
        ({}, {}, ""),
        ({"owner_kind": "", "replicas": None}, {}, "no controller would create it again"),
        ({"owner_kind": "", "replicas": None}, {"evicts_bare_pods": True}, ""),
        ({"owner_kind": "DaemonSet"}, {"evicts_bare_pods": True}, "it belongs to a DaemonSet"),
        ({"owner_kind": "DaemonSet", "forced": True}, {}, "it belongs to a DaemonSet"),
        ({"is_static": True, "forced": True}, {}, "it is a static pod"),
        ({"terminating": True}, {}, "it is terminating"),
        ({"finished": True}, {}, "it has finished"),
        ({"has_local_storage": True}, {}, "it has local storage"),
        ({"has_local_storage": True, "forced": True}, {}, ""),
        ({"has_local_storage": True}, {"skip": frozenset({EvictionGate.LOCAL_STORAGE})}, ""),
        ({"has_local_storage": True}, {"evicts_local_storage": True}, ""),
        ({"has_claims": True}, {}, ""),
        ({"has_claims": True}, {"ignores_claims": True}, "it has a persistent volume claim"),
        ({"priority": 2_000_000_000}, {}, "it is critical for the system"),
        ({"priority": 2_000_000_000}, {"evicts_system_critical": True}, ""),
        ({"priority": 9500}, {"priority_threshold": 9000}, "its priority 9500 is not below 9000"),
        ({"eviction_cost": NEVER_COST}, {}, "its eviction cost forbids eviction"),
        ({"namespace": "kube-system"}, {"exclude": ("kube-system",)}, "namespace kube-system is excluded"),
        ({"namespace": "b"}, {"include": ("a",)}, "namespace b is excluded"),
        ({}, {"selector": LabelSelector.of({"app": "b"})}, "the labelSelector does not select it"),
        ({"replicas": 1}, {}, "its workload has one replica"),
        ({"replicas": 2}, {"max_unavailable": ReplicaShare(2)}, "all 2 replicas of its workload might move at once"),
        ({"replicas": None}, {}, "the replicas of its ReplicaSet are not known"),
        ({"replicas": 1}, {"checks_replicas": False}, ""),
    ],
)
def test_why_a_pod_may_not_be_moved(change: dict[str, object], settings: dict[str, object], reason: str) -> None:
    assert EvictionFilter(**settings).refuses(replace(POD, **change)) == reason  # type: ignore[arg-type]


def test_a_workload_says_how_many_are_away() -> None:
    state = MovingWorkload(10, ["a"], ["b"])
    assert (
        workload_refuses("c", state, ReplicaShare(9), ReplicaShare(2))
        == "2 of 10 replicas are moving or unavailable, at most 2 may"
    )
    assert (
        workload_refuses("c", state, ReplicaShare(1), ReplicaShare(9)) == "1 of 10 replicas are moving, at most 1 may"
    )
    assert not workload_refuses("a", MovingWorkload(10, ["a"], []), ReplicaShare(1), ReplicaShare(1))
    assert not workload_refuses(
        "c", MovingWorkload(10, ["a"], ["a"]), ReplicaShare(9), ReplicaShare(2)
    )  # one pod counts once


@pytest.mark.parametrize("written", ["x%", "%", "5", -1, "-1%"])
def test_a_share_that_cannot_be_read(written: int | str) -> None:
    with pytest.raises(InvalidInput, match="percentage such as"):
        ReplicaShare.parse(written, "maxUnavailablePerWorkload")


def test_a_bucket_is_refilled_at_the_rate_of_the_workload() -> None:
    limiter = ObjectLimiter(ObjectLimit(300.0, ReplicaShare(10, True)))
    limiter.moved("w", 30, 0.0)  # 3 in 300 s
    assert limiter.must_wait("w", 30, 99.0)
    assert not limiter.must_wait("w", 30, 100.0)
    assert not limiter.must_wait("other", 30, 1.0)


def test_jobs_of_the_batch_job_with_most_moving_pods_go_first() -> None:
    jobs = [
        MoveJob("a", 5.0, "1"),
        MoveJob("b", 9.0, "2", batch_job="x"),
        MoveJob("c", 1.0, "3"),
        MoveJob("d", 2.0, "4", batch_job="x"),
    ]
    ordered = in_order(jobs, {"a": 0, "c": 1, "b": 2, "d": 3}, {"x": 1})
    assert [job.name for job in ordered] == ["b", "d", "a", "c"]


def test_each_job_is_asked_after_those_before_it_have_counted() -> None:
    passed: list[str] = []

    def may_now(job: MoveJob) -> bool:
        if len(passed) >= 2:
            return False
        passed.append(job.name)
        return True

    found = arbitrate([MoveJob(str(i), 0.0, "u") for i in range(4)], lambda job: job.name != "0", may_now)
    assert list(found.values()) == [
        ArbitrationVerdict.FAILED,
        ArbitrationVerdict.PASSED,
        ArbitrationVerdict.PASSED,
        ArbitrationVerdict.WAITING,
    ]


def test_an_ended_job_does_not_keep_its_pod() -> None:
    job = MoveJob("j", pod_uid="u", pod_key="default/p")
    assert is_moving_already("u", "x/y", [(job, JobPhase.RUNNING)])
    assert not is_moving_already("u", "default/p", [(job, JobPhase.FAILED)])


@pytest.mark.parametrize("share", [None, ReplicaShare(1), ReplicaShare(10, True)])
def test_of_a_workload_scaled_to_nothing_no_pod_may_move(share: ReplicaShare | None) -> None:
    assert limit_of_replicas(share, 0) == 0
    assert not has_expected_replicas(0, share, share)
    assert "0 of 0 replicas" in workload_refuses("a", MovingWorkload(0, (), ()), share, share)
