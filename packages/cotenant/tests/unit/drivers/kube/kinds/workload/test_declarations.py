"""The declared kinds of workloads: files, and what they make of real objects."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.workload import declarations
from cotenant.drivers.kube.kinds.workload.declarations import joined, packaged, read_kind, workload_kinds
from cotenant.drivers.kube.kinds.workload.objects import DeclaredObject, kind_of, read_declared
from cotenant.drivers.kube.snapshot.declared import numbered
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.workload_kind import WorkloadState

LINES = "kind: Oven\napi: bake.example.com/v1\nplural: ovens\nreplicas: spec.trays|1\n"


def state(kind: str, group: str, spec: dict[str, Any], status: dict[str, Any] | None = None) -> WorkloadState:
    (declared,) = (one for one in packaged() if (one.kind, one.group) == (kind, group))
    obj = {"metadata": {"name": "w", "namespace": "ml", "uid": "u"}, "spec": spec, "status": status or {}}
    return read_declared(declared, msgspec.json.decode(msgspec.json.encode(obj), type=DeclaredObject))


def test_no_file_has_more_than_ten_lines() -> None:
    folder = files(declarations.__package__ or "").joinpath("kinds")
    lengths = {one.name: len(one.read_text().splitlines()) for one in folder.iterdir() if one.name.endswith(".yaml")}
    assert len(lengths) == len(packaged()) == 15
    assert max(lengths.values()) <= 10


@pytest.mark.parametrize(
    ("kind", "group", "spec", "status", "facts"),
    [  # replicas, minimum, paused, ready
        (
            "LeaderWorkerSet",
            "leaderworkerset.x-k8s.io",
            {"replicas": 3, "leaderWorkerTemplate": {"size": 4}},
            {},
            (12, 4, False, None),
        ),
        (
            "LeaderWorkerSet",
            "leaderworkerset.x-k8s.io",
            {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 4}},
            {},
            (4, 0, False, None),  # workers come after their leader is ready: a gang would never be complete
        ),
        (
            "JobSet",
            "jobset.x-k8s.io",
            {
                "replicatedJobs": [
                    {"replicas": 2, "template": {"spec": {"parallelism": 4, "completions": 3}}},
                    {"template": {}},
                ]
            },
            {"replicatedJobsStatus": [{"ready": 2}, {"ready": 1}]},
            (7, 7, False, 3),
        ),
        (
            "JobSet",
            "jobset.x-k8s.io",
            {"suspend": True, "replicatedJobs": [{"template": {}}, {"dependsOn": [{"name": "a"}], "template": {}}]},
            {},
            (2, 0, True, 0),
        ),
        (
            "JobSet",
            "jobset.x-k8s.io",
            {"startupPolicy": {"startupPolicyOrder": "InOrder"}, "replicatedJobs": [{"template": {}}] * 2},
            {},
            (2, 0, False, 0),
        ),
        (
            "RayCluster",
            "ray.io",
            {"workerGroupSpecs": [{"replicas": 2, "numOfHosts": 2}]},
            {"readyWorkerReplicas": 3},
            (5, 0, False, 4),
        ),
        ("RayJob", "ray.io", {"rayClusterSpec": {"workerGroupSpecs": [{"replicas": 2}]}}, {}, (3, 0, False, None)),
        ("TrainJob", "trainer.kubeflow.org", {"trainer": {"numNodes": 8}, "suspend": True}, {}, (8, 0, True, None)),
        (
            "MPIJob",
            "kubeflow.org",
            {"mpiReplicaSpecs": {"Launcher": {}, "Worker": {"replicas": 4}}},
            {},
            (5, 5, False, 0),
        ),
        (
            "MPIJob",
            "kubeflow.org",
            {"launcherCreationPolicy": "WaitForWorkersReady", "mpiReplicaSpecs": {"Worker": {"replicas": 4}}},
            {},
            (4, 0, False, 0),
        ),
        (
            "PyTorchJob",
            "kubeflow.org",
            {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}},
            {"replicaStatuses": {"Worker": {"active": 3}}},
            (4, 4, False, 3),
        ),
        (
            "PyTorchJob",
            "kubeflow.org",
            {"elasticPolicy": {"minReplicas": 1}, "pytorchReplicaSpecs": {"Worker": {"replicas": 3}}},
            {},
            (3, 0, False, 0),
        ),
        ("SparkApplication", "sparkoperator.k8s.io", {"executor": {"instances": 5}}, {}, (6, 0, False, None)),
        ("Rollout", "argoproj.io", {"replicas": 3, "paused": True}, {"readyReplicas": 2}, (3, 0, True, 2)),
        ("CloneSet", "apps.kruise.io", {"replicas": 3, "updateStrategy": {"paused": True}}, {}, (3, 0, True, 0)),
        ("StatefulSet", "apps.kruise.io", {"replicas": 2}, {}, (2, 0, False, 0)),
        ("DaemonSet", "apps.kruise.io", {}, {"desiredNumberScheduled": 9, "numberReady": 8}, (9, 0, False, 8)),
        ("BroadcastJob", "apps.kruise.io", {}, {"desired": 4, "active": 2}, (4, 0, False, 2)),
        ("VirtualMachine", "kubevirt.io", {"runStrategy": "Halted"}, {"ready": True}, (1, 0, True, 1)),
        ("VirtualMachineInstance", "kubevirt.io", {}, {"phase": "Running"}, (1, 0, False, 1)),
    ],
)
def test_what_a_kind_s_objects_say(
    kind: str, group: str, spec: dict[str, Any], status: dict[str, Any], facts: tuple[Any, ...]
) -> None:
    found = state(kind, group, spec, status)
    assert (found.replicas, found.minimum, found.is_paused, found.ready) == facts
    assert (found.key, found.owned.kind) == ("ml/w", kind)


def test_a_group_whose_workers_come_after_their_leader_has_a_node_is_no_gang() -> None:
    """LeaderWorkerSet's controller creates the workers of an exclusive group once their leader was scheduled."""
    (declared,) = (one for one in packaged() if one.kind == "LeaderWorkerSet")
    obj: dict[str, Any] = {
        "metadata": {
            "name": "w",
            "uid": "u",
            "annotations": {"leaderworkerset.sigs.k8s.io/exclusive-topology": "topology.kubernetes.io/rack"},
        },
        "spec": {"leaderWorkerTemplate": {"size": 4}},
    }
    found = read_declared(declared, msgspec.json.decode(msgspec.json.encode(obj), type=DeclaredObject))
    assert (found.replicas, found.minimum) == (4, 0)
    assert numbered(declared, obj)["status"] == {"replicas": 4, "minimum": 0}, "in a copy as well"


