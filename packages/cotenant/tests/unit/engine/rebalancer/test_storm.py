"""A storm of jobs under one disruption budget, with the real arbiter: each has its turn, and none ends for want of time
because others were first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from tests.fakes.processes.migration_world import MigrationWorld, PassAll

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.migration.contracts import MigrationSettings
from cotenant.engine.rebalancer.arbiter import ClusterArbiter
from cotenant.engine.rebalancer.settings import MoveLimits, RebalancerSettings
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod, OwnedBy, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.migration import JobMode, JobPhase, MigrationJob, PodRef
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.policy.rebalance.loads.pools import NodePool
from cotenant.policy.rebalance.loads.thresholds import Percentages
from cotenant.policy.rebalance.migration.arbitration import ArbitrationVerdict
from cotenant.policy.rebalance.migration.evictable import EvictionFilter
from cotenant.policy.rebalance.migration.object_limiter import ObjectLimit
from cotenant.policy.rebalance.migration.workload_limits import ReplicaShare

PODS = 12
FREE = MigrationSettings(per_minute=None, per_workload=ObjectLimit(0.0))
LOOSE = EvictionFilter(max_moving=ReplicaShare(PODS - 1), max_unavailable=ReplicaShare(PODS - 1))
SETTINGS = RebalancerSettings(
    (NodePool("p", Percentages({"cpu": 30}, {"cpu": 60})),), filter=LOOSE, limits=MoveLimits(per_node=None)
)


@dataclass
class OneAtATime(PassAll):
    """The real arbiter over the pods of a world, with one budget that allows one pod to be away."""

    world: MigrationWorld

    def arbitrate(
        self, pending: Sequence[MigrationJob], moving: Sequence[MigrationJob], now_s: float
    ) -> Mapping[str, tuple[ArbitrationVerdict, str]]:
        made = Cluster(profile("kube-default"), np.random.default_rng(0), EngineSettings(schedulers=("cotenant",)))
        for name in ("old-node", "new-node", "other-node"):
            made.node_seen(Node(name, Amounts.of({"cpu": 10_000, "memory": 1 << 36, "pods": 50})))
        owned = (OwnedBy("apps/v1", "ReplicaSet", "rs", "rs", True),)
        for facts in self.world.pods.values():
            pod = Pod(facts.ref.name, requests=Amounts.of({"cpu": 100}))
            phase = PodPhase.RUNNING if facts.ready else PodPhase.PENDING
            made.pod_seen(ObservedPod(pod, facts.ref.uid, "cotenant", 0.0, facts.node, phase, owned_by=owned), 0.0)
        made.budget_seen(DisruptionBudget("default", "all", LabelSelector(), int(self.world.budget())))
        ready = {key: facts.ready for key, facts in self.world.pods.items()}
        arbiter = ClusterArbiter(
            made, SETTINGS, {"rs": PODS}, lambda key: EvictionNotes(is_ready=ready.get(key, False))
        )
        return arbiter.arbitrate(pending, moving, now_s)


@pytest.mark.parametrize("mode", list(JobMode))
def test_each_job_under_one_budget_has_its_turn(mode: JobMode) -> None:
    world = MigrationWorld(replicas=PODS, settings=FREE)
    world.arbiter = OneAtATime(world)
    world.budget = lambda: sum(pod.ready and not pod.terminating for pod in world.pods.values()) >= PODS
    world.restart()
    for i in range(1, PODS + 1):
        made = world.job(
            name=f"job-{i}", uid=f"job-uid-{i}", pod=PodRef("default", f"web-{i}", f"u{i}"), ttl_s=60.0, mode=mode
        )
        world.jobs[made.name] = made
        world.jobs.pop("job")
    phases: Counter[JobPhase] = Counter()
    for _ in range(40 * PODS):
        world.run(1)
        phases = Counter(job.phase for job in world.jobs.values())
        if all(phase.is_final for phase in phases):
            break
    assert phases == {JobPhase.SUCCEEDED: PODS}, {job.message for job in world.jobs.values()}
    assert world.min_ready >= PODS - 1
