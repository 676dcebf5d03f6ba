"""Pods that share their equal parts are still the same pods."""

from __future__ import annotations

from typing import Any

import msgspec

from cotenant.drivers.kube.cache.decoding import ListWatchDecoder, WatchEvent
from cotenant.drivers.kube.cache.sharing import PodSharing
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS, PodObject


def pod(name: str, cpu: str = "1", node: str = "", pending: bool = False, status: bool = True) -> PodObject:
    conditions = [{"type": "Ready", "status": "True"}]
    if pending:
        conditions.append({"type": "PodResizePending", "status": "True", "reason": "Infeasible"})
    requests = {"requests": {"cpu": cpu}}
    manifest: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "d", "uid": name, "labels": {"app": f"app-{cpu}"}},
        "spec": {
            "containers": [{"name": "c", "resources": requests}],
            "nodeName": node,
            "priority": len(name),
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "volumes": [
                {"name": f"token-{name}", "hostPath": {}},
                {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}},
            ],
            "schedulingGates": [{"name": f"gate-{name}"}],
        },
    }
    if status:
        manifest["status"] = {
            "phase": "Running",
            "nominatedNodeName": name,
            "conditions": conditions,
            "containerStatuses": [{"name": "c", "resources": requests}],
        }
    return msgspec.json.decode(msgspec.json.encode(manifest), type=PodObject)


def test_equal_parts_are_one_and_the_rest_is_each_pods_own() -> None:
    share = PodSharing()
    a, b = share(pod("a", node="n1")), share(pod("bb", node="n2"))
    assert a.spec is not None
    assert b.spec is not None
    assert a.status is not None
    assert b.status is not None
    assert a.spec.containers is b.spec.containers
    assert a.spec.tolerations is b.spec.tolerations
    assert a.status.container_statuses is b.status.container_statuses
    assert (b.spec.node_name, b.spec.priority, b.status.nominated_node_name) == ("n2", 2, "bb")
    assert b.metadata.labels is a.metadata.labels
    assert b.metadata.namespace is a.metadata.namespace
    assert [volume.name for volume in a.spec.volumes or ()] == ["data"]  # what does not restrict the node is not kept
    assert b.spec.volumes != a.spec.volumes
    assert b.spec.scheduling_gates != a.spec.scheduling_gates


def test_what_is_read_of_them_is_the_same() -> None:
    share = PodSharing()
    for pod_object in (
        pod("a"),
        pod("b", node="n"),
        pod("c", cpu="2"),
        pod("d", cpu="2", pending=True),
        pod("e", status=False),
        pod("f", cpu="2"),
        PodObject(),
    ):
        assert PodReader().pod(share(pod_object)) == PodReader().pod(pod_object)


def test_pods_of_lists_and_watches_share() -> None:
    reader = ListWatchDecoder(PODS)
    raw = [msgspec.json.encode(pod(name)) for name in ("a", "b")]
    (listed,) = reader.page(b'{"items":[' + raw[0] + b"]}").objects
    said = reader.line(b'{"type":"ADDED","object":' + raw[1] + b"}")
    assert isinstance(said, WatchEvent)
    assert listed.spec is not None
    assert said.obj.spec is not None
    assert listed.spec.containers is said.obj.spec.containers
