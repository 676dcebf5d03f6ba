"""Behaviour of the real API that a scheduler depends on; each case was observed on a real server."""

from __future__ import annotations

import http.client
from contextlib import suppress
from typing import Any

import pytest


def binding(name: str, node: str, **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": name, **metadata},
        "target": {"kind": "Node", "name": node},
    }


def test_a_bind_sets_node_condition_annotations_and_labels_in_one_write(kube: Any, pods: str, make_pod: Any) -> None:
    made = kube.create(pods, make_pod())
    answer = kube.request(
        "POST",
        f"{pods}/p/binding",
        binding("p", "n1", uid=made["metadata"]["uid"], annotations={"why": "there"}, labels={"l": "1"}),
    )
    assert answer.code == 201
    assert answer.json["kind"] == "Status"
    assert answer.json["status"] == "Success"
    bound = kube.get(f"{pods}/p")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"]["why"] == "there"
    assert bound["metadata"]["labels"] == {"app": "p", "l": "1"}
    scheduled = [one for one in bound["status"]["conditions"] if one["type"] == "PodScheduled"]
    assert [one["status"] for one in scheduled] == ["True"]


def test_a_bind_with_the_wrong_uid_is_a_conflict(kube: Any, pods: str, make_pod: Any) -> None:
    kube.create(pods, make_pod())
    answer = kube.request("POST", f"{pods}/p/binding", binding("p", "n1", uid="11111111-2222-3333-4444-555555555555"))
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert not kube.get(f"{pods}/p")["spec"].get("nodeName")


def test_a_second_bind_is_a_conflict(kube: Any, pods: str, make_pod: Any) -> None:
    kube.create(pods, make_pod())
    kube.create(f"{pods}/p/binding", binding("p", "n1"))
    answer = kube.request("POST", f"{pods}/p/binding", binding("p", "n2"))
    assert answer.code == 409
    assert 'is already assigned to node "n1"' in answer.message


def test_a_gated_pod_is_not_bound(kube: Any, pods: str, make_pod: Any) -> None:
    kube.create(pods, make_pod(schedulingGates=[{"name": "example.com/wait"}]))
    assert kube.request("POST", f"{pods}/p/binding", binding("p", "n1")).code == 409


def test_a_bind_to_an_unknown_node_is_not_checked(kube: Any, pods: str, make_pod: Any) -> None:
    kube.create(pods, make_pod())
    assert kube.request("POST", f"{pods}/p/binding", binding("p", "no-such-node")).code == 201


def test_a_bind_of_an_unknown_pod_is_not_found(kube: Any, pods: str) -> None:
    assert kube.request("POST", f"{pods}/nobody/binding", binding("nobody", "n1")).code == 404


def test_under_a_node_selector_a_bind_looks_like_a_deletion(kube: Any, pods: str, make_pod: Any) -> None:
    version = kube.get(pods)["metadata"]["resourceVersion"]
    with kube.watch(pods, fieldSelector="spec.nodeName=", resourceVersion=version) as watch:
        kube.create(pods, make_pod())
        kube.create(f"{pods}/p/binding", binding("p", "n1"))
        added, deleted = watch.until("ADDED", "DELETED")
    assert "nodeName" not in added["object"]["spec"]
    assert int(deleted["object"]["metadata"]["resourceVersion"]) > int(added["object"]["metadata"]["resourceVersion"])


@pytest.mark.slow
def test_a_slow_reader_is_disconnected_without_an_error_event(kube: Any, configs: str) -> None:
    made = kube.create(configs, {"metadata": {"name": "big"}, "data": {"x": ""}})
    with kube.watch(configs, resourceVersion=made["metadata"]["resourceVersion"], timeoutSeconds="120") as watch:
        for turn in range(400):
            kube.patch(
                f"{configs}/big",
                {"data": {"x": f"{turn}" * 150_000}},
                headers={"accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"},
            )
        events = []
        with suppress(http.client.IncompleteRead, ConnectionError):  # or it is cut, where it read nothing for too long
            while (event := watch.next()) is not None:
                events.append(event)
    assert 0 < len(events) < 400
    assert {event["type"] for event in events} == {"MODIFIED"}


