"""Pods of a list as the API server writes it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cotenant.drivers.kubelet.declared import DeclaredContainer, join
from cotenant.drivers.kubelet.manifests import MIRROR, read_pods
from cotenant.model.cluster.labels import QOS_CLASS
from cotenant.model.cluster.qos import KubernetesQoS, QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_pod import NodeContainer, NodePod, Phase


def listed(*pods: dict[str, Any]) -> bytes:
    return json.dumps(
        {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": pods}
    ).encode()


def manifest(**changes: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "cart", "namespace": "shop", "uid": "u", "labels": {QOS_CLASS: "BE"}, "managedFields": []},
        "spec": {
            "priority": 5500,
            "containers": [
                {
                    "name": "work",
                    "resources": {
                        "requests": {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "1Gi"},
                        "limits": {"kubernetes.io/batch-cpu": 2000, "kubernetes.io/batch-memory": "2Gi"},
                    },
                }
            ],
            "initContainers": [
                {"name": "once", "resources": {"requests": {"cpu": "8"}}},
                {"name": "side", "restartPolicy": "Always", "resources": {"limits": {"cpu": "250m", "memory": "1M"}}},
            ],
        },
        "status": {
            "phase": "Running",
            "qosClass": "BestEffort",
            "containerStatuses": [{"name": "work", "containerID": "containerd://abc"}],
        },
        **changes,
    }


def test_batch_resources_sidecars_and_ids() -> None:
    (pod,) = read_pods(listed(manifest()))
    assert (pod.uid, pod.namespace, pod.name, pod.priority) == ("u", "shop", "cart", 5500)
    assert (pod.kubernetes_qos, pod.phase) == (KubernetesQoS.BEST_EFFORT, Phase.RUNNING)
    assert pod.containers == (
        DeclaredContainer("work", "abc", 1500, 2000, 1 << 30, 2 << 30),
        DeclaredContainer("side", "", 250, 250, 10**6, 10**6),
    )


def test_what_is_over_and_what_is_going() -> None:
    going = manifest(metadata={"name": "a", "uid": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"})
    over = manifest(metadata={"name": "b", "uid": "b"}, status={"phase": "Failed"})
    assert [pod.phase for pod in read_pods(listed(going, over))] == [Phase.TERMINATING, Phase.OVER]


def test_a_static_pod_is_known_by_its_hash() -> None:
    mirror = manifest(metadata={"name": "a", "uid": "of-the-mirror", "annotations": {MIRROR: "hash"}})
    assert read_pods(listed(mirror))[0].uid == "hash"


def test_an_amount_that_cannot_be_read_is_not_said() -> None:
    resources = {"requests": {"cpu": "many", "memory": "-"}, "limits": {"cpu": "1"}}
    (pod,) = read_pods(listed(manifest(spec={"containers": [{"name": "a", "resources": resources}]})))
    assert pod.containers == (DeclaredContainer("a", "", 1000, 1000, 0, 0),)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"items": 3}', b'{"items": [3]}', b'{"items": [{"metadata": {"uid": 3}}]}', b"\xff"])  # fmt: skip
def test_what_is_no_list(body: bytes) -> None:
    with pytest.raises(InvalidInput, match="list of pods"):
        read_pods(body)


def test_empty_lists_and_pods_without_uid() -> None:
    assert read_pods(b'{"items": null}') == ()
    assert read_pods(listed(manifest(metadata={"name": "a"}))) == ()


def test_joined_with_what_was_found() -> None:
    groups = (NodePod("u", "", "u", "g", containers=(NodeContainer("abc", "g/abc", "abc"),)),)
    assert join(groups, ()) == groups
    (pod,) = join(groups, read_pods(listed(manifest())))
    assert (pod.key, pod.qos, pod.group) == ("shop/cart", QoSClass.BE, "g")
    assert pod.containers == (NodeContainer("work", "g/abc", "abc", 1500, 2000, 1 << 30, 2 << 30),)
