"""Watches: starting point, selection, and end."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.fakes.waiting import patience

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.contract import ListOptions
from cotenant_local.apiserver.storage.history import EventHistory, HistoryBounds, HistoryEvent
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.storage.stored import StoredObject
from cotenant_local.apiserver.storage.watching import Channel, EventBatch, WatchStream


def config(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


async def take(watch: WatchStream, count: int) -> list[tuple[str, str]]:
    found = []
    for _ in range(count):
        event = msgspec.json.decode(await asyncio.wait_for(anext(watch), patience(5)))
        found.append((event["type"], event["object"]["metadata"].get("name", "")))
    return found


def test_a_watch_without_a_version_starts_with_existing_objects(serve: Any) -> None:
    async def case(server: Any) -> None:
        at = server.at("configmaps")
        await server.make(at, config("a"))
        watch = server.api.watch(at)
        await server.make(at, config("b"))
        assert await take(watch, 2) == [("ADDED", "a"), ("ADDED", "b")]

    serve(case)


def test_a_watch_resumes_where_a_list_ended(serve: Any) -> None:
    async def case(server: Any) -> None:
        at = server.at("configmaps")
        await server.make(at, config("a"))
        listed = (await server.api.list(at)).resource_version
        await server.make(at, config("b"))
        await server.api.delete(server.at("configmaps", "a"))
        watch = server.api.watch(at, ListOptions(resource_version=str(listed)))
        await server.make(at, config("c"))
        assert await take(watch, 3) == [("ADDED", "b"), ("DELETED", "a"), ("ADDED", "c")]

    serve(case)


def test_a_deleted_object_has_the_version_of_its_deletion(serve: Any) -> None:
    async def case(server: Any) -> None:
        at = server.at("configmaps")
        await server.make(at, config("a"))
        watch = server.api.watch(at, ListOptions(resource_version=str(server.api.store.revision)))
        await server.api.delete(server.at("configmaps", "a"))
        event = msgspec.json.decode(await anext(watch))
        assert event["object"]["metadata"]["resourceVersion"] == str(server.api.store.revision)

    serve(case)


def test_objects_enter_and_leave_a_selection(serve: Any) -> None:
    async def case(server: Any) -> None:
        at = server.at("configmaps")
        watch = server.api.watch(at, ListOptions(labels="tier in (web),!old"))
        await server.make(at, config("a", tier="db"))
        for labels in ({"tier": "web"}, {"tier": "web", "x": "1"}, {"tier": "web", "old": "1"}, {"tier": "db"}):
            await server.put(server.at("configmaps", "a"), config("a", **labels))
        await server.put(server.at("configmaps", "a"), config("a", tier="web"))
        await server.api.delete(server.at("configmaps", "a"))
        seen = await take(watch, 5)
        assert [kind for kind, _ in seen] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]

    serve(case)


def test_a_watch_of_one_namespace_sees_no_other(serve: Any) -> None:
    async def case(server: Any) -> None:
        watch = server.api.watch(server.at("configmaps", namespace="kube-system"))
        await server.make(server.at("configmaps"), config("a"))
        await server.make(server.at("configmaps", namespace="kube-system"), config("b"))
        assert await take(watch, 1) == [("ADDED", "b")]

    serve(case)


def test_initial_events_end_with_a_bookmark(serve: Any) -> None:
    async def case(server: Any) -> None:
        at = server.at("configmaps")
        await server.make(at, config("a"))
        watch = server.api.watch(at, ListOptions(send_initial=True, match="NotOlderThan", bookmarks=True))
        assert await take(watch, 1) == [("ADDED", "a")]
        mark = msgspec.json.decode(await anext(watch))
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert mark["object"]["metadata"]["resourceVersion"] == str(server.api.store.revision)
        assert (mark["object"]["kind"], mark["object"]["apiVersion"]) == ("ConfigMap", "v1")

    serve(case)


def test_initial_events_need_the_right_match(serve: Any) -> None:
    async def case(server: Any) -> None:
        with pytest.raises(ApiError, match="sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"):
            server.api.watch(server.at("configmaps"), ListOptions(send_initial=True))

    serve(case)


def test_bookmarks_are_sent_on_idle_watches(serve: Any) -> None:
    async def case(server: Any) -> None:
        watch = server.api.watch(server.at("configmaps"), ListOptions(bookmarks=True))
        mark = msgspec.json.decode(await asyncio.wait_for(anext(watch), patience(5)))
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"]["resourceVersion"] == str(server.api.store.revision)

    serve(case, bookmark_period_s=0.01)


def test_a_watch_from_a_future_version_waits_for_it(serve: Any) -> None:
    async def case(server: Any) -> None:
        at = server.at("configmaps")
        future = server.api.store.revision + 2
        watch = server.api.watch(at, ListOptions(resource_version=str(future)))
        for name in "abc":
            await server.make(at, config(name))
        assert await take(watch, 1) == [("ADDED", "c")]

    serve(case)


def test_a_watch_from_a_future_version_reports_modifications(serve: Any) -> None:
    async def case(server: Any) -> None:
        at = server.at("configmaps")
        await server.make(at, config("a"))
        watch = server.api.watch(at, ListOptions(resource_version=str(server.api.store.revision + 1)))
        await server.make(at, config("b"))
        await server.put(server.at("configmaps", "a"), config("a", x="1"))
        assert await take(watch, 1) == [("MODIFIED", "a")]

    serve(case)


def test_a_compacted_version_is_expired() -> None:
    from cotenant_local.apiserver.verbs.api import Api

    async def case() -> None:
        api = Api(Store(bounds=HistoryBounds(events=3)))
        await api.bootstrap()
        at = api.target("", "configmaps", "default")
        start = api.store.revision
        for name in "abcde":
            await api.create(at, config(name))
        with pytest.raises(ApiError, match=rf"too old resource version: {start} \({start + 2}\)") as caught:
            api.watch(at, ListOptions(resource_version=str(start)))
        assert (caught.value.code, caught.value.reason) == (410, "Expired")
        assert await take(api.watch(at, ListOptions(resource_version=str(start + 2))), 3)
        first = await api.list(at, ListOptions(limit=1))
        for name in "fghi":
            await api.create(at, config(name))
        with pytest.raises(ApiError, match="continue parameter is too old") as caught:
            await api.list(at, ListOptions(limit=2, continue_token=first.continue_token))
        token = caught.value.status()["metadata"]["continue"]
        rest = await api.list(at, ListOptions(continue_token=token))
        assert [item.name for item in rest.items] == list("bcdefghi")
        await api.close()

    asyncio.run(case())


def test_a_slow_reader_is_disconnected_cleanly(serve: Any) -> None:
    async def case(server: Any) -> None:
        loop = asyncio.get_running_loop()
        channel = Channel(None, None)
        closed: list[WatchStream] = []
        watch = WatchStream(
            channel,
            iter(()),
            mark=None,
            bookmark_period_s=60,
            timeout_s=60,
            buffer_events=3,
            on_close=closed.append,
        )
        for at in range(5):
            watch.push(EventBatch((b"%d\n" % at,)))
        assert watch.was_slow
        assert closed == [watch]
        assert channel.watches == []
        assert [line async for line in watch] == [b"0\n", b"1\n", b"2\n"]
        assert loop.is_running()

    serve(case)


def test_a_watch_ends_at_its_timeout(serve: Any) -> None:
    async def case(server: Any) -> None:
        watch = server.api.watch(server.at("configmaps"), ListOptions(timeout_s=0.01))
        assert [line async for line in watch] == []

    serve(case)


def test_closing_wakes_a_waiting_reader(serve: Any) -> None:
    async def case(server: Any) -> None:
        watch = server.api.watch(server.at("configmaps"))
        waiting = asyncio.ensure_future(watch.chunk())
        await asyncio.sleep(0)
        watch.close()
        assert await waiting == b""

    serve(case)


def test_fifty_watchers_share_each_line(serve: Any) -> None:
    async def case(server: Any) -> None:
        at = server.at("configmaps")
        watches = [server.api.watch(at) for _ in range(50)]
        await server.make(at, config("a"))
        lines = [await watch.chunk() for watch in watches]
        assert len({id(line) for line in lines}) == 1

    serve(case)


def test_history_respects_its_bounds() -> None:
    def stored(revision: int, size: int = 10) -> StoredObject:
        return StoredObject(1, ("", "a"), revision, "u", b"x" * size, {}, ())

    by_count, by_age, by_bytes = (
        EventHistory(0, HistoryBounds(events=2)),
        EventHistory(0, HistoryBounds(age_s=10)),
        EventHistory(0, HistoryBounds(superseded_bytes=25)),
    )
    for at in range(1, 6):
        event = HistoryEvent("MODIFIED", stored(at), stored(at - 1), float(at * 4))
        for history in (by_count, by_age, by_bytes):
            history.append(event)
    assert [event.resource_version for event in by_count] == [4, 5]
    assert [event.resource_version for event in by_age] == [3, 4, 5]
    assert [event.resource_version for event in by_bytes] == [4, 5]
    assert by_count.compacted == 3
    assert [event.resource_version for event in by_count.since(4)] == [5]