@pytest.mark.slow
def test_a_watch_from_a_future_version_sends_no_events(kube: Any, configs: str) -> None:
    version = int(kube.get(configs)["metadata"]["resourceVersion"])
    with kube.watch(configs, resourceVersion=str(version + 1_000_000), timeoutSeconds="1") as watch:
        kube.create(configs, {"metadata": {"name": "a"}})
        watch.rest()


def test_initial_events_end_with_an_annotated_bookmark(kube: Any, configs: str) -> None:
    kube.create(configs, {"metadata": {"name": "mine"}})
    with kube.watch(
        configs,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
        fieldSelector="metadata.name=mine",
    ) as watch:
        first = watch.next()
        assert first is not None
        if "RequestWatchProgress" in first["object"].get("message", ""):
            pytest.skip("this server's store is too old to tell how far a watch has come")
        (bookmark,) = watch.until("BOOKMARK")
        assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "mine")
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        kube.patch(f"{configs}/mine", {"data": {"a": "b"}})
        (changed,) = watch.until("MODIFIED")
    assert int(changed["object"]["metadata"]["resourceVersion"]) > int(
        bookmark["object"]["metadata"]["resourceVersion"]
    )


def test_resources_are_resized_in_place(kube: Any, pods: str, node: str, make_pod: Any) -> None:
    wanted = make_pod()
    wanted["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}
    kube.create(pods, wanted)
    kube.create(f"{pods}/p/binding", binding("p", node))
    change = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "150m"}}}]}}
    answer = kube.request("PATCH", f"{pods}/p/resize", change, content_type="application/strategic-merge-patch+json")
    assert answer.code == 200
    assert kube.get(f"{pods}/p")["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "150m"


def eviction(name: str) -> dict[str, Any]:
    return {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": name}}


def test_eviction_under_an_unprocessed_budget_gives_429(kube: Any, pods: str, namespace: str, make_pod: Any) -> None:
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}}}
    kube.create(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets", budget)
    kube.create(pods, make_pod())
    kube.create(f"{pods}/p/binding", binding("p", "n1"))
    kube.patch(
        f"{pods}/p/status", {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    )
    answer = kube.request("POST", f"{pods}/p/eviction", eviction("p"))
    assert (answer.code, answer.reason) == (429, "TooManyRequests")
    assert kube.get(f"{pods}/p")["metadata"].get("deletionTimestamp") is None


def test_eviction_of_a_bound_pending_pod_is_not_blocked_by_a_budget(kube: Any, pods: str, make_pod: Any) -> None:
    kube.create(pods, make_pod())
    kube.create(f"{pods}/p/binding", binding("p", "n1"))
    assert kube.request("POST", f"{pods}/p/eviction", eviction("p")).code == 201
    answer = kube.request("GET", f"{pods}/p")
    assert answer.code == 404 or answer.json["metadata"]["deletionTimestamp"]


def test_an_event_may_not_generate_a_name_with_a_dot(kube: Any, namespace: str) -> None:
    event = {
        "metadata": {"generateName": "p."},
        "regarding": {"kind": "Pod", "name": "p", "namespace": namespace},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/c",
        "reportingInstance": "c-1",
        "action": "A",
        "reason": "R",
        "type": "Normal",
    }
    answer = kube.request("POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", event)
    assert answer.code == 422
    assert "metadata.generateName" in answer.message


def test_the_scheduler_name_is_immutable(kube: Any, pods: str, make_pod: Any) -> None:
    kube.create(pods, make_pod())
    answer = kube.request(
        "PATCH", f"{pods}/p", {"spec": {"schedulerName": "other"}}, content_type="application/merge-patch+json"
    )
    assert (answer.code, answer.reason) == (422, "Invalid")


@pytest.mark.slow
def test_watches_end_at_their_timeout(kube: Any, configs: str) -> None:
    """A watch without an end gives no answer for as long as the client waits for the next one, and fails."""
    with kube.watch(configs, timeoutSeconds="1") as watch:
        watch.rest()
