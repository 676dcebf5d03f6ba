"""Status and scale."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def deployment(kube: Any, namespace: str) -> str:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    kube.create(path, {"metadata": {"name": "d"}, "spec": spec, "status": {"replicas": 9}})
    return f"{path}/d"


def test_status_is_written_through_its_subresource_only(kube: Any, deployment: str) -> None:
    assert kube.get(deployment)["status"].get("replicas", 0) == 0
    kube.patch(deployment, {"status": {"observedGeneration": 7}})
    assert kube.get(deployment).get("status", {}).get("observedGeneration", 0) != 7
    kube.patch(f"{deployment}/status", {"spec": {"replicas": 5}, "status": {"collisionCount": 3}})
    read = kube.get(deployment)
    assert read["status"]["collisionCount"] == 3
    assert read["spec"]["replicas"] == 0


def test_scale_shows_and_sets_replicas(kube: Any, deployment: str) -> None:
    scale = kube.get(f"{deployment}/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["status"]["selector"] == "a=b"
    scale["spec"]["replicas"] = 4
    kube.ok("PUT", f"{deployment}/scale", scale)
    assert kube.get(deployment)["spec"]["replicas"] == 4
    kube.patch(f"{deployment}/scale", {"spec": {"replicas": 2}})
    assert kube.get(deployment)["spec"]["replicas"] == 2


def test_pod_status_at_creation(kube: Any, pods: str, make_pod: Any) -> None:
    kube.create(pods, make_pod())
    assert kube.get(f"{pods}/p")["status"]["phase"] == "Pending"
    kube.patch(f"{pods}/p/status", {"status": {"phase": "Running", "podIP": "10.0.0.1"}})
    read = kube.get(f"{pods}/p/status")
    assert read["status"]["phase"] == "Running"
    assert read["kind"] == "Pod"


def test_status_conditions_merge_by_type(kube: Any, node: str) -> None:
    path = f"/api/v1/nodes/{node}/status"
    other = {"type": "Other", "status": "True", "lastHeartbeatTime": None, "lastTransitionTime": None}
    kube.patch(path, {"status": {"conditions": [other]}}, "application/strategic-merge-patch+json")
    types = {one["type"] for one in kube.get(f"/api/v1/nodes/{node}")["status"]["conditions"]}
    assert types == {"Ready", "Other"}


def test_pod_defaults(kube: Any, pods: str, make_pod: Any) -> None:
    made = kube.create(pods, make_pod())
    spec = made["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert made["status"]["qosClass"] == "BestEffort"
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
