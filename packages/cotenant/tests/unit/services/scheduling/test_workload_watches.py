"""Kinds of workloads by declaration, in a scheduler and a rebalancer: also one that nobody knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.fakes.servers.told_watches import ToldWatches, nobody

from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.drivers.kube.kinds.workload.declarations import joined, packaged, read_kind
from cotenant.drivers.kube.kinds.workload.index import WorkloadIndex
from cotenant.drivers.kube.kinds.workload.objects import kind_of
from cotenant.drivers.kube.kinds.workloads import REPLICA_SETS
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Unschedulable
from cotenant.engine.rebalancer.round_limits import RoundLimits, controller
from cotenant.engine.state.reports import NodeReports
from cotenant.model.groups.workload_kind import WorkloadKind
from cotenant.policy.placement.profiles import profile
from cotenant.services.rebalancer.configuration import DEFAULT
from cotenant.services.rebalancer.planning import ClusterReading
from cotenant.services.scheduler.pages.workload import workload_concern
from cotenant.services.scheduling.claims import ClaimBinder
from cotenant.services.scheduling.watches import EngineWatches

OVEN = read_kind(
    """
    kind: Oven
    api: bake.example.com/v1
    plural: ovens
    group: bake.example.com/tray
    role: bake.example.com/role
    replicas: spec.trays|1 * spec.loaves|1
    minimum: spec.loaves|1
    paused: spec.cold|0
    ready: status.baked|0
    """,
    "oven.yaml",
)
KINDS = joined(packaged(), [OVEN])
OVENS: Kind[Any] = kind_of(OVEN)


def of_kind(name: str, group: str) -> Kind[Any]:
    (found,) = (one for one in KINDS if (one.kind, one.group) == (name, group))
    return kind_of(found)


def an_object(name: str, owner: tuple[str, str, str] | None = None, **more: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "ml", "uid": f"uid-{name}", **more.pop("meta", {})}
    if owner is not None:
        api, kind, of = owner
        meta["ownerReferences"] = [
            {"apiVersion": api, "kind": kind, "name": of, "uid": f"uid-{of}", "controller": True}
        ]
    return {"metadata": meta, **more}


def a_pod(name: str, owner: tuple[str, str, str] | None = None, node: str = "", **labels: str) -> dict[str, Any]:
    names = {"tray": "bake.example.com/tray", "role": "bake.example.com/role"}
    written = {names.get(key, key): value for key, value in labels.items()}
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    spec: dict[str, Any] = {"schedulerName": "cotenant", "containers": [{"name": "c", "resources": resources}]}
    if node:
        spec["nodeName"] = node
    return an_object(name, owner, meta={"labels": written}, spec=spec)


OF_OVEN = ("bake.example.com/v1", "Oven", "o")


class Scheduler:
    """The watches and the engine of a scheduler with four small nodes."""

    def __init__(self, kinds: Sequence[WorkloadKind] = KINDS) -> None:
        self.watches = ToldWatches()
        self.engine = Cluster(profile("least-allocated"), np.random.default_rng(1))
        self.reader = PodReader(workloads=WorkloadIndex(kinds))
        claims = ClaimBinder(nobody(), self.reader.volumes)
        EngineWatches(self.watches, self.engine, self.reader, claims, NodeReports(), lambda: 0.0)
        for i in range(4):
            amounts = {"cpu": "1", "memory": "4Gi", "pods": "10"}
            status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
            self.watches.seen(NODES, {"metadata": {"name": f"n{i}"}, "status": status})

    def seen(self, kind: Kind[Any], *objects: dict[str, Any]) -> None:
        for one in objects:
            self.watches.seen(kind, one)

    def decided(self, now_s: float) -> tuple[set[str], set[str]]:
        """Pods that were bound, and why others wait."""
        said = [*self.engine.decide(now_s), *self.engine.decide(now_s + 5.0)]
        self.engine.validate()
        names = {one.key.partition("/")[2] for one in said if isinstance(one, Bind)}
        return names, {one.message for one in said if isinstance(one, Unschedulable)}

    def explained(self, uid: str) -> tuple[str, str, tuple[str, ...]]:
        entry = self.engine.find(uid)
        assert entry is not None
        concern = workload_concern(entry.seen.workload, self.reader.workloads.state)
        assert concern is not None
        return concern.name, concern.words, concern.lines


def test_a_kind_that_nobody_knows_is_placed_as_gangs() -> None:
    s = Scheduler()
    s.seen(OVENS, an_object("o", spec={"trays": 2, "loaves": 2}, status={"baked": 1}))
    s.seen(PODS, a_pod("a0", OF_OVEN, tray="a", role="crust"), a_pod("b0", OF_OVEN, tray="b"))
    bound, why = s.decided(1.0)
    assert bound == set()
    assert why == {f"gang ml/Oven:o:{tray} has 1 of 2 members; waits for 1 more" for tray in ("a", "b")}
    s.seen(PODS, a_pod("a1", OF_OVEN, tray="a"))
    assert s.decided(20.0)[0] == {"a0", "a1"}
    assert s.explained("ml/a0") == (
        "Oven o",
        "it wants 4 pods, 1 are ready",
        ("the pod is its crust", "at least 2 of a group must run together"),
    )


def test_pods_are_read_again_when_their_workload_changes_or_goes() -> None:
    s = Scheduler()
    s.seen(PODS, *(a_pod(f"p{i}", OF_OVEN) for i in range(2)))  # before the object that owns them
    s.seen(OVENS, an_object("o", spec={"loaves": 3}))
    assert s.decided(1.0)[0] == set()
    s.seen(OVENS, an_object("o", spec={"loaves": 2, "cold": True}))
    assert s.decided(20.0)[0] == {"p0", "p1"}
    assert s.explained("ml/p0")[1] == "it wants 2 pods, 0 are ready; it is paused"
    s.watches.gone(OVENS, "ml/o")
    entry = s.engine.find("ml/p0")
    assert entry is not None
    assert entry.seen.workload is None
    s.engine.validate()


def test_without_the_declaration_such_pods_are_placed_one_by_one() -> None:
    s = Scheduler(packaged())
    s.seen(PODS, a_pod("p0", OF_OVEN))
    assert s.decided(1.0)[0] == {"p0"}


def test_a_pod_that_names_a_gang_itself_is_in_that_one() -> None:
    s = Scheduler()
    s.seen(OVENS, an_object("o", spec={"loaves": 9}))
    pod = a_pod("p0", OF_OVEN)
    notes = {"name": "mine", "min-available": "1"}
    pod["metadata"]["annotations"] = {f"gang.scheduling.koordinator.sh/{key}": value for key, value in notes.items()}
    s.seen(PODS, pod)
    assert s.decided(1.0)[0] == {"p0"}


def test_owners_are_walked_to_the_workload_above_all() -> None:
    """Pods name their JobSet by a label, and a TrainJob owns that."""
    s = Scheduler()
    s.seen(of_kind("TrainJob", "trainer.kubeflow.org"), an_object("t", spec={"trainer": {"numNodes": 2}}))
    job_set = {"replicatedJobs": [{"template": {"spec": {"parallelism": 2}}}]}
    owner = ("trainer.kubeflow.org/v1alpha1", "TrainJob", "t")
    s.seen(of_kind("JobSet", "jobset.x-k8s.io"), an_object("j", owner, spec=job_set))
    labels = {"jobset.sigs.k8s.io/jobset-name": "j", "jobset.sigs.k8s.io/replicatedjob-name": "node"}
    s.seen(PODS, a_pod("p0", ("batch/v1", "Job", "j-node-0"), **labels))
    assert s.decided(1.0)[1] == {"gang ml/JobSet:j has 1 of 2 members; waits for 1 more"}
    assert s.explained("ml/p0") == (
        "TrainJob t",
        "it wants 2 pods",
        ("the pod is its node", "it owns the pod through JobSet j"),
    )


def test_owners_in_a_circle_are_refused() -> None:
    s = Scheduler()
    for name, of in (("o", "x"), ("x", "o")):
        s.seen(OVENS, an_object(name, ("bake.example.com/v1", "Oven", of), spec={"loaves": 1}))
    s.seen(PODS, a_pod("p0", OF_OVEN))
    assert s.decided(1.0)[0] == {"p0"}
    name, _, lines = s.explained("ml/p0")
    assert name == "Oven x"
    assert "its owners are not walked further: Oven o is among its own owners" in lines


def test_a_gang_that_waits_says_that_its_owners_are_in_a_circle() -> None:
    s = Scheduler()
    for name, of in (("o", "x"), ("x", "o")):
        s.seen(OVENS, an_object(name, ("bake.example.com/v1", "Oven", of), spec={"loaves": 2}))
    s.seen(PODS, a_pod("p0", OF_OVEN), a_pod("other"))
    bound, why = s.decided(1.0)
    assert bound == {"other"}
    said = "the owners of its pods are not walked further: Oven o is among its own owners"
    assert why == {f"gang ml/Oven:o has 1 of 2 members; waits for 1 more; {said}"}


def test_the_quota_of_a_workload_is_that_of_its_pods() -> None:
    s = Scheduler()
    label = "quota.scheduling.koordinator.sh/name"
    s.seen(OVENS, an_object("o", meta={"labels": {label: "bakery"}}, spec={}))
    s.seen(PODS, a_pod("p0", OF_OVEN), a_pod("p1", OF_OVEN, **{label: "own"}))
    for name, quota in (("p0", "bakery"), ("p1", "own")):
        entry = s.engine.find(f"ml/{name}")
        assert entry is not None
        assert entry.seen.pod.labels.get(label) == quota
        assert dict(entry.seen.settled)[label] == quota  # what is stated with the bind


def test_the_limits_of_a_rebalancer_are_those_of_the_whole_workload() -> None:
    """Two ReplicaSets of one Rollout are one workload, and nothing of it moves while it is paused."""
    watches, plain = ToldWatches(), profile("cotenant-requests")
    reading = ClusterReading(nobody(), watches, plain, {"cotenant": plain}, DEFAULT, now=lambda: 0.0, kinds=KINDS)
    rollouts = of_kind("Rollout", "argoproj.io")
    status = {"allocatable": {"cpu": "8", "memory": "9Gi", "pods": "10"}}
    watches.seen(NODES, {"metadata": {"name": "n"}, "status": status})
    for name in ("old", "new"):
        watches.seen(PODS, a_pod(f"{name}-0", ("apps/v1", "ReplicaSet", name), node="n"))
        watches.seen(REPLICA_SETS, an_object(name, ("argoproj.io/v1alpha1", "Rollout", "r"), spec={"replicas": 1}))
    watches.seen(rollouts, an_object("r", spec={"replicas": 2}))
    entries = tuple(reading.cluster.every_pod())
    assert {(owner.kind, owner.name) for owner in map(controller, entries) if owner is not None} == {("Rollout", "r")}
    limits = RoundLimits(reading.cluster, DEFAULT, {"uid-r": 2}, reading.notes)
    entry = entries[0]
    assert limits.refuses(entry, "n").startswith("2 of 2 replicas are moving or unavailable")
    watches.seen(rollouts, an_object("r", spec={"replicas": 2, "paused": True}))
    (entry,) = (one for one in reading.cluster.every_pod() if one.seen.uid == entry.seen.uid)
    assert limits.refuses(entry, "n") == "Rollout r is paused"
    watches.gone(REPLICA_SETS, "ml/old")
    reading.cluster.validate()
