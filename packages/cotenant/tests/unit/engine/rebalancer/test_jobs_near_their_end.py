"""Pods of Jobs that have ended are not lacking: what the rebalancer expects is what the Job controller keeps
running.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.processes.plain_cluster import PlainCluster, template
from tests.property.few import examples

from cotenant.drivers.kube.kinds.workloads import WorkloadObject, replicas_of
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.rebalancer.round_limits import RoundLimits
from cotenant.engine.rebalancer.settings import MoveLimits, RebalancerSettings
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, OwnedBy, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.policy.rebalance.loads.pools import NodePool
from cotenant.policy.rebalance.loads.thresholds import Percentages
from cotenant.policy.rebalance.migration.evictable import EvictionFilter
from cotenant.policy.rebalance.migration.workload_limits import ReplicaShare
from cotenant_local.controllers.runtime.actions import JOBS, PODS
from cotenant_local.controllers.workloads.job import finished, reconcile

POOL = NodePool("p", Percentages({"cpu": 30}, {"cpu": 60}))


class Work:
    """A Job under its controller; its pods run as soon as they are created."""

    def __init__(self, parallelism: int, completions: int | None) -> None:
        self.objects = PlainCluster()
        spec: dict[str, Any] = {"parallelism": parallelism, "template": template(restartPolicy="Never")}
        if completions is not None:
            spec["completions"] = completions
        self.objects.put(JOBS, {"metadata": {"name": "work"}, "spec": {**spec, "backoffLimit": 1000}})
        self.settle()

    def settle(self) -> None:
        """The controller does all that is due, after every back-off."""
        self.objects.now_s += 1000.0
        self.objects.converge(
            lambda: reconcile(self.objects.view(JOBS, "work"), self.objects.views(PODS), self.objects.now_s), limit=50
        )
        for pod in self.active():
            self.objects.kubelet(pod.metadata.name)

    def active(self) -> list[Any]:
        return [pod for pod in self.objects.views(PODS) if pod.active]

    def is_over(self) -> bool:
        return finished(self.objects.view(JOBS, "work")) is not None

    def wanted(self) -> int:
        return replicas_of(msgspec.convert(self.objects.objects[JOBS, "default", "work"], WorkloadObject))

    def limits(self, max_unavailable: ReplicaShare | None, unready: frozenset[str]) -> tuple[Cluster, RoundLimits]:
        """An engine with every pod of the Job, ended ones too, and the limits of a round."""
        made = Cluster(profile("kube-default"), np.random.default_rng(0), EngineSettings(schedulers=("cotenant",)))
        made.node_seen(Node("a", Amounts.of({"cpu": 100_000, "memory": 1 << 36, "pods": 500})))
        for pod in self.objects.views(PODS):
            name, uid = pod.metadata.name, pod.metadata.uid
            owner = OwnedBy("batch/v1", "Job", "work", "uid-work", True)
            phase = PodPhase(pod.status.phase)
            made.pod_seen(ObservedPod(Pod(name), uid, "cotenant", 0.0, "a", phase, owned_by=(owner,)), 0.0)
        limits = RoundLimits(
            made,
            RebalancerSettings(
                (POOL,),
                filter=EvictionFilter(max_moving=ReplicaShare(1000), max_unavailable=max_unavailable),
                limits=MoveLimits(per_node=None),
            ),
            {"uid-work": self.wanted()},
            lambda key: EvictionNotes(is_ready=key.removeprefix("default/") not in unready),
        )
        return made, limits


def test_the_last_pods_of_a_job_may_move() -> None:
    work = Work(parallelism=5, completions=10)
    for _ in range(7):
        work.objects.kubelet(work.active()[0].metadata.name, "Succeeded")
        work.settle()
    assert (len(work.active()), work.wanted()) == (3, 3)
    made, limits = work.limits(ReplicaShare(1), frozenset())
    first, second, third = [pod_info for pod_info in made.every_pod() if not pod_info.seen.phase.is_final]
    assert limits.refuses(first, "a") == ""
    limits.moved(first, "a")
    assert limits.refuses(second, "a") == limits.refuses(third, "a")
    assert limits.refuses(second, "a") == "1 of 3 replicas are moving or unavailable, at most 1 may"


def test_a_failed_pod_whose_successor_waits_out_its_back_off_is_lacking() -> None:
    work = Work(parallelism=3, completions=10)
    work.objects.kubelet(work.active()[0].metadata.name, "Failed")
    made, limits = work.limits(ReplicaShare(1), frozenset())
    moving = next(pod_info for pod_info in made.every_pod() if not pod_info.seen.phase.is_final)
    assert limits.refuses(moving, "a") == "1 of 3 replicas are moving or unavailable, at most 1 may"


@settings(deadline=None, max_examples=examples(40))
@given(st.data())
def test_what_is_expected_is_what_the_controller_runs(data: st.DataObject) -> None:
    """Whatever has ended, exactly as many pods may move as the limit leaves beside the pods that are not ready."""
    parallelism = data.draw(st.integers(1, 6))
    work = Work(parallelism, data.draw(st.none() | st.integers(1, 12)))
    for _ in range(data.draw(st.integers(0, 5))):
        ends = data.draw(st.lists(st.sampled_from(["", "Succeeded", "Failed"]), max_size=parallelism))
        for pod, end in zip(work.active(), ends, strict=False):
            if end:
                work.objects.kubelet(pod.metadata.name, end)
        work.settle()
        if work.is_over():
            return
        running = [pod.metadata.name for pod in work.active()]
        assert work.wanted() == len(running)
        most = data.draw(st.integers(1, 4))
        unready = frozenset(data.draw(st.sets(st.sampled_from(running), max_size=3)))
        made, limits = work.limits(ReplicaShare(most), unready)
        moved = 0
        for entry in sorted(made.every_pod(), key=lambda pod_info: pod_info.seen.pod.name):
            is_candidate = not entry.seen.phase.is_final and entry.seen.pod.name not in unready
            if is_candidate and not limits.refuses(entry, "a"):
                limits.moved(entry, "a")
                moved += 1
        assert moved == max(0, min(most, len(running)) - len(unready))


@pytest.mark.parametrize(
    ("spec", "status", "wanted"),
    [
        ({"parallelism": 3, "completions": 10}, {"succeeded": 6}, 3),
        ({"parallelism": 3, "completions": 10}, {"succeeded": 8}, 2),
        ({"parallelism": 3, "completions": 10}, {"succeeded": 11}, 0),
        ({"parallelism": 5, "completions": 6}, {"succeeded": 1, "failedIndexes": "0,2-3,x,5-4"}, 2),
        ({"parallelism": 4}, {"succeeded": 1, "active": 2}, 2),
        ({"parallelism": 4}, {"succeeded": 1}, 0),
        ({"parallelism": 4}, {"active": 2}, 4),
        ({"parallelism": 4, "completions": 1}, None, 1),
    ],
)
def test_the_pods_that_a_job_still_wants(spec: dict[str, int], status: dict[str, Any] | None, wanted: int) -> None:
    assert replicas_of(msgspec.convert({"spec": spec, "status": status}, WorkloadObject)) == wanted
