"""An object's life comes out as a clean sequence, whatever comes in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.drivers.kube.cache.cache import TOMBSTONES, Cache, Changed, number
from cotenant.drivers.kube.kinds.pod.schema import PodMeta, PodObject


def pod(name: str, version: int | str, uid: str = "u") -> PodObject:
    return PodObject(metadata=PodMeta(name=name, namespace="d", uid=uid, resource_version=str(version)))


class Consumer:
    """Builds the state from changes alone, and refuses changes that do not follow from it."""

    def __init__(self) -> None:
        self.objects: dict[str, PodObject] = {}

    def take(self, changes: list[Changed[PodObject]]) -> None:
        for change in changes:
            assert self.objects.get(change.key) is change.old
            if change.new is None:
                del self.objects[change.key]
            else:
                assert change.old is None or change.old.metadata.uid == change.new.metadata.uid
                self.objects[change.key] = change.new


History = list[tuple[str, str, int, str]]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """What truly happened to three names: (event, name, version, uid), in order."""
    alive: dict[str, str] = {}
    happened: History = []
    for version in range(1, draw(st.integers(1, 25))):
        name = draw(st.sampled_from("abc"))
        if name not in alive:
            alive[name] = f"u{version}"
            happened.append(("ADDED", name, version, alive[name]))
        elif draw(st.booleans()):
            happened.append(("MODIFIED", name, version, alive[name]))
        else:
            happened.append(("DELETED", name, version, alive.pop(name)))
    return happened


def list_of(cache: Cache[PodObject], objects: Iterable[PodObject], version: str) -> list[Changed[PodObject]]:
    """Take a whole list; what it changed."""
    listed: Cache[PodObject] = Cache("Pod")
    for obj in objects:
        listed.gather(cache.known(obj))
    changes = cache.differences(listed)
    cache.take(changes)
    cache.listed_up_to(version)
    return changes


@pytest.mark.slow
@settings(deadline=None)
@given(histories(), st.data())
def test_doubled_and_disordered_reports_end_in_the_truth(happened: History, data: st.DataObject) -> None:
    reports = list(happened)
    for event in data.draw(st.lists(st.sampled_from(happened), max_size=10) if happened else st.just([])):
        reports.insert(data.draw(st.integers(0, len(reports))), event)
    reports += happened  # everything is said at last, in order
    cache: Cache[PodObject] = Cache("Pod")
    consumer = Consumer()
    list_of(cache, [], "0")
    last: dict[str, int] = {}
    for event, name, version, uid in reports:
        said = pod(name, version, uid)
        changes = cache.drop(said) if event == "DELETED" else cache.put(said)
        consumer.take(changes)
        for change in changes:
            if change.new is not None:
                assert version >= last.get(name, 0)
                last[name] = version
    truth: dict[str, Any] = {}
    for event, name, version, uid in happened:
        truth[f"d/{name}"] = None if event == "DELETED" else (uid, str(version))
    found = {o.metadata.name: (o.metadata.uid, o.metadata.resource_version) for o in cache}
    assert found == {key[2:]: value for key, value in truth.items() if value is not None}
    assert {id(o) for o in consumer.objects.values()} == {id(o) for o in cache}


@pytest.mark.slow
@settings(deadline=None)
@given(histories(), histories())
def test_a_list_is_the_truth_and_its_difference_leads_there(before: History, after: History) -> None:
    cache: Cache[PodObject] = Cache("Pod")
    consumer = Consumer()
    for version, history in ((100, before), (200, after)):
        alive = {name: pod(name, v, uid) for event, name, v, uid in history if event != "DELETED"}
        consumer.take(list_of(cache, alive.values(), str(version)))
        assert {o.metadata.name for o in consumer.objects.values()} == set(alive)
    assert cache.resource_version == "200"


def test_a_name_used_again_is_a_deletion_and_an_addition() -> None:
    cache: Cache[PodObject] = Cache("Pod")
    cache.put(pod("a", 1, "first"))
    old, new = cache.put(pod("a", 5, "second"))
    assert (old.new, new.old) == (None, None)


def test_a_server_restored_from_a_backup_is_believed_when_it_lists() -> None:
    cache: Cache[PodObject] = Cache("Pod")
    list_of(cache, [pod("a", 900)], "1000")
    (change,) = list_of(cache, [pod("a", 10)], "20")
    assert change.new is not None
    assert cache.resource_version == "20"
    assert cache.put(pod("a", 21)) != []


def test_versions_that_are_no_numbers_are_taken_as_they_come() -> None:
    cache: Cache[PodObject] = Cache("Pod")
    list_of(cache, [pod("a", "x1")], "x1")
    assert cache.put(pod("a", "x1")) == []
    assert len(cache.put(pod("a", "w9"))) == 1
    assert len(cache.drop(pod("a", "x2"))) == 1
    assert cache.resource_version == "x2"


def test_the_memory_of_deletions_is_bounded() -> None:
    cache: Cache[PodObject] = Cache("Pod")
    for i in range(TOMBSTONES + 10):
        cache.drop(pod(f"p{i}", i + 1))
    assert len(cache._gone) == TOMBSTONES


def test_number() -> None:
    assert [number(text) for text in ("12", "", None, "-1", "1.5", "x", "٣", "9" * 50)] == [12, *[None] * 7]


def test_of_an_object_on_two_pages_the_newer_one_is_gathered() -> None:
    cache: Cache[PodObject] = Cache("Pod")
    old, new = pod("a", 3), pod("a", 5)
    for obj in (new, pod("b", 4), old, new):
        cache.gather(obj)
    assert cache.get("d/a") is new
    assert len(cache) == 2
    assert cache.stale == 1


def test_an_object_that_a_list_has_unchanged_is_held_once_and_is_no_difference() -> None:
    cache: Cache[PodObject] = Cache("Pod")
    first, changed, reused = pod("a", 1), pod("b", 2), pod("c", 3, "old")
    list_of(cache, [first, changed, reused], "3")
    again = [pod("a", 1), pod("b", 5), pod("c", 6, "new")]
    assert [change.key for change in list_of(cache, again, "6")] == ["d/b", "d/c", "d/c"]
    assert cache.get("d/a") is first
    assert cache.get("d/b") is again[1]
