"""The client against servers that refuse, stall and cut."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.fakes.waiting import patience

from cotenant.drivers.kube.client import errors
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.connections import IDLE_S
from cotenant.drivers.kube.client.credentials import Credential
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.drivers.kube.kinds.parts import ObjectReference
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.model.errors import InvalidInput


def ask(talking: Any, handler: Any, question: Callable[[Client], Awaitable[Any]], **options: Any) -> tuple[Any, Any]:
    """One conversation: the server, and what the question returned."""

    async def main() -> tuple[Any, Any]:
        async with talking(handler, **options) as (server, client):
            return server, await asyncio.wait_for(question(client), patience(5))

    return asyncio.run(main())


async def okay(exchange: Any) -> None:
    await exchange.answer({"kind": "Status", "status": "Success"}, 201)


def test_bind_says_everything_at_once(talking: Any) -> None:
    server, _ = ask(
        talking, okay, lambda c: c.bind("d", "p", "uid-1", "n1", {"cotenant.io/decision": "why"}, {"a": "b"})
    )
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/d/pods/p/binding")
    assert request.headers["content-type"] == "application/json"
    assert request.headers["authorization"] == "Bearer t"
    assert json.loads(request.body) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "p",
            "namespace": "d",
            "uid": "uid-1",
            "annotations": {"cotenant.io/decision": "why"},
            "labels": {"a": "b"},
        },
        "target": {"kind": "Node", "name": "n1"},
    }


def test_names_cannot_leave_their_place_in_the_path(talking: Any) -> None:
    server, _ = ask(talking, okay, lambda c: c.bind("d", "../../x?y", "", "n1"))
    assert server.requests[0].path == "/api/v1/namespaces/d/pods/..%2F..%2Fx%3Fy/binding"


def test_evict_delete_patch_and_get(talking: Any) -> None:
    async def question(client: Client) -> Any:
        await client.evict("d", "p", "u1", grace_s=30)
        await client.delete(PODS, "d", "p", uid="u1", grace_s=0)
        await client.patch_status(PODS, "d", "p", {"status": {"nominatedNodeName": "n"}})
        return await client.get(NODES, "", "n")

    async def handler(exchange: Any) -> None:
        await exchange.answer({"metadata": {"name": "n", "unknown": 1}, "spec": {"unschedulable": True}})

    server, node = ask(talking, handler, question)
    evict, delete, patch, get = server.requests
    assert evict.path == "/api/v1/namespaces/d/pods/p/eviction"
    assert json.loads(evict.body)["deleteOptions"]["preconditions"] == {"uid": "u1"}
    assert json.loads(delete.body)["preconditions"] == {"uid": "u1"}
    assert json.loads(delete.body)["gracePeriodSeconds"] == 0
    assert patch.path.endswith("/pods/p/status")
    assert patch.headers["content-type"] == "application/strategic-merge-patch+json"
    assert get.path == "/api/v1/nodes/n"
    assert "content-type" not in get.headers
    assert node.spec.unschedulable


@pytest.mark.parametrize(
    ("code", "reason", "form"),
    [
        (409, "Conflict", errors.Conflict),
        (404, "NotFound", errors.NotFound),
        (429, "TooManyRequests", errors.Throttled),
        (500, "InternalError", errors.Unavailable),
        (422, "Invalid", errors.Invalid),
    ],
)
def test_refusals(talking: Any, code: int, reason: str, form: type[Exception]) -> None:
    async def refuse(exchange: Any) -> None:
        await exchange.status(code, reason, "no")

    with pytest.raises(form, match="POST /api/v1/namespaces/d/pods/p/binding: "):
        ask(talking, refuse, lambda c: c.bind("d", "p", "u", "n"))


@pytest.mark.parametrize(
    ("code", "details", "form"),
    [
        (422, {}, errors.Conflict),  # the test of the UID failed
        (422, {"causes": [{"field": "", "reason": "UnexpectedServerResponse"}]}, errors.Conflict),
        (422, {"causes": [{"field": "status.phase", "reason": "FieldValueInvalid"}]}, errors.Invalid),
        (400, {}, errors.Invalid),
        (409, {}, errors.Conflict),
    ],
)
def test_a_status_that_is_not_taken(talking: Any, code: int, details: Any, form: type[Exception]) -> None:
    async def refuse(exchange: Any) -> None:
        reason = "Conflict" if code == 409 else "Invalid"
        await exchange.answer({"kind": "Status", "code": code, "reason": reason, "details": details}, code)

    async def question(client: Client) -> None:
        with pytest.raises(errors.Refused) as caught:
            await client.set_status(NODES, "", "n", "u1", {"phase": "x"})
        assert type(caught.value) is form

    server, _ = ask(talking, refuse, question)
    (request,) = server.requests
    assert request.headers["content-type"] == "application/json-patch+json"
    assert json.loads(request.body) == [
        {"op": "test", "path": "/metadata/uid", "value": "u1"},
        {"op": "add", "path": "/status", "value": {"phase": "x"}},
    ]


def test_parts_of_a_status_then_a_first_one(talking: Any) -> None:
    async def handler(exchange: Any) -> None:
        if b"/status/phase" in exchange.request.body:
            await exchange.answer({"kind": "Status", "code": 422, "reason": "Invalid"}, 422)
        else:
            await exchange.answer({})

    server, _ = ask(talking, handler, lambda c: c.set_status(NODES, "", "n", "u1", {"phase": "x"}, keeps=True))
    parts, whole = (json.loads(request.body) for request in server.requests)
    assert parts[1:] == [{"op": "add", "path": "/status/phase", "value": "x"}]
    assert whole[1:] == [{"op": "add", "path": "/status", "value": {"phase": "x"}}]


def test_a_status_without_its_subresource_is_patched_into_the_object(
    talking: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(exchange: Any) -> None:
        if exchange.request.path.endswith("/status"):
            await exchange.status(404, "NotFound", "no")  # as for an object that is gone
        else:
            (_, change) = json.loads(exchange.request.body)
            await exchange.answer({"metadata": {"uid": "u1"}, "status": change["value"]})

    async def question(client: Client) -> None:
        for phase in "xy":
            await client.set_status(NODES, "", "n", "u1", {"phase": phase})

    with caplog.at_level("INFO"):
        server, _ = ask(talking, handler, question)
    assert [request.path.rpartition("/")[2] for request in server.requests] == ["status", "n", "n"]
    assert [json.loads(request.body)[0]["value"] for request in server.requests] == ["u1"] * 3
    assert sum("has no status subresource" in record.message for record in caplog.records) == 1


def test_a_status_subresource_that_comes_later_is_noticed(talking: Any) -> None:
    has_it = False

    async def handler(exchange: Any) -> None:
        own = exchange.request.path.endswith("/status")
        (_, change) = json.loads(exchange.request.body)
        if own and not has_it:
            await exchange.status(404, "NotFound", "no")
        elif own or not has_it:
            await exchange.answer({"status": change["value"]})
        else:
            await exchange.answer({"status": {"phase": "x"}})  # a change of the status is ignored there

    async def question(client: Client) -> None:
        nonlocal has_it
        await client.set_status(NODES, "", "n", "u1", {"phase": "x"})
        has_it = True
        for phase in "yz":
            await client.set_status(NODES, "", "n", "u1", {"phase": phase})

    server, _ = ask(talking, handler, question)
    assert [request.path.rpartition("/")[2] for request in server.requests] == ["status", "n", "n", "status", "status"]


def test_a_status_of_an_object_that_is_gone(talking: Any) -> None:
    async def refuse(exchange: Any) -> None:
        await exchange.status(404, "NotFound", "no")

    with pytest.raises(errors.NotFound):
        ask(talking, refuse, lambda c: c.set_status(NODES, "", "n", "u1", {"phase": "x"}))


def test_connection_cut_after_a_write_may_have_taken_effect(talking: Any) -> None:
    async def cut(exchange: Any) -> None:
        exchange.cut()

    with pytest.raises(errors.Unavailable) as caught:
        ask(talking, cut, lambda c: c.bind("d", "p", "u", "n"))
    assert caught.value.maybe_done


def test_a_write_is_never_repeated_by_itself(talking: Any) -> None:
    async def handler(exchange: Any) -> None:
        if exchange.request.method == "GET":
            await exchange.answer({})
        else:
            exchange.cut()

    async def question(client: Client) -> int:
        await client.request("GET", "/version")  # so that the connection is one that was kept alive
        with pytest.raises(errors.Unavailable):
            await client.bind("d", "p", "u", "n")
        return 0

    server, _ = ask(talking, handler, question)
    assert [request.method for request in server.requests] == ["GET", "POST"]


def test_server_that_is_not_there_has_done_nothing(talking: Any) -> None:
    async def question(client: Client) -> bool:
        gone = Client(
            client.access.__class__("http://127.0.0.1:1", client.access.credentials), qps=9, burst=1, in_flight=1
        )
        async with gone:
            try:
                await gone.bind("d", "p", "u", "n")
            except errors.Unavailable as error:
                return error.maybe_done
        raise AssertionError

    assert ask(talking, okay, question)[1] is False


def test_server_that_does_not_answer(talking: Any) -> None:
    async def stall(exchange: Any) -> None:
        pass

    with pytest.raises(errors.Unavailable) as caught:
        ask(talking, stall, lambda c: c.bind("d", "p", "u", "n"), timeout_s=0.2)
    assert caught.value.maybe_done


def test_answers_that_are_no_object(talking: Any) -> None:
    async def html(exchange: Any) -> None:
        await exchange.answer(b"<html>")

    with pytest.raises(errors.Unavailable, match="no Node"):
        ask(talking, html, lambda c: c.get(NODES, "", "n"))


def test_redirects_are_not_followed_with_our_token(talking: Any) -> None:
    async def away(exchange: Any) -> None:
        await exchange.answer({}, 302, ("Location: http://elsewhere/",))

    with pytest.raises(InvalidInput, match="302"):
        ask(talking, away, lambda c: c.request("GET", "/version"))


class Tokens:
    """A source whose token changes when it is refused."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)

    def current(self, now_s: float) -> Credential | None:
        return Credential(f"Bearer {self.tokens[0]}")

    async def renew(self, now_s: float) -> Credential:
        raise AssertionError

    def reject(self, credential: Credential) -> None:
        if len(self.tokens) > 1:
            self.tokens.pop(0)


