"""EvictionRequest and Eviction of lifecycle.k8s.io: what a server accepts, and what may change."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

GROUP, VERSION = "lifecycle.k8s.io", "v1alpha1"
UID = "0a1b2c3d-0000-4000-8000-000000000001"


@pytest.fixture
def requests(kube: Any, namespace: str) -> str:
    served = kube.request("GET", f"/apis/{GROUP}/{VERSION}")
    if served.code != 200:
        pytest.skip("this server does not serve EvictionRequest (Kubernetes 1.37, feature gate EvictionRequestAPI)")
    return f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/evictionrequests"


def a_request(**spec: Any) -> dict[str, Any]:
    target = {"pod": {"name": "p", "uid": UID}}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "EvictionRequest",
        "metadata": {"name": f"r-{uuid.uuid4().hex[:8]}"},
        "spec": {"target": target, "requester": "example.com/mover", "intent": "Eviction", **spec},
    }


def test_a_request_is_stored_without_a_status_and_counts_its_generation(kube: Any, requests: str) -> None:
    made = kube.create(requests, {**a_request(), "status": {"observedGeneration": 7}})
    assert "status" not in made or not made["status"]
    assert made["metadata"]["generation"] == 1
    path = f"{requests}/{made['metadata']['name']}"
    changed = kube.patch(path, {"spec": {"intent": "Withdrawn"}})
    assert (changed["spec"]["intent"], changed["metadata"]["generation"]) == ("Withdrawn", 2)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"requester": ""}, "spec.requester"),
        ({"requester": "mover"}, "spec.requester"),
        ({"requester": "kubernetes.io/mover"}, "spec.requester"),
        ({"requester": "a.k8s.io/mover"}, "spec.requester"),
        ({"intent": "Delete"}, "spec.intent"),
        ({"target": {}}, "spec.target"),
        ({"target": {"pod": {"name": "p"}}}, "spec.target.pod.uid"),
        ({"target": {"pod": {"name": "p", "uid": "not-a-uuid"}}}, "spec.target.pod.uid"),
        ({"target": {"pod": {"name": "No_Name", "uid": UID}}}, "spec.target.pod.name"),
    ],
)
def test_what_a_request_may_not_say(kube: Any, requests: str, spec: dict[str, Any], field: str) -> None:
    answer = kube.request("POST", requests, a_request(**spec))
    assert answer.code == 422, answer.body
    assert field in {cause["field"] for cause in answer.json["details"]["causes"]}


def test_target_and_requester_do_not_change(kube: Any, requests: str) -> None:
    path = f"{requests}/{kube.create(requests, a_request())['metadata']['name']}"
    for spec in ({"requester": "example.com/other"}, {"target": {"pod": {"name": "q", "uid": UID}}}):
        assert kube.request("PATCH", path, {"spec": spec}, content_type="application/merge-patch+json").code == 422


def test_the_status_is_a_subresource(kube: Any, requests: str) -> None:
    path = f"{requests}/{kube.create(requests, a_request())['metadata']['name']}"
    condition = {
        "type": "TargetEvicted",
        "status": "False",
        "reason": "AwaitingEviction",
        "message": "",
        "lastTransitionTime": kube.now(),
    }
    kube.patch(path, {"status": {"conditions": [condition]}})
    assert not kube.get(path).get("status", {}).get("conditions")
    kube.patch(f"{path}/status", {"status": {"conditions": [condition]}, "spec": {"intent": "Withdrawn"}})
    stored = kube.get(path)
    assert stored["status"]["conditions"][0]["reason"] == "AwaitingEviction"
    assert stored["spec"]["intent"] == "Eviction"


@pytest.mark.parametrize(
    ("responder", "is_allowed"),
    [
        ({"name": "example.com/copy", "priority": 10_000}, True),
        ({"name": "copy", "priority": 10_000}, False),
        ({"name": "example.com/copy", "priority": 100_001}, False),
        ({"name": "example.com/copy", "priority": 10}, False),
        ({"name": "imperative-eviction.k8s.io/evictor", "priority": 10_000}, False),
    ],
)
def test_responders_of_pods(kube: Any, pods: str, requests: str, responder: dict[str, Any], is_allowed: bool) -> None:
    spec = {"containers": [{"name": "c", "image": "image:1"}], "evictionResponders": [responder]}
    answer = kube.request("POST", pods, {"metadata": {"name": "p"}, "spec": spec})
    assert answer.code == (201 if is_allowed else 422), answer.body
    if is_allowed:
        assert answer.json["spec"]["evictionResponders"] == [responder]
