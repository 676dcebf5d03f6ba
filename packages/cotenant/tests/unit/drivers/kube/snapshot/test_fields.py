"""What a copy keeps of objects: what a reader names, and nothing else."""

from __future__ import annotations

import json

import pytest

from cotenant.drivers.kube.snapshot.kinds import COPIED
from cotenant.drivers.kube.snapshot.snapshot import ObjectCutter

SECRET = "hunter2"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "u1",
        "labels": {"app": "web"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": SECRET,
            "cotenant.io/tenant": "red",
            "controller.kubernetes.io/pod-deletion-cost": "7",
        },
        "managedFields": [{"manager": SECRET}],
    },
    "spec": {
        "nodeName": "n1",
        "containers": [
            {
                "name": "main",
                "image": "registry.example/web:1",
                "env": [{"name": "PASSWORD", "value": SECRET}],
                "envFrom": [{"secretRef": {"name": SECRET}}],
                "args": [SECRET],
                "command": [SECRET],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                "livenessProbe": {"exec": {"command": [SECRET]}},
            }
        ],
        "volumes": [
            {"name": "data", "emptyDir": {"medium": SECRET}},
            {"name": "keys", "secret": {"secretName": SECRET}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "disk"}},
        ],
        "serviceAccountName": SECRET,
    },
    "status": {"phase": "Running", "message": SECRET, "qosClass": "Burstable", "podIP": SECRET},
}


def cut(key: str, obj: object) -> dict[str, object] | None:
    found = ObjectCutter(COPIED[key]).cut(obj)  # type: ignore[arg-type]
    return None if found is None else json.loads(found)


def test_a_pod_keeps_no_environment_argument_secret_or_foreign_annotation() -> None:
    found = ObjectCutter(COPIED["v1/pods"]).cut(POD)  # type: ignore[arg-type]
    assert found is not None
    assert SECRET.encode() not in found
    pod = json.loads(found)
    assert pod["spec"]["containers"] == [
        {"name": "main", "image": "registry.example/web:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    ]
    assert pod["metadata"]["annotations"] == {
        "cotenant.io/tenant": "red",
        "controller.kubernetes.io/pod-deletion-cost": "7",
    }
    assert pod["spec"]["volumes"][0] == {"name": "data", "emptyDir": {}}


def test_both_readers_of_pods_find_what_they_read() -> None:
    found = ObjectCutter(COPIED["v1/pods"]).cut(POD)  # type: ignore[arg-type]
    pod = json.loads(found or b"")
    assert pod["status"] == {"phase": "Running", "qosClass": "Burstable"}
    assert pod["spec"]["volumes"][2] == {"name": "claim", "persistentVolumeClaim": {"claimName": "disk"}}


def test_annotations_of_other_kinds_are_those_of_a_list() -> None:
    node = {
        "metadata": {"name": "n1", "annotations": {"note": SECRET, "node.koordinator.sh/reservation": "{}"}},
        "status": {"allocatable": {"cpu": "4"}},
    }
    assert cut("v1/nodes", node) == {
        "metadata": {"name": "n1", "annotations": {"node.koordinator.sh/reservation": "{}"}},
        "status": {"allocatable": {"cpu": "4"}},
    }


def test_a_reservation_keeps_its_template_as_a_pod() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
    found = cut(
        "scheduling.koordinator.sh/v1alpha1/reservations",
        {
            "metadata": {"name": "r"},
            "spec": {"template": template, "ttl": "1h", "owners": [{"object": {"name": "web"}}]},
        },
    )
    assert found is not None
    assert SECRET not in json.dumps(found)
    assert found["spec"]["ttl"] == "1h"  # type: ignore[index]
    assert found["spec"]["template"]["spec"]["nodeName"] == "n1"  # type: ignore[index]


@pytest.mark.parametrize(
    "obj", [None, 3, "pod", [], {}, {"metadata": None}, {"metadata": {"name": 3}}, {"metadata": []}]
)
def test_what_is_no_object_is_counted(obj: object) -> None:
    cutter = ObjectCutter(COPIED["v1/pods"])
    assert cutter.cut(obj) is None  # type: ignore[arg-type]
    assert cutter.malformed == 1


def test_no_kind_with_secrets_or_configuration_is_copied() -> None:
    assert not {"secrets", "configmaps", "events", "serviceaccounts"} & {c.kind.plural for c in COPIED.values()}


@pytest.mark.parametrize("key", sorted(COPIED))
def test_every_kind_keeps_names(key: str) -> None:
    found = cut(key, {"metadata": {"name": "x", "uid": "u"}})
    assert found is not None
    assert found.pop("metadata") == {"name": "x", "uid": "u"}
    assert not found or COPIED[key].declared  # whose numbers may have defaults
