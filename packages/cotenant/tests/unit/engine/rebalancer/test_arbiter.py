"""Arbitration over a cluster: filters fail a job, limits make it wait, and what passes counts for the next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.rebalancer.arbiter import ClusterArbiter
from cotenant.engine.rebalancer.settings import MoveLimits, RebalancerSettings
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod, OwnedBy, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.migration import EvictPolicy, JobPhase, MigrationJob, PodRef
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.policy.rebalance.loads.pools import NodePool
from cotenant.policy.rebalance.loads.thresholds import Percentages
from cotenant.policy.rebalance.migration.arbitration import ArbitrationVerdict
from cotenant.policy.rebalance.migration.evictable import EvictionFilter
from cotenant.policy.rebalance.migration.workload_limits import ReplicaShare

LOOSE = EvictionFilter(max_moving=ReplicaShare(3), max_unavailable=ReplicaShare(3))
POOL = NodePool("p", Percentages({"cpu": 30}, {"cpu": 60}))


def cluster(pods: int = 8) -> Cluster:
    made = Cluster(profile("kube-default"), np.random.default_rng(0), EngineSettings(schedulers=("cotenant",)))
    for node in "ab":
        made.node_seen(Node(node, Amounts.of({"cpu": 10_000, "memory": 1 << 36, "pods": 50})))
    for i in range(pods):
        owner = "web" if i % 2 else "other"
        owned = (OwnedBy("apps/v1", "ReplicaSet", owner, f"uid-{owner}", True),)
        pod = Pod(f"p{i}", requests=Amounts.of({"cpu": 100}), labels=Labels.of({"app": owner}), priority=i)
        node = "a" if i < pods // 2 else "b"
        made.pod_seen(ObservedPod(pod, f"u{i}", "cotenant", 0.0, node, PodPhase.RUNNING, owned_by=owned), 0.0)
    return made


def arbiter(made: Cluster, limits: MoveLimits | None = None, **more: Any) -> ClusterArbiter:
    settings = RebalancerSettings((POOL,), filter=replace(LOOSE, **more), limits=limits or MoveLimits(per_node=None))
    return ClusterArbiter(made, settings, {"uid-web": 4, "uid-other": 4}, lambda key: EvictionNotes(is_ready=True))


def job(i: int, **more: Any) -> MigrationJob:
    return MigrationJob(f"job-{i}", f"ju{i}", PodRef("default", f"p{i}", f"u{i}"), created_s=float(i), **more)


def running(i: int, node: str = "a") -> MigrationJob:
    return job(i, phase=JobPhase.RUNNING, node=node)


def passed(found: Any) -> list[str]:
    return [name for name, (verdict, _) in found.items() if verdict is ArbitrationVerdict.PASSED]


def test_what_passes_counts_for_the_next_and_the_least_important_come_first() -> None:
    found = arbiter(cluster(), MoveLimits(per_node=2)).arbitrate([job(i) for i in range(8)], [], 0.0)
    assert sorted(passed(found)) == ["job-0", "job-1", "job-4", "job-5"]
    assert found["job-2"] == (ArbitrationVerdict.WAITING, "2 pods of a are moving, at most 2 may at a time")


def test_moves_under_way_count_also_where_their_pod_is_gone() -> None:
    made = cluster()
    made.pod_gone("u0", 0.0)
    limits = MoveLimits(per_node=1)
    found = arbiter(made, limits).arbitrate([job(1), job(4)], [running(0)], 0.0)
    assert passed(found) == ["job-4"]
    assert passed(arbiter(made, MoveLimits(globally=2)).arbitrate([job(1), job(4)], [running(0)], 0.0)) == ["job-1"]


def test_a_pod_that_moves_already_and_a_filter_fail_a_job() -> None:
    found = arbiter(cluster()).arbitrate([replace(job(1), name="again")], [running(1)], 0.0)
    assert found["again"] == (ArbitrationVerdict.FAILED, "job job-1 moves this pod already")
    found = arbiter(cluster(), exclude=("default",)).arbitrate([job(1)], [], 0.0)
    assert found["job-1"] == (ArbitrationVerdict.FAILED, "namespace default is excluded")


def test_budgets_are_shared_and_a_missing_pod_passes_so_that_its_job_ends() -> None:
    made = cluster()
    made.budget_seen(DisruptionBudget("default", "web", LabelSelector.of({"app": "web"}), 1))
    found = arbiter(made).arbitrate([job(1), job(3), job(99)], [], 0.0)
    assert sorted(passed(found)) == ["job-1", "job-99"]
    words = "1 pod under PodDisruptionBudget default/web is moving, it allows no more at a time"
    assert found["job-3"] == (ArbitrationVerdict.WAITING, words)  # no word of `BUDGET` first: a turn to wait for


def under(pods: int = 4, allowed: int = 1, **more: Any) -> Cluster:
    made = cluster(pods)
    made.budget_seen(DisruptionBudget("default", "all", LabelSelector(), allowed, **more))
    return made


MOVING = "1 pod under PodDisruptionBudget default/all is moving, it allows no more at a time"
SPENT = "PodDisruptionBudget default/all allows no further disruption now"


def test_a_move_takes_from_its_budget_from_its_start_until_its_replacement_is_there() -> None:
    made = under()
    waits = (ArbitrationVerdict.WAITING, MOVING)
    assert arbiter(made).arbitrate([job(1)], [running(0)], 0.0)["job-1"] == waits
    made.budget_seen(DisruptionBudget("default", "all", LabelSelector(), 0, frozenset({"p0"})))  # it is evicted
    assert arbiter(made).arbitrate([job(1)], [running(0)], 0.0)["job-1"] == waits
    made.pod_gone("u0", 0.0)
    assert arbiter(made).arbitrate([job(1)], [running(0)], 0.0)["job-1"] == waits
    bound = replace(running(0), new_pod=PodRef("default", "p2", "u2"))
    assert arbiter(made).arbitrate([job(1)], [bound], 0.0)["job-1"] == waits
    elsewhere = replace(bound, new_pod=PodRef("other", "p2", "u2"), pod=PodRef("other", "p9", "u9"))
    for moving in ([], [elsewhere]):
        assert arbiter(made).arbitrate([job(1)], moving, 0.0)["job-1"] == (ArbitrationVerdict.WAITING, SPENT)
    made.budget_seen(DisruptionBudget("default", "all", LabelSelector(), 1))
    assert passed(arbiter(made).arbitrate([job(1)], [bound], 0.0)) == ["job-1"]


def test_what_the_eviction_api_asks_no_budget_about_is_not_held_by_one() -> None:
    made = under(4, 0)
    made.budget_seen(DisruptionBudget("default", "again", LabelSelector(), 0))
    found = made.find("default/p0")
    assert found is not None
    made.pod_seen(replace(found.seen, phase=PodPhase.PENDING), 0.0)  # on its node, and not started
    assert passed(arbiter(made).arbitrate([job(0), job(1)], [], 0.0)) == ["job-0"]
    for spares, expected in ((True, ["job-1"]), (False, [])):
        made = under(8, 0, spares_unready=spares)
        settings = RebalancerSettings((POOL,), filter=LOOSE, limits=MoveLimits(per_node=None))
        notes = {f"default/p{i}": EvictionNotes(is_ready=i != 1) for i in range(8)}
        one = ClusterArbiter(made, settings, {"uid-web": 4, "uid-other": 4}, notes.__getitem__)
        assert passed(one.arbitrate([job(0), job(1)], [], 0.0)) == expected


def test_the_replicas_of_a_workload() -> None:
    found = arbiter(cluster(), max_moving=ReplicaShare(2)).arbitrate([job(1), job(3), job(5), job(2)], [], 0.0)
    assert sorted(passed(found)) == ["job-1", "job-2", "job-3"]
    assert found["job-5"][1] == "2 of 4 replicas are moving, at most 2 may"


def test_a_pod_under_two_budgets_fails_at_once_unless_it_is_deleted_directly() -> None:
    made = cluster()
    for name in ("one", "two"):
        made.budget_seen(DisruptionBudget("default", name, LabelSelector(), 5))
    found = arbiter(made).arbitrate([job(0), job(1, policy=EvictPolicy.DELETE)], [], 0.0)
    verdict, why = found["job-0"]
    assert verdict is ArbitrationVerdict.FAILED
    assert "default/one, default/two cover this pod" in why
    assert passed(found) == ["job-1"]


def test_the_only_replica_moves_by_a_rollout_where_that_is_configured_whatever_its_budgets_say() -> None:
    made = cluster()
    for name in ("one", "two"):
        made.budget_seen(DisruptionBudget("default", name, LabelSelector.of({"app": "web"}), 0))
    refused = (ArbitrationVerdict.FAILED, "its workload has one replica")
    for is_on in (False, True):
        settings = RebalancerSettings((POOL,), surges=is_on, filter=LOOSE, limits=MoveLimits(per_node=1))
        notes = EvictionNotes(is_ready=True)
        single = ClusterArbiter(made, settings, {"uid-web": 1, "uid-other": 4}, lambda key, notes=notes: notes)
        found = single.arbitrate([job(1)], [], 0.0)["job-1"]
        assert found == ((ArbitrationVerdict.SURGE, "it is the only replica of its workload") if is_on else refused)
    assert (
        single.arbitrate([job(1)], [running(0)], 0.0)["job-1"][0] is ArbitrationVerdict.WAITING
    )  # the node's limit holds
    directly = single.arbitrate([job(1, policy=EvictPolicy.DELETE)], [], 0.0)["job-1"]
    assert directly == refused
