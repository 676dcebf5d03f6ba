"""Replicas without constraints of their own: spread as kube-scheduler does where the profile or the option says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.cli.main import main
from cotenant.drivers.kube.kinds.parts import OwnerReference
from cotenant.drivers.kube.kinds.pod.affinity import ApiSpreadConstraint
from cotenant.drivers.kube.kinds.pod.by_scheduler import PodsOfScheduler
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodMeta, PodObject, PodSpec
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import PROFILES, profile


def owned(kind: str, controller: bool = True) -> PodObject:
    owners = (OwnerReference(api_version="apps/v1", kind=kind, name="web", uid="u-web", controller=controller),)
    return PodObject(PodMeta(name="p", namespace="d", uid="u", owner_references=owners), PodSpec())


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController", "StatefulSet"])
def test_replicas_know_their_controller_only_where_they_are_spread(kind: str) -> None:
    assert (
        PodReader(by_scheduler={"default-scheduler": PodsOfScheduler(spread_replicas=True)})
        .pod(owned(kind))
        .pod.replica_of
        == "u-web"
    )
    assert PodReader().pod(owned(kind)).pod.replica_of == ""


@pytest.mark.parametrize("pod", [owned("Job"), owned("DaemonSet"), owned("ReplicaSet", controller=False), PodObject()])
def test_other_pods_are_not_spread(pod: PodObject) -> None:
    assert (
        PodReader(by_scheduler={"default-scheduler": PodsOfScheduler(spread_replicas=True)}).pod(pod).pod.replica_of
        == ""
    )


def nodes_of(replica_of: str, pods: int = 4, name: str = "best-fit", **spec: object) -> list[str]:
    engine = Cluster(profile(name), np.random.default_rng(0))
    for i in range(pods):
        size = Amounts.of({"cpu": 8_000, "memory": 16 << 30, "pods": 20})
        engine.node_seen(Node(f"n{i}", size, Labels.of({HOSTNAME: f"n{i}"})))
    for i in range(pods):
        requests = Amounts.of({"cpu": 500, "memory": 1 << 30})
        pod = replace(Pod(f"p{i}", requests=requests, replica_of=replica_of), **spec)
        engine.pod_seen(ObservedPod(pod, f"u{i}", "cotenant", float(i)), 0.0)
    found = [instruction.node for instruction in engine.decide(1.0) if isinstance(instruction, Bind)]
    engine.validate()
    return found


def test_replicas_are_spread_over_hosts_and_packed_without() -> None:
    assert len(set(nodes_of("u-web"))) >= 3  # the profile and a difference of one pod weigh the same on four nodes
    assert len(set(nodes_of(""))) == 1


def test_constraints_of_the_pod_replace_the_defaults() -> None:
    own = ApiSpreadConstraint(topology_key="rack", max_skew=1, when_unsatisfiable="ScheduleAnyway")
    spec = PodSpec(topology_spread_constraints=(own,))
    read = (
        PodReader(by_scheduler={"default-scheduler": PodsOfScheduler(spread_replicas=True)})
        .pod(replace_spec(owned("ReplicaSet"), spec))
        .pod
    )
    assert read.spread
    assert len(set(nodes_of(read.replica_of, spread=read.spread))) == 1


def replace_spec(pod: PodObject, spec: PodSpec) -> PodObject:
    return PodObject(pod.metadata, spec)


def test_only_kube_scheduler_s_profiles_spread_by_themselves() -> None:
    assert [entry.name for entry in PROFILES if entry.default_spread] == ["kube-default", "kube-1.36"]


def test_an_unknown_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scheduler", "--default-spread", "maybe"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("cotenant: --default-spread: ")
    assert said.count("\n") == 1


def test_every_name_has_its_own_profile_and_spread() -> None:
    reader = PodReader(by_scheduler={"b": PodsOfScheduler("kube-default", True), "a": PodsOfScheduler()})
    pods = {
        name: reader.pod(replace_spec(owned("ReplicaSet"), PodSpec(scheduler_name=name))).pod
        for name in ("a", "b", "c")
    }
    assert {name: (pod.scored_by, pod.replica_of) for name, pod in pods.items()} == {
        "a": ("", ""),
        "b": ("kube-default", "u-web"),
        "c": ("", ""),
    }
