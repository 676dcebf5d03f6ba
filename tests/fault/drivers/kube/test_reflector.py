"""A list/watch cache against a server that does what servers do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.fakes.waiting import patience

from cotenant.drivers.kube.cache.cache import Changed, MalformedObject, Synced
from cotenant.drivers.kube.cache.reflector import ABSENT_S, Reflector
from cotenant.drivers.kube.kinds.pod.schema import PODS


def pod(name: str, version: int, node: str = "", uid: str = "", **more: Any) -> dict[str, Any]:
    spec = {"nodeName": node} if node else {}
    meta = {"name": name, "namespace": "d", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}} | more


def line(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}, ensure_ascii=False).encode() + b"\n"


def bookmark(version: int, initial_end: bool = False) -> bytes:
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if initial_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return line("BOOKMARK", {"kind": "Pod", "metadata": meta})


def page(*items: dict[str, Any], version: int, token: str = "") -> dict[str, Any]:
    return {"kind": "PodList", "metadata": {"resourceVersion": str(version), "continue": token}, "items": list(items)}


class Script:
    """Answers requests in turn; when the script is used up, watches hang and the test has seen everything."""

    def __init__(self, *turns: Any) -> None:
        self.turns = list(turns)
        self.done = asyncio.Event()

    async def __call__(self, exchange: Any) -> None:
        if not self.turns:
            self.done.set()
            await exchange.begin()
            return
        turn = self.turns.pop(0)
        if callable(turn):
            await turn(exchange)
        elif isinstance(turn, dict):
            await exchange.answer(turn)
        else:
            await exchange.begin()
            for chunk in turn:
                await exchange.chunk(chunk)
            await exchange.end()


def play(talking: Any, *turns: Any, **options: Any) -> tuple[Any, list[Any], list[float], Reflector[Any]]:
    """Run a reflector through a script: the server, what was delivered, the pauses taken, and the reflector."""
    heard: list[Any] = []
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def main() -> Any:
        script = Script(*turns)
        async with talking(script) as (server, client):
            reflector = Reflector(client, PODS, heard.extend, random=lambda: 0.5, sleep=sleep, **options)
            task = asyncio.create_task(reflector.run())
            waiter = asyncio.create_task(script.done.wait())
            await asyncio.wait((task, waiter), return_when=asyncio.FIRST_COMPLETED, timeout=patience(5))
            assert script.done.is_set(), task.exception() if task.done() else (heard, server.requests)
            task.cancel()
            waiter.cancel()
            return server, reflector

    server, reflector = asyncio.run(main())
    return server, heard, pauses, reflector


def story(heard: list[Any]) -> list[str]:
    """What was delivered, in words."""
    told = []
    for happening in heard:
        match happening:
            case Changed(_, key, None, new):
                told.append(f"+{key}@{new.metadata.resource_version}")
            case Changed(_, key, _, None):
                told.append(f"-{key}")
            case Changed(_, key, _, new):
                told.append(f"~{key}@{new.metadata.resource_version}")
            case Synced(_, version, objects):
                told.append(f"synced {objects}@{version}")
            case MalformedObject(_, key, _):
                told.append(f"?{key}")
    return told


def asked(server: Any) -> list[str]:
    """Each question: a list, a page with its token, or a watch with its version."""
    shown = []
    for request in server.requests:
        query = request.query
        if query.get("watch"):
            shown.append("stream" if query.get("sendInitialEvents") else f"watch@{query['resourceVersion']}")
        else:
            shown.append(f"list {query.get('continue', '')}/{query.get('limit', 'all')}")
    return shown


def test_lists_in_pages_then_watches(talking: Any) -> None:
    server, heard, pauses, _ = play(
        talking,
        page(pod("a", 3), version=10, token="t1"),
        page(pod("b", 4), version=10),
        [line("ADDED", pod("c", 11)), line("MODIFIED", pod("a", 12, "n")), line("DELETED", pod("b", 13))],
        page=1,
    )
    assert story(heard) == ["+d/a@3", "+d/b@4", "synced 2@10", "+d/c@11", "~d/a@12", "-d/b"]
    assert asked(server) == ["list /1", "list t1/1", "watch@10", "watch@13"]
    assert pauses == []


def test_end_without_error_resumes_from_the_last_version(talking: Any) -> None:
    server, heard, pauses, _ = play(
        talking, page(version=5), [line("ADDED", pod("a", 6)), bookmark(9)], [line("ADDED", pod("b", 12))]
    )
    assert asked(server) == ["list /500", "watch@5", "watch@9", "watch@12"]
    assert story(heard) == ["synced 0@5", "+d/a@6", "+d/b@12"]
    assert pauses == []


def test_dropped_mid_line_resumes_and_loses_nothing(talking: Any) -> None:
    cut = line("ADDED", pod("b", 7))

    async def drop(exchange: Any) -> None:
        await exchange.begin()
        await exchange.chunk(line("ADDED", pod("a", 6)) + cut[: len(cut) // 2])
        exchange.cut()

    server, heard, _, reflector = play(talking, page(version=5), drop, [cut])
    assert story(heard) == ["synced 0@5", "+d/a@6", "+d/b@7"]
    assert asked(server)[2] == "watch@6"
    assert reflector.counts.failures == 1


@pytest.mark.parametrize("in_stream", [True, False])
def test_expired_version_lists_again_and_reports_the_difference(talking: Any, in_stream: bool) -> None:
    async def gone(exchange: Any) -> None:
        if in_stream:
            await exchange.begin()
            status = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}
            await exchange.chunk(line("ERROR", status))
            await exchange.end()
        else:
            await exchange.status(410, "Expired", "too old resource version")

    server, heard, _, reflector = play(
        talking,
        page(pod("stays", 1), pod("changes", 2), pod("goes", 3), pod("again", 4, uid="old"), version=5),
        gone,
        page(pod("stays", 1), pod("changes", 8), pod("comes", 9), pod("again", 10, uid="new"), version=20),
    )
    assert story(heard)[5:] == ["-d/goes", "~d/changes@8", "+d/comes@9", "-d/again", "+d/again@10", "synced 4@20"]
    assert asked(server)[:3] == ["list /500", "watch@5", "list /500"]
    assert asked(server)[-1] == "watch@20"
    assert reflector.counts.expired == 1


def test_watch_that_always_expires_is_no_hot_loop(talking: Any) -> None:
    async def gone(exchange: Any) -> None:
        await exchange.status(410, "Expired")

    turns = [turn for _ in range(5) for turn in (page(version=5), gone)]
    _, _, pauses, _ = play(talking, *turns)
    assert len(pauses) == 5
    assert pauses == sorted(pauses)
    assert pauses[-1] > 4 * pauses[0]


def test_a_page_that_is_too_old_lists_again_with_larger_ones(talking: Any) -> None:
    async def gone(exchange: Any) -> None:
        await exchange.status(410, "Expired", "The provided continue parameter is too old")

    server, heard, _, _ = play(
        talking, page(pod("a", 1), version=5, token="t"), gone, page(pod("b", 6), version=7), page=1
    )
    assert asked(server) == ["list /1", "list t/1", "list /4", "watch@7"]
    assert story(heard) == ["+d/b@6", "synced 1@7"]


def test_server_down_and_back(talking: Any) -> None:
    async def broken(exchange: Any) -> None:
        await exchange.status(503, "ServiceUnavailable", "no etcd")

    async def cut(exchange: Any) -> None:
        exchange.cut()

    # The HTTP library itself repeats a GET once whose kept-alive connection turns out to be closed: hence two cuts.
    _, heard, pauses, _ = play(
        talking, page(pod("a", 1), version=5), broken, cut, cut, broken, [line("ADDED", pod("b", 6))]
    )
    assert story(heard) == ["+d/a@1", "synced 1@5", "+d/b@6"]
    assert len(pauses) == 3
    assert pauses == sorted(pauses)


def test_throttled_waits_as_long_as_asked(talking: Any) -> None:
    async def throttle(exchange: Any) -> None:
        await exchange.answer({}, 429, ("Retry-After: 7",))

    _, _, pauses, _ = play(talking, throttle, page(version=5))
    assert pauses == [7.0]


def test_huge_lines_and_characters_cut_anywhere(talking: Any) -> None:
    huge = pod("a", 6) | {"unknown": "x" * 700_000}
    raw = line("ADDED", huge) + line("ADDED", pod("b", 7) | {"note": "naïve 中文 \u2028"})
    cuts = [raw[:-40], *(raw[i : i + 1] for i in range(len(raw) - 40, len(raw)))]
    _, heard, _, _ = play(talking, page(version=5), cuts)
    assert story(heard) == ["synced 0@5", "+d/a@6", "+d/b@7"]


def test_garbage_is_counted_and_asked_for_again(talking: Any) -> None:
    bad = b'{"type":"ADDED","object":{"metad\n'
    server, heard, pauses, reflector = play(
        talking, page(version=5), [line("ADDED", pod("a", 6)), bad], [bad], page(pod("a", 6), version=8)
    )
    assert asked(server) == ["list /500", "watch@5", "watch@6", "list /500", "watch@8"]
    assert reflector.counts.invalid_lines == 2
    assert len(pauses) == 2
    assert story(heard) == ["synced 0@5", "+d/a@6", "synced 1@8"]


def test_malformed_objects_are_named_and_passed_over(talking: Any) -> None:
    wrong = pod("w", 7) | {"spec": {"containers": "none"}}
    server, heard, pauses, _ = play(
        talking,
        page(pod("a", 1), pod("x", 2) | {"spec": 5}, version=5),
        [line("ADDED", wrong), line("ADDED", pod("b", 8))],
    )
    assert story(heard) == ["?d/x", "+d/a@1", "synced 1@5", "?d/w", "+d/b@8"]
    assert "spec" in heard[0].why
    assert asked(server)[-1] == "watch@8"
    assert pauses == []


def test_an_object_that_becomes_malformed_is_not_taken_for_deleted(talking: Any) -> None:
    async def gone(exchange: Any) -> None:
        await exchange.status(410, "Expired")

    _, heard, _, reflector = play(
        talking, page(pod("a", 1), version=5), gone, page(pod("a", 6) | {"spec": 5}, version=9)
    )
    assert story(heard) == ["+d/a@1", "synced 1@5", "?d/a", "synced 1@9"]
    assert reflector.cache.get("d/a") is not None


def test_duplicates_and_disorder_never_regress(talking: Any) -> None:
    events = [
        line("ADDED", pod("a", 6)),
        line("ADDED", pod("a", 6)),
        line("MODIFIED", pod("a", 9, "n2")),
        line("MODIFIED", pod("a", 8, "n1")),
        line("DELETED", pod("a", 7)),
        line("DELETED", pod("a", 10)),
        line("MODIFIED", pod("a", 9)),
        line("ADDED", pod("a", 12, uid="second")),
    ]
    _, heard, _, reflector = play(talking, page(version=5), events)
    assert story(heard) == ["synced 0@5", "+d/a@6", "~d/a@9", "-d/a", "+d/a@12"]
    assert reflector.cache.stale == 4


def test_a_bind_leaves_the_selection_as_deleted(talking: Any) -> None:
    server, heard, _, _ = play(
        talking,
        page(pod("a", 1), version=5),
        [line("DELETED", pod("a", 6, "n1"))],
        field_selector="spec.nodeName=",
    )
    assert story(heard) == ["+d/a@1", "synced 1@5", "-d/a"]
    assert all(request.query["fieldSelector"] == "spec.nodeName=" for request in server.requests)


def test_streaming_list(talking: Any) -> None:
    server, heard, _, _ = play(
        talking,
        [line("ADDED", pod("a", 3)), line("ADDED", pod("b", 2)), bookmark(9, True), line("DELETED", pod("a", 10))],
        streaming=True,
    )
    assert asked(server) == ["stream", "watch@10"]
    assert server.requests[0].query["resourceVersionMatch"] == "NotOlderThan"
    assert story(heard) == ["+d/a@3", "+d/b@2", "synced 2@9", "-d/a"]


def test_streaming_list_refused_falls_back_to_pages(talking: Any) -> None:
    async def refuse(exchange: Any) -> None:
        await exchange.status(422, "Invalid", "sendInitialEvents is forbidden for watch unless the gate is on")

    server, _, pauses, _ = play(talking, refuse, page(pod("a", 1), version=5), streaming=True)
    assert asked(server) == ["stream", "list /500", "watch@5"]
    assert pauses == []


def test_streaming_list_that_never_ends_falls_back_to_pages(talking: Any) -> None:
    half = [line("ADDED", pod("a", 3))]
    server, heard, _, _ = play(talking, half, half, page(pod("b", 1), version=5), streaming=True)
    assert asked(server) == ["stream", "stream", "list /500", "watch@5"]
    assert story(heard) == ["+d/b@1", "synced 1@5"]


def test_a_silent_server_is_left_and_asked_for_a_list(talking: Any) -> None:
    async def silent(exchange: Any) -> None:
        await exchange.begin()

    server, _, _, _ = play(talking, page(version=5), silent, page(pod("a", 7), version=8), watch_s=0.01, grace_s=0.05)
    assert asked(server)[:3] == ["list /500", "watch@5", "list /500"]


def test_an_answer_that_is_no_list_is_asked_for_again(talking: Any) -> None:
    async def html(exchange: Any) -> None:
        await exchange.answer(b"<html>gateway</html>")

    _, heard, pauses, _ = play(talking, html, page(pod("a", 1), version=5))
    assert story(heard) == ["+d/a@1", "synced 1@5"]
    assert len(pauses) == 1


def test_the_server_goes_away_and_comes_back_at_the_same_place(talking: Any) -> None:
    """Refused connections, for as long as they last; then the watch goes on from where it was."""
    heard: list[Any] = []
    refused = 0

    async def main() -> list[str]:
        nonlocal refused
        first = Script(page(pod("a", 1), version=5), [line("ADDED", pod("b", 6))])
        second = Script([line("ADDED", pod("c", 7))])
        async with talking(first) as (script, client):
            back = asyncio.Event()

            async def sleep(seconds: float) -> None:
                nonlocal refused
                refused += 1
                if refused == 5:
                    script.handler = second
                    await script.listen()
                    back.set()

            reflector = Reflector(client, PODS, heard.extend, random=lambda: 0.5, sleep=sleep)
            task = asyncio.create_task(reflector.run())
            await asyncio.wait_for(first.done.wait(), patience(5))
            script.hang_up()
            await asyncio.wait_for(back.wait(), patience(5))
            await asyncio.wait_for(second.done.wait(), patience(5))
            task.cancel()
            return asked(script)

    questions = asyncio.run(main())
    assert story(heard) == ["+d/a@1", "synced 1@5", "+d/b@6", "+d/c@7"]
    assert questions == ["list /500", "watch@5", "watch@6", "watch@6", "watch@7"]
    assert refused == 5


async def absent(exchange: Any) -> None:
    await exchange.status(404, "NotFound", "the server could not find the requested resource")


def test_an_optional_kind_that_is_absent_is_empty_and_asked_for_again(talking: Any) -> None:
    server, heard, pauses, reflector = play(
        talking, absent, absent, page(pod("a", 7), version=8), [line("ADDED", pod("b", 9))], optional=True
    )
    assert story(heard) == ["synced 0@0", "+d/a@7", "synced 1@8", "+d/b@9"]
    assert asked(server) == ["list /500", "list /500", "list /500", "watch@8", "watch@9"]
    assert pauses == [ABSENT_S, ABSENT_S]
    assert reflector.counts.failures == 0


def test_an_optional_kind_that_is_deleted_takes_its_objects_and_comes_back_anew(talking: Any) -> None:
    server, heard, pauses, _ = play(
        talking,
        page(pod("a", 7), pod("b", 7), version=8),
        [line("DELETED", pod("b", 9))],
        absent,  # the watch
        absent,  # the list
        page(pod("a", 3, uid="second"), version=4),  # its definition was made anew, on a store that began anew
        optional=True,
    )
    assert story(heard) == ["+d/a@7", "+d/b@7", "synced 2@8", "-d/b", "-d/a", "synced 0@0", "+d/a@3", "synced 1@4"]
    assert asked(server) == ["list /500", "watch@8", "watch@9", "list /500", "list /500", "watch@4"]
    assert pauses == [ABSENT_S, ABSENT_S]


def test_an_optional_kind_that_may_not_be_read_is_empty_and_keeps_what_was_known(talking: Any) -> None:
    async def forbidden(exchange: Any) -> None:
        await exchange.status(403, "Forbidden", "pods is forbidden")

    _, heard, pauses, reflector = play(talking, forbidden, page(pod("a", 7), version=8), optional=True)
    assert story(heard) == ["synced 0@0", "+d/a@7", "synced 1@8"]
    assert pauses == [ABSENT_S]
    assert reflector.counts.failures == 0
    gone = line("ERROR", {"code": 410, "reason": "Expired", "message": "too old", "kind": "Status"})
    _, heard, pauses, _ = play(talking, page(pod("a", 7), version=8), [gone], forbidden, optional=True)
    assert story(heard) == ["+d/a@7", "synced 1@8"]
    assert ABSENT_S not in pauses


def test_an_optional_kind_that_goes_between_two_pages(talking: Any) -> None:
    _, heard, _, _ = play(
        talking, page(pod("a", 1), version=5, token="t"), absent, page(version=6), page=1, optional=True
    )
    assert story(heard) == ["synced 0@0", "synced 0@6"]


def test_a_server_that_is_away_is_not_taken_for_an_absent_kind(talking: Any) -> None:
    async def broken(exchange: Any) -> None:
        await exchange.status(503, "ServiceUnavailable", "the group's server is away")

    _, heard, pauses, reflector = play(talking, page(pod("a", 1), version=5), broken, broken, [], optional=True)
    assert story(heard) == ["+d/a@1", "synced 1@5"]  # still there
    assert reflector.counts.failures >= 2
    assert ABSENT_S not in pauses


def test_a_kind_that_is_needed_waits_for_its_definition(talking: Any) -> None:
    _, heard, pauses, reflector = play(talking, absent, page(pod("a", 1), version=5))
    assert story(heard) == ["+d/a@1", "synced 1@5"]
    assert reflector.counts.failures == 1
    assert ABSENT_S not in pauses