async def only_good(exchange: Any) -> None:
    if exchange.request.headers["authorization"] == "Bearer good":
        await exchange.answer({})
    else:
        await exchange.status(401, "Unauthorized")


@pytest.mark.parametrize("streams", [False, True])
def test_a_refused_token_is_renewed_once(talking: Any, streams: bool) -> None:
    async def question(client: Client) -> None:
        if streams:
            async with client.stream("/api/v1/pods", silence_s=patience(5)) as chunks:
                async for _ in chunks:
                    pass
        else:
            await client.request("GET", "/version")

    server, _ = ask(talking, only_good, question, credentials=Tokens("old", "good"))
    assert len(server.requests) == 2
    with pytest.raises(errors.Unauthorized):
        ask(talking, only_good, question, credentials=Tokens("old", "older", "good"))
    with pytest.raises(errors.Unauthorized):
        ask(talking, only_good, question, credentials=Tokens("old"))


def test_connections_are_kept_and_requests_bounded(talking: Any) -> None:
    under_way = peak = 0

    async def slow(exchange: Any) -> None:
        nonlocal under_way, peak
        under_way += 1
        peak = max(peak, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        await exchange.answer({})

    async def question(client: Client) -> None:
        await asyncio.gather(*(client.bind("d", f"p{i}", "u", "n") for i in range(40)))

    server, _ = ask(talking, slow, question, in_flight=4)
    assert peak <= 4
    assert server.connections <= 4
    assert len(server.requests) == 40


def test_the_rate_is_kept(talking: Any) -> None:
    async def question(client: Client) -> tuple[int, float]:
        await asyncio.gather(*(client.bind("d", f"p{i}", "u", "n") for i in range(6)))
        return client.limiter.delayed, client.limiter.delayed_s

    _, (delayed, delayed_s) = ask(talking, okay, question, qps=200.0, burst=2, monotonic=lambda: 0.0)
    assert delayed == 4
    assert delayed_s == pytest.approx(0.005 + 0.010 + 0.015 + 0.020)


def test_silence_in_a_stream(talking: Any) -> None:
    async def silent(exchange: Any) -> None:
        await exchange.begin()

    async def question(client: Client) -> None:
        async with client.stream("/x", silence_s=0.02) as chunks:
            async for _ in chunks:
                pass

    with pytest.raises(errors.StreamTimeout):
        ask(talking, silent, question)


def test_references_are_written_without_what_is_absent(talking: Any) -> None:
    from cotenant.drivers.kube.kinds.event import Event, EventSource
    from cotenant.drivers.kube.kinds.parts import ObjectMeta

    event = Event(
        metadata=ObjectMeta(name="e", namespace="d"),
        involved_object=ObjectReference(kind="Pod", name="p"),
        reason="R",
        message="m",
        type="Normal",
        source=EventSource("us"),
    )
    server, _ = ask(talking, okay, lambda c: c.create_event("d", event))
    assert json.loads(server.requests[0].body) == {
        "metadata": {"name": "e", "namespace": "d"},
        "involvedObject": {"kind": "Pod", "name": "p"},
        "reason": "R",
        "message": "m",
        "type": "Normal",
        "source": {"component": "us"},
    }


def test_impersonation_sends_every_group(talking: Any) -> None:
    async def question(client: Client) -> None:
        groups = (("Impersonate-User", "me"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
        access = dataclasses.replace(client.access, headers=groups)
        async with Client(access, qps=1e6, burst=9, in_flight=1) as other:
            await other.request("GET", "/version")
            async with other.stream("/x", silence_s=patience(5)) as chunks:
                async for _ in chunks:
                    pass

    server, _ = ask(talking, okay, question)
    for request in server.requests:
        assert [pair for pair in request.pairs if pair[0].startswith("impersonate")] == [
            ("impersonate-user", "me"),
            ("impersonate-group", "a"),
            ("impersonate-group", "b"),
        ]


def test_a_connection_that_the_server_ends_is_not_used_again(talking: Any) -> None:
    async def once(exchange: Any) -> None:
        await exchange.answer({}, 201, ("Connection: close",))

    async def question(client: Client) -> None:
        for i in range(3):
            await client.bind("d", f"p{i}", "u", "n")

    server, _ = ask(talking, once, question)
    assert server.connections == 3


def test_answers_in_chunks_and_after_an_interim_one(talking: Any) -> None:
    async def chunked(exchange: Any) -> None:
        await exchange.send(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
        await exchange.begin()
        for part in (b'{"metadata":', b'{"name":"n"}}'):
            await exchange.chunk(part)
        await exchange.end()

    async def question(client: Client) -> list[Any]:
        return [(await client.get(NODES, "", "n")).metadata.name for _ in range(2)]

    server, names = ask(talking, chunked, question)
    assert names == ["n", "n"]
    assert server.connections == 1


@pytest.mark.parametrize("raw", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b"\x16\x03\x01"])
def test_answers_that_are_no_http(talking: Any, raw: bytes) -> None:
    async def babble(exchange: Any) -> None:
        await exchange.send(raw)
        exchange.cut()

    with pytest.raises(errors.Unavailable):
        ask(talking, babble, lambda c: c.bind("d", "p", "u", "n"))


def test_a_second_answer_does_not_pass_for_the_next(talking: Any) -> None:
    async def twice(exchange: Any) -> None:
        body = json.dumps({"metadata": {"name": exchange.request.path.rpartition("/")[2]}}).encode()
        stray = body.replace(b"name", b"miss")
        await exchange.send(
            b"".join(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(b), b) for b in (body, stray))
        )

    async def question(client: Client) -> list[Any]:
        return [(await client.get(NODES, "", name)).metadata.name for name in ("a", "b", "c")]

    assert ask(talking, twice, question)[1] == ["a", "b", "c"]


def test_a_cancelled_request_leaves_no_answer_behind(talking: Any) -> None:
    arrived, cancelled = asyncio.Event(), asyncio.Event()

    async def slow(exchange: Any) -> None:
        if exchange.request.path.endswith("slow"):
            arrived.set()
            await cancelled.wait()
        await exchange.answer({"metadata": {"name": exchange.request.path.rpartition("/")[2]}})

    async def question(client: Client) -> Any:
        asking = asyncio.create_task(client.get(NODES, "", "slow"))
        await arrived.wait()
        asking.cancel()
        await asyncio.wait((asking,))
        cancelled.set()
        return (await client.get(NODES, "", "quick")).metadata.name

    assert ask(talking, slow, question, in_flight=1)[1] == "quick"


def test_paths_and_headers_cannot_carry_a_second_request(talking: Any) -> None:
    with pytest.raises(InvalidInput, match="path"):
        ask(talking, okay, lambda c: c.request("GET", "/a HTTP/1.1\r\nX: y"))

    async def question(client: Client) -> None:
        access = dataclasses.replace(client.access, headers=(("Impersonate-User", "a\r\nX: y"),))
        async with Client(access, qps=1e6, burst=9, in_flight=1) as other:
            await other.request("GET", "/version")

    with pytest.raises(InvalidInput, match="Impersonate-User"):
        ask(talking, okay, question)


def test_a_kept_connection_that_was_closed_meanwhile_costs_a_read_nothing(talking: Any) -> None:
    async def handler(exchange: Any) -> None:
        if exchange.request.path == "/two" and len(server_requests) == 1:
            server_requests.append("cut")
            exchange.cut()
        else:
            server_requests.append(exchange.request.path)
            await exchange.answer({})

    server_requests: list[str] = []

    async def question(client: Client) -> None:
        await client.request("GET", "/one")
        await client.request("GET", "/two")

    ask(talking, handler, question)
    assert server_requests == ["/one", "cut", "/two"]


def test_a_certificate_that_changes_takes_new_connections_and_lets_old_requests_end(talking: Any) -> None:
    retired = asyncio.Event()

    async def slow(exchange: Any) -> None:
        await retired.wait()
        await exchange.answer({}, 201)

    async def question(client: Client) -> None:
        first = asyncio.create_task(client.bind("d", "p", "u", "n"))
        while client._connections is None:
            await asyncio.sleep(0)
        client._connections.retire()
        client._connections = None
        retired.set()
        await client.bind("d", "q", "u", "n")
        await first

    server, _ = ask(talking, slow, question)
    assert server.connections == 2


def test_through_a_proxy(talking: Any) -> None:
    async def handler(exchange: Any) -> None:
        if exchange.request.method == "GET":
            await exchange.answer({"metadata": {"name": "n"}})
        else:
            await exchange.status(409, "Conflict", "no")

    async def question(client: Client) -> None:
        access = dataclasses.replace(client.access, server="http://cluster.invalid", proxy=client.access.server)
        async with Client(access, qps=1e6, burst=9, in_flight=1) as other:
            assert (await other.get(NODES, "", "n")).metadata.name == "n"
            with pytest.raises(errors.Conflict):
                await other.bind("d", "p", "u", "n")

    server, _ = ask(talking, handler, question)
    assert [request.headers["host"] for request in server.requests] == ["cluster.invalid"] * 2
    assert server.requests[1].headers["authorization"] == "Bearer t"


def test_a_server_below_a_path(talking: Any) -> None:
    async def question(client: Client) -> None:
        access = dataclasses.replace(client.access, server=f"{client.access.server}/k8s/clusters/c1")
        async with Client(access, qps=1e6, burst=9, in_flight=1) as other:
            await other.bind("d", "p", "u", "n")
            async with other.stream("/api/v1/pods", silence_s=patience(5)) as chunks:
                async for _ in chunks:
                    pass

    server, _ = ask(talking, okay, question)
    assert [request.path for request in server.requests] == [
        "/k8s/clusters/c1/api/v1/namespaces/d/pods/p/binding",
        "/k8s/clusters/c1/api/v1/pods",
    ]


def test_a_connection_that_was_idle_for_long_is_not_trusted(talking: Any) -> None:
    async def question(client: Client) -> None:
        for i in range(3):
            await client.bind("d", f"p{i}", "u", "n")
            if i == 1:
                assert client._connections is not None
                (connection,) = client._connections._free
                connection.free_s -= IDLE_S + 1

    server, _ = ask(talking, okay, question)
    assert server.connections == 2