def test_an_object_whose_parts_have_another_shape_is_unknown_and_no_error() -> None:
    found = state("JobSet", "jobset.x-k8s.io", {"replicatedJobs": "many"})
    assert (found.replicas, found.minimum) == (None, 0)
    kind = packaged()[0]
    with pytest.raises(InvalidInput):
        read_declared(kind, DeclaredObject())
    assert kind_of(kind).api_version == kind.api


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a", "a map with the fields kind, api, plural, replicas"),
        ("{", "expected YAML"),
        (LINES.replace("kind: Oven\n", ""), "x.yaml: kind"),
        (LINES + "size: 4\n", "x.yaml: size"),
        (LINES.replace("spec.trays|1", "4"), "numbers are quoted"),
        (LINES.replace("spec.trays|1", "spec.trays|"), "x.yaml: replicas"),
        (LINES + "minimum: $replicas +\n", "x.yaml: minimum"),
        (LINES.replace("bake.example.com/v1", "v1"), "GROUP/VERSION"),
    ],
)
def test_a_file_with_a_mistake_says_where(text: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_kind(text, "x.yaml")
    assert says in str(caught.value)


def test_the_files_of_a_folder_count_before_the_package_s(tmp_path: Path) -> None:
    (tmp_path / "oven.yaml").write_text(LINES)
    (tmp_path / "mine.yaml").write_text(
        LINES.replace("Oven", "JobSet").replace("bake.example.com/v1", "jobset.x-k8s.io/v9")
    )
    found = {(one.group, one.kind): one for one in workload_kinds(tmp_path)}
    assert len(found) == len(packaged()) + 1
    assert found["jobset.x-k8s.io", "JobSet"].version == "v9"
    assert workload_kinds() == packaged() == joined(packaged(), ())
    with pytest.raises(InvalidInput, match="--workload-kinds"):
        workload_kinds(tmp_path / "absent")
