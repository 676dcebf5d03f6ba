"""Pods of Kueue: why it holds them, in its own words, and what it gave them is honoured."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import msgspec
import numpy as np
import pytest
import yaml

from cotenant.drivers.kube.kinds.kueue_workload import (
    KUEUE_BETA1,
    KUEUE_BETA2,
    KueueIndex,
    KueueWorkloadObject,
    read_kueue_workload,
)
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.taints import Taint, TaintEffect
from cotenant.model.groups.kueue import KueueWorkload
from cotenant.model.resources import Amounts
from cotenant.policy.placement.gangs.spec import gang_key
from cotenant.policy.placement.profiles import profile

# A single pod that Kueue gates, as its webhook leaves it; and the Workload that its controller makes for it.
GATED = """
apiVersion: v1
kind: Pod
metadata:
  name: train-0
  namespace: team
  uid: 0b1c-pod
  labels: {kueue.x-k8s.io/queue-name: user-queue, kueue.x-k8s.io/managed: "true"}
  finalizers: [kueue.x-k8s.io/managed]
spec:
  schedulerName: cotenant
  schedulingGates: [{name: kueue.x-k8s.io/admission}]
  containers: [{name: main, image: train, resources: {requests: {cpu: "2", memory: 1Gi}}}]
status: {phase: Pending}
"""
PENDING = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: Workload
metadata:
  name: pod-train-0-5ab2f
  namespace: team
  uid: 77aa
  ownerReferences:
  - {apiVersion: v1, kind: Pod, name: train-0, uid: 0b1c-pod, controller: true, blockOwnerDeletion: true}
spec:
  active: true
  queueName: user-queue
  priority: 0
  podSets: [{name: main, count: 1, template: {spec: {containers: [{name: main}]}}}]
status:
  conditions:
  - {type: QuotaReserved, status: "False", reason: Pending, lastTransitionTime: "2026-01-01T00:00:00Z",
     observedGeneration: 1, message: "couldn't assign flavors to pod set main: insufficient unused quota for cpu in
     flavor default-flavor, 1 more needed"}
"""


def doc(text: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(dedent(text))
    return loaded


def workload(text: str, **status: Any) -> KueueWorkload:
    given = doc(text)
    if status:
        given["status"] = status
    return read_kueue_workload(msgspec.convert(given, KueueWorkloadObject, strict=False))


def condition(kind: str, status: str, reason: str, message: str) -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def pod(text: str = GATED, **changes: Any) -> PodObject:
    given = doc(text)
    given["spec"] |= changes.pop("spec", {})
    given["metadata"] |= changes
    return msgspec.convert(given, PodObject, strict=False)


def explained(obj: PodObject, *workloads: KueueWorkload) -> str:
    """The headline of `cotenant explain pod`."""
    reader = PodReader()
    for entry in workloads:
        reader.kueue.put("v1beta2", entry)
    engine = Cluster(profile("first-fit"), np.random.default_rng(0))
    engine.pod_seen(reader.pod(obj), 0.0)
    engine.decide(1.0)
    answer = engine.why.pod(f"{obj.metadata.namespace}/{obj.metadata.name}", 1.0)
    assert answer is not None
    return answer.headline


def test_a_held_pod_has_the_words_of_kueues_condition() -> None:
    said = explained(pod(), workload(PENDING))
    assert "its scheduling gates are closed: kueue.x-k8s.io/admission" in said
    assert "Kueue holds it because couldn't assign flavors to pod set main: insufficient unused quota for cpu" in said
    assert "(QuotaReserved=False, Pending)" in said
    assert "(Workload team/pod-train-0-5ab2f, queue user-queue)" in said


RESERVED = condition("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue cluster-queue")
ADMITTED = condition("Admitted", "True", "Admitted", "The workload is admitted")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, "its Workload has not been judged yet"),
        (
            {
                "conditions": [RESERVED],
                "admissionChecks": [
                    {"name": "prov", "state": "Pending", "message": "Waiting for the capacity to be provisioned"},
                    {"name": "other", "state": "Ready", "message": ""},
                ],
            },
            "because admission check prov is Pending: Waiting for the capacity to be provisioned",
        ),
        (
            {
                "conditions": [
                    condition("QuotaReserved", "False", "Pending", "waiting for quota"),
                    condition("Evicted", "True", "Preempted", "Preempted to accommodate a workload"),
                ]
            },
            "because it was evicted: Preempted to accommodate a workload (Evicted=True, Preempted); waiting for quota",
        ),
        ({"conditions": [RESERVED, ADMITTED]}, "because it is admitted, and the gate is not removed yet"),
        (
            {"conditions": [condition("Finished", "True", "Succeeded", "Job finished successfully")]},
            "because Job finished successfully (Finished=True, Succeeded)",
        ),
        (
            {"conditions": [RESERVED, condition("Admitted", "False", "UnsatisfiedAdmissionChecks", "not all checks")]},
            "because not all checks (Admitted=False, UnsatisfiedAdmissionChecks)",
        ),
    ],
)
def test_each_state_of_a_workload_has_its_sentence(status: dict[str, Any], expected: str) -> None:
    found = workload(PENDING, **(status or {"conditions": []}))
    assert expected in explained(pod(), found)


def test_a_deactivated_workload_and_an_unknown_one() -> None:
    off = doc(PENDING)
    off["spec"]["active"] = False
    off["status"] = {"conditions": [condition("Evicted", "True", "Deactivated", "The workload is deactivated")]}
    found = read_kueue_workload(msgspec.convert(off, KueueWorkloadObject, strict=False))
    assert "its Workload is deactivated: The workload is deactivated" in explained(pod(), found)
    assert "no Workload of it is known: does Kueue run, and is queue user-queue in this namespace?" in explained(pod())


