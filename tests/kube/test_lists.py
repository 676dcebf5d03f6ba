"""Lists: pages, snapshots, selectors, and representations."""

from __future__ import annotations

from typing import Any

import pytest


def names(page: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in page["items"]]


@pytest.fixture
def filled(kube: Any, configs: str) -> str:
    for index in range(5):
        labels = {"n": str(index), "parity": "even" if index % 2 == 0 else "odd"}
        kube.create(configs, {"metadata": {"name": f"c{index}", "labels": labels}})
    return configs


def mine(query: dict[str, str]) -> dict[str, str]:
    """Names without the objects that clusters create in every namespace."""
    return {"labelSelector": "n", **query}


def test_pages_are_one_snapshot(kube: Any, filled: str) -> None:
    first = kube.get(filled, **mine({"limit": "2"}))
    assert names(first) == ["c0", "c1"]
    kube.create(filled, {"metadata": {"name": "c1a", "labels": {"n": "x"}}})
    kube.delete(f"{filled}/c3")
    second = kube.get(filled, **mine({"limit": "2", "continue": first["metadata"]["continue"]}))
    assert names(second) == ["c2", "c3"]
    third = kube.get(filled, **mine({"limit": "2", "continue": second["metadata"]["continue"]}))
    assert names(third) == ["c4"]
    assert not third["metadata"].get("continue")
    versions = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert len(versions) == 1


def test_remaining_item_count(kube: Any, filled: str) -> None:
    page = kube.get(filled, limit="2")
    assert page["metadata"]["remainingItemCount"] == len(kube.get(filled)["items"]) - 2


def test_a_list_at_an_exact_version(kube: Any, filled: str) -> None:
    before = kube.get(filled, **mine({}))
    kube.delete(f"{filled}/c0")
    version = before["metadata"]["resourceVersion"]
    again = kube.get(filled, **mine({"resourceVersion": version, "resourceVersionMatch": "Exact"}))
    assert names(again) == names(before)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("n=1", ["c1"]),
        ("n==1", ["c1"]),
        ("n,n!=1", ["c0", "c2", "c3", "c4"]),
        ("n in (1,3)", ["c1", "c3"]),
        ("n,n notin (1,3)", ["c0", "c2", "c4"]),
        ("parity=even,n!=0", ["c2", "c4"]),
        ("n,!parity", []),
        ("n>2", ["c3", "c4"]),
    ],
)
def test_label_selectors(kube: Any, filled: str, selector: str, expected: list[str]) -> None:
    assert names(kube.get(filled, labelSelector=selector)) == expected


def test_field_selectors(kube: Any, filled: str, pods: str, namespace: str, make_pod: Any) -> None:
    assert names(kube.get(filled, fieldSelector="metadata.name=c1")) == ["c1"]
    assert "c1" not in names(kube.get(filled, fieldSelector="metadata.name!=c1"))
    for name in ("a", "b"):
        kube.create(pods, make_pod(name))
    kube.patch(f"{pods}/a/status", {"status": {"phase": "Running"}})
    assert names(kube.get(pods, fieldSelector="status.phase=Running")) == ["a"]
    everywhere = kube.get("/api/v1/pods", fieldSelector=f"metadata.namespace={namespace},status.phase!=Running")
    assert names(everywhere) == ["b"]


def test_lists_have_kind_and_version(kube: Any, filled: str) -> None:
    page = kube.get(filled)
    assert (page["kind"], page["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(page["metadata"]["resourceVersion"]) > 0


def test_metadata_only(kube: Any, filled: str) -> None:
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    page = kube.ok("GET", filled, headers={"accept": accept}, labelSelector="n=1")
    assert page["kind"] == "PartialObjectMetadataList"
    assert [(one["kind"], sorted(one)) for one in page["items"]] == [
        ("PartialObjectMetadata", ["apiVersion", "kind", "metadata"])
    ]


def test_a_list_at_a_future_version_times_out(kube: Any, filled: str) -> None:
    version = int(kube.get(filled)["metadata"]["resourceVersion"]) + 1_000_000
    answer = kube.request("GET", filled, resourceVersion=str(version), resourceVersionMatch="NotOlderThan")
    assert (answer.code, answer.reason) == (504, "Timeout")
    assert "Too large resource version" in answer.message


def test_a_collection_is_deleted_by_selector(kube: Any, filled: str) -> None:
    kube.delete(filled, labelSelector="parity=odd")
    assert names(kube.get(filled, labelSelector="n")) == ["c0", "c2", "c4"]
