"""Watches: starting point, events, and representations."""

from __future__ import annotations

from typing import Any

import pytest

_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


def test_changes_are_delivered_in_order_exactly_once(kube: Any, configs: str) -> None:
    version = kube.get(configs)["metadata"]["resourceVersion"]
    with kube.watch(configs, resourceVersion=version, fieldSelector="metadata.name=c") as watch:
        kube.create(configs, {"metadata": {"name": "c"}, "data": {"a": "1"}})
        kube.patch(f"{configs}/c", {"data": {"a": "2"}})
        kube.patch(f"{configs}/c", {"data": {"a": "2"}})  # changes nothing
        kube.delete(f"{configs}/c")
        added, modified, deleted = watch.until("ADDED", "MODIFIED", "DELETED")
    seen = [event["object"]["data"]["a"] for event in (added, modified, deleted)]
    assert seen == ["1", "2", "2"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in (added, modified, deleted)]
    assert versions == sorted(set(versions))


def test_without_a_version_the_current_state_is_sent_first(kube: Any, configs: str) -> None:
    kube.create(configs, {"metadata": {"name": "c"}})
    with kube.watch(configs, fieldSelector="metadata.name=c") as watch:
        watch.until("ADDED")


def test_a_watch_resumes_where_another_ended(kube: Any, configs: str) -> None:
    version = kube.get(configs)["metadata"]["resourceVersion"]
    first = kube.create(configs, {"metadata": {"name": "a"}})
    kube.create(configs, {"metadata": {"name": "b"}})
    with kube.watch(configs, resourceVersion=version) as watch:
        one, two = watch.until("ADDED", "ADDED")
        assert [one["object"]["metadata"]["name"], two["object"]["metadata"]["name"]] == ["a", "b"]
    with kube.watch(configs, resourceVersion=first["metadata"]["resourceVersion"]) as watch:
        (two,) = watch.until("ADDED")
        assert two["object"]["metadata"]["name"] == "b"


def test_an_object_that_leaves_the_selection_is_deleted_from_it(kube: Any, configs: str) -> None:
    version = kube.get(configs)["metadata"]["resourceVersion"]
    with kube.watch(configs, labelSelector="on=yes", resourceVersion=version) as watch:
        kube.create(configs, {"metadata": {"name": "c"}})
        kube.patch(f"{configs}/c", {"metadata": {"labels": {"on": "yes"}}})
        kube.patch(f"{configs}/c", {"metadata": {"labels": {"on": "no"}}})
        added, deleted = watch.until("ADDED", "DELETED")
    assert added["object"]["metadata"]["labels"] == {"on": "yes"}
    assert deleted["object"]["metadata"]["labels"] == {"on": "yes"}


def test_a_compacted_version_is_expired(kube: Any, configs: str) -> None:
    if kube.is_local:
        pytest.skip("the local server's history begins with its first write; the unit tests of the history cover it")
    with kube.watch(configs, resourceVersion="1", timeoutSeconds="2") as watch:
        event = watch.next()
    if watch.code == 200 and event is None:
        pytest.skip("this server is so young that it still remembers its first version")
    assert watch.code == 410 or (event is not None and event["type"] == "ERROR" and event["object"]["code"] == 410)


def test_table_watches_send_column_definitions_once(kube: Any, configs: str) -> None:
    kube.create(configs, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    with kube.watch(configs, accept=_TABLE, fieldSelector="metadata.name=c") as watch:
        (added,) = watch.until("ADDED")
        kube.patch(f"{configs}/c", {"data": {"b": "2"}})
        (modified,) = watch.until("MODIFIED")
    table = added["object"]
    assert table["kind"] == "Table"
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert not modified["object"].get("columnDefinitions")
    assert modified["object"]["rows"][0]["cells"][:2] == ["c", 2]
    assert modified["object"]["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


def test_metadata_only(kube: Any, configs: str) -> None:
    kube.create(configs, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    with kube.watch(configs, accept=accept, fieldSelector="metadata.name=c") as watch:
        (added,) = watch.until("ADDED")
    assert sorted(added["object"]) == ["apiVersion", "kind", "metadata"]


@pytest.mark.slow
def test_one_object_can_be_watched_by_name(kube: Any, configs: str) -> None:
    kube.create(configs, {"metadata": {"name": "a"}})
    kube.create(configs, {"metadata": {"name": "b"}})
    with kube.watch(configs, fieldSelector="metadata.name=b", timeoutSeconds="1") as watch:
        assert [event["object"]["metadata"]["name"] for event in watch.rest()] == ["b"]