def test_other_gates_are_not_kueues() -> None:
    said = explained(pod(spec={"schedulingGates": [{"name": "example.com/later"}]}), workload(PENDING))
    assert "its scheduling gates are closed: example.com/later" in said
    assert "Kueue holds" not in said


GROUPED = {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/podset": "main"}


def test_pod_groups_of_kueue_are_no_gangs_of_ours() -> None:
    seen = PodReader().pod(pod(labels=GROUPED))
    assert gang_key(seen.pod, seen.demands.gang) == ""
    assert seen.in_queue is not None
    assert seen.in_queue.group == "g"
    found = doc(PENDING)
    found["metadata"] = {"name": "g", "namespace": "team", "uid": "w"}
    group = read_kueue_workload(msgspec.convert(found, KueueWorkloadObject, strict=False))
    assert "(Workload team/g, queue user-queue)" in explained(pod(labels=GROUPED), group)


def test_what_kueue_injects_at_admission_decides_where_the_pod_goes() -> None:
    """Node selectors of flavors and of a topology, and tolerations, are in the pod once its gates are open."""
    admitted = pod(
        annotations={"kueue.x-k8s.io/workload": "pod-train-0-5ab2f", "kueue.x-k8s.io/podset-required-topology": "rack"},
        spec={
            "schedulingGates": [],
            "nodeSelector": {"flavor": "spot", "cloud.example.com/rack": "r2"},
            "tolerations": [{"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}],
        },
    )
    status = {
        "conditions": [RESERVED, ADMITTED],
        "admission": {
            "clusterQueue": "cluster-queue",
            "podSetAssignments": [{"name": "main", "flavors": {"cpu": "spot", "memory": "spot"}, "count": 1}],
        },
    }
    reader = PodReader()
    reader.kueue.put("v1beta1", workload(PENDING, **status))
    engine = Cluster(profile("first-fit"), np.random.default_rng(0))
    size = {"cpu": 8_000, "memory": 16 << 30, "pods": 10}
    for name, labels, taints in (
        ("plain", {}, ()),
        ("other", {"flavor": "spot", "cloud.example.com/rack": "r1"}, ()),
        (
            "right",
            {"flavor": "spot", "cloud.example.com/rack": "r2"},
            (Taint("spot", "true", TaintEffect.NO_SCHEDULE),),
        ),
    ):
        engine.node_seen(Node(name, Amounts.of(size), Labels.of(labels), taints))
    engine.pod_seen(reader.pod(admitted), 0.0)
    assert [entry.node for entry in engine.decide(1.0) if isinstance(entry, Bind)] == ["right"]
    answer = engine.why.pod("team/train-0", 1.0)
    assert answer is not None
    (concern,) = [entry for entry in answer.concerns if entry.kind == "kueue"]
    assert not concern.holds
    assert "Kueue admitted it by cluster-queue, flavors cpu: spot, memory: spot" in concern.words


def test_the_topology_gate_has_its_own_words() -> None:
    gated = pod(spec={"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]})
    found = workload(PENDING, conditions=[RESERVED, ADMITTED])
    assert "it is admitted, and the pod's place in the topology is not assigned yet" in explained(gated, found)


def test_the_newer_version_of_a_workload_counts_and_changes_are_named() -> None:
    index = KueueIndex()
    assert (KUEUE_BETA2.path(), KUEUE_BETA1.path()) == (
        "/apis/kueue.x-k8s.io/v1beta2/workloads",
        "/apis/kueue.x-k8s.io/v1beta1/workloads",
    )
    old = workload(PENDING, conditions=[condition("QuotaReserved", "False", "Pending", "old")])
    new = workload(PENDING, conditions=[condition("QuotaReserved", "False", "Pending", "new")])
    assert index.put("v1beta1", old) == ("Kueue's Workload team/pod-train-0-5ab2f", "Kueue's Workload of 0b1c-pod")
    assert index.put("v1beta2", new)
    assert not index.put("v1beta1", old)
    found = index.of("team", "0b1c-pod", {}, "", (), ())
    assert found is not None
    assert found.workload == new
    assert index.drop("v1beta2", old.key)
    assert index.drop("v1beta1", old.key)
    assert index.of("team", "0b1c-pod", {}, "", (), ()) is None
    assert not index.drop("v1beta1", old.key)


def test_a_pod_of_a_job_is_found_by_the_jobs_uid() -> None:
    found = doc(PENDING)
    found["metadata"]["ownerReferences"][0] |= {"kind": "Job", "uid": "job-uid", "apiVersion": "batch/v1"}
    index = KueueIndex()
    index.put("v1beta2", read_kueue_workload(msgspec.convert(found, KueueWorkloadObject, strict=False)))
    owners = pod(
        ownerReferences=[{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job-uid", "controller": True}]
    ).metadata.owner_references
    in_queue = index.of("team", "another", {}, "", owners or (), ())
    assert in_queue is not None
    assert in_queue.workload is not None
    assert index.depends_on("team", "u", {"kueue.x-k8s.io/queue-name": "q"}, "", owners or (), ()) == (
        "Kueue's Workload of u",
        "Kueue's Workload of job-uid",
    )
    assert index.depends_on("team", "u", {}, "", owners or (), ()) == ()
