from __future__ import annotations

import json
from datetime import UTC, datetime
from math import inf

import msgspec
import pytest

from cotenant.drivers.kube.kinds.pod.sized import SizedPodObject, read_sized_pod
from cotenant.model.errors import InvalidInput
from cotenant.model.sizes.container import ContainerProgram, ContainerSize, SizedPod

MIB = 1 << 20


def read(**changed: object) -> SizedPod:
    container = {
        "name": "app",
        "image": "a",
        "command": ["java"],
        "args": ["-Xmx1g"],
        "env": [
            {"name": "A", "value": "1"},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "C"},
        ],
        "envFrom": [{"configMapRef": {"name": "x"}}],
        "resources": {"requests": {"cpu": "1500m"}, "limits": {"cpu": "2", "memory": "1Gi"}},
        "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}],
        **changed,
    }
    status = {
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "no room"},
            {"type": "PodResizeInProgress", "status": "False"},
        ],
        "containerStatuses": [
            {
                "name": "app",
                "restartCount": 2,
                "resources": {"requests": {"cpu": "1"}},
                "lastState": {"terminated": {"reason": "OOMKilled"}},
            }
        ],
    }
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "r", "controller": True}
    obj = {
        "metadata": {"name": "a", "namespace": "ns", "uid": "u", "ownerReferences": [owner]},
        "spec": {"nodeName": "n1", "containers": [container]},
        "status": status,
    }
    return read_sized_pod(msgspec.json.decode(json.dumps(obj), type=SizedPodObject))


def test_a_pod_with_everything() -> None:
    pod = read()
    assert (pod.key, pod.node, pod.owner_kind, pod.owner_name) == ("ns/a", "n1", "ReplicaSet", "web-1")
    assert (pod.is_running, pod.is_ready, pod.pending, pod.pending_why, pod.in_progress) == (
        True, True, "Deferred", "no room", False,
    )  # fmt: skip
    found = pod.containers[0]
    assert found.size == ContainerSize(1500, 2000, 1024 * MIB, 1024 * MIB)  # a limit alone is the request too
    assert found.program == ContainerProgram(("java", "-Xmx1g"), (("A", "1"), ("B", None), ("C", "")), True)
    assert (found.cpu_needs_restart, found.memory_needs_restart) == (False, True)
    assert (found.allocated, found.restarts, found.was_oom_killed) == (ContainerSize(1000), 2, True)


@pytest.mark.parametrize("cpu", ["abc", "-1", "1e30"])
def test_an_amount_that_cannot_be_read_makes_the_pod_unreadable(cpu: str) -> None:
    with pytest.raises(InvalidInput, match=r"container app: cpu|quantity"):
        read(resources={"requests": {"cpu": cpu}})


@pytest.mark.parametrize(
    ("written", "held"),
    [
        ("", ()),
        ('{"cpuset":"0-3"}', ("cpu",)),
        ('{"numaNodeResources":[{"node":0,"resources":{"memory":"1Gi"}}]}', ("memory",)),
        ('{"numaNodeResources":[{"node":0,"resources":{"cpu":"2","memory":"1Gi"}}]}', ("cpu", "memory")),
        ("nonsense", ("cpu", "memory")),
        ("{}", ()),
    ],
)
def test_what_a_scheduler_allocated_by_cpu_or_numa_node(written: str, held: tuple[str, ...]) -> None:
    meta = {"name": "a", "annotations": {"scheduling.koordinator.sh/resource-status": written} if written else None}
    obj = msgspec.json.decode(json.dumps({"metadata": meta}), type=SizedPodObject)
    assert read_sized_pod(obj).allocated_by == held


@pytest.mark.parametrize(
    ("writers", "at_s"),
    [
        ([], -inf),
        ([("kubectl-edit", "", "2026-01-01T00:00:00Z"), ("kubelet", "status", "2026-01-02T00:00:00Z")], -inf),
        ([("cotenant-right-sizing", "resize", "2026-01-02T00:00:00Z")], -inf),
        ([("cotenant-manager", "resize", "2026-01-02T00:00:00Z")], -inf),  # of an earlier version
        ([("vpa-updater", "resize", "2026-01-01T00:00:00Z"), ("kubectl-patch", "resize", "2026-01-02T00:00:00Z")], 1),
        ([("kubectl-patch", "resize", None)], -inf),
    ],
)
def test_when_somebody_else_resized_it_by_what_the_server_notes(
    writers: list[tuple[str, str, str | None]], at_s: float
) -> None:
    noted = [{"manager": who, "subresource": what, "time": at, "fieldsV1": {"f:spec": {}}} for who, what, at in writers]
    obj = {"metadata": {"name": "a", "managedFields": noted}, "spec": {"containers": []}}
    found = read_sized_pod(msgspec.json.decode(json.dumps(obj), type=SizedPodObject)).resized_by_others_s
    assert found == (datetime(2026, 1, 2, tzinfo=UTC).timestamp() if at_s == 1 else at_s)


def of_spec(**spec: object) -> SizedPod:
    obj = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "app"}], **spec}}
    return read_sized_pod(msgspec.json.decode(json.dumps(obj), type=SizedPodObject))


def test_sidecars_and_amounts_of_the_whole_pod_are_known() -> None:
    assert of_spec().is_of_one_container
    assert of_spec(initContainers=[{"name": "i"}]).is_of_one_container  # it is over before
    assert not of_spec(initContainers=[{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]).is_of_one_container
    assert not of_spec().has_pod_resources
    assert not of_spec(resources={}).has_pod_resources
    assert of_spec(resources={"limits": {"cpu": "1"}}).has_pod_resources


def test_a_command_that_is_longer_than_what_is_read_is_told() -> None:
    assert not read().containers[0].program.is_cut
    assert read(args=["x" * 5000]).containers[0].program.is_cut
    assert read(args=["x"] * 600).containers[0].program.is_cut
    assert read(env=[{"name": "JAVA_OPTS", "value": "x" * 5000}]).containers[0].program.is_cut
