"""Terminals over HTTP: who is let in, what is refused, and a stream that goes on where it was."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from typing import Any

import pytest
from tests.fakes.processes.fake_fleet import FakeTerminals

from cotenant.drivers.http.messages import HttpAnswer
from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.refusal import FleetForbidden
from cotenant.services.console.access import RIGHTS, Right, _subject
from cotenant.services.console.console_arguments import ConsoleArguments, check
from cotenant.services.console.hosts.terminals import Seat, Terminals

JSON = {"content-type": "application/json", "sec-fetch-site": "same-origin"}


class Browser:
    """Requests to the terminals of one console, by a viewer who may stay so often."""

    def __init__(self, host: FakeTerminals | None, stays: int = 1000) -> None:
        self.terminals, self.stays = Terminals(host), stays
        self.sent: list[dict[str, Any]] = []

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> HttpAnswer | None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        messages = [{"type": "http.request", "body": data, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Any) -> None:
            self.sent.append(message)

        async def may_stay() -> bool:
            self.stays -= 1
            return self.stays >= 0

        given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": method, "path": f"/api/terminal/{path}", "headers": given}
        return await self.terminals.answer(scope, receive, send, Seat("alice", may_stay))

    def events(self) -> list[tuple[str, str, str]]:
        """Kind, id and data of what was streamed."""
        text = b"".join(message.get("body", b"") for message in self.sent).decode()
        found = []
        for block in text.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":"))
            if "event" in fields:
                found.append((fields["event"], fields.get("id", ""), fields["data"]))
        return found


def test_a_stream_has_positions_and_goes_on_where_it_was() -> None:
    async def scene() -> None:
        host = FakeTerminals()
        browser = Browser(host)
        opened = await browser.ask("POST", "web-1", {"columns": 80, "rows": 24}, **JSON)
        assert opened is not None
        session = json.loads(opened.body)["session"]
        assert (host.opened[0].viewer, host.opened[0].command) == ("alice", ("sh",))
        typed = await browser.ask("POST", f"web-1/{session}", {"text": "bye\r"}, **JSON)
        assert typed is not None
        assert typed.status == 204
        assert await browser.ask("GET", f"web-1/{session}") is None
        (kind, position, data), (ended, _, why) = browser.events()
        assert (kind, b64decode(data)) == ("page", b"$ bye\r\n$ ")
        assert (ended, json.loads(why)) == ("end", {"why": "the command has ended", "exitCode": 3})
        again = Browser(host)
        await again.ask("GET", f"web-1/{session}", last_event_id=str(int(position) - 2))
        assert b64decode(again.events()[0][2]) == b"$ "

    asyncio.run(scene())


def test_a_pod_is_named_with_tildes() -> None:
    async def scene() -> None:
        host = FakeTerminals()
        browser = Browser(host)
        opened = await browser.ask("POST", "shop~web-1~app", {"columns": 80, "rows": 24}, **JSON)
        assert opened is not None
        session = json.loads(opened.body)["session"]
        await browser.ask("POST", f"shop~web-1~app/{session}", {"text": "bye\r"}, **JSON)
        await browser.ask("GET", f"shop~web-1~app/{session}")
        assert {host.opened[0].guid, host.written[0].guid} == {"shop/web-1/app"}
        assert browser.events()[-1][0] == "end"

    asyncio.run(scene())


def test_a_session_that_ends_ends_the_stream() -> None:
    async def scene() -> None:
        browser = Browser(FakeTerminals(), stays=1)
        opened = await browser.ask("POST", "web-1", {"columns": 80, "rows": 24}, **JSON)
        assert opened is not None
        await browser.ask("GET", f"web-1/{json.loads(opened.body)['session']}")
        assert [event[0] for event in browser.events()] == ["page", "end"]
        assert "the session has ended" in browser.events()[-1][2]

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "why"),
    [
        ("web-1", {"columns": 80, "rows": 24}, {**JSON, "sec-fetch-site": "cross-site"}, 403, "another site"),
        ("web-1", b"columns=80", {"content-type": "text/plain"}, 415, "application/json"),
        ("web-1", b"{", JSON, 400, "JSON"),
        ("web-1", {"columns": 0, "rows": 24}, JSON, 400, "size.columns"),
        ("web-1", {"columns": 80, "rows": 24, "user": "root"}, JSON, 400, "user"),
        ("web-1/../x", {"text": "a"}, JSON, 404, "no such page"),
        ("web-1/0", {"text": "a"}, JSON, 400, "session"),
        (f"web-1/{'0' * 32}", {"text": "a" * 70_000}, JSON, 400, "data"),
    ],
)
def test_what_the_page_would_not_send_is_refused(
    path: str, body: object, headers: dict[str, str], status: int, why: str
) -> None:
    host = FakeTerminals()
    answer = asyncio.run(Browser(host).ask("POST", path, body, **headers))
    assert answer is not None
    assert answer.status == status
    assert why in answer.body.decode()
    assert host.opened == host.written == []


def test_they_are_off_and_the_fleet_s_refusal_is_said() -> None:
    opening = {"columns": 80, "rows": 24}
    off = asyncio.run(Browser(None).ask("POST", "web-1", opening, **JSON))
    assert off is not None
    assert (off.status, b"--terminals" in off.body) == (404, True)
    host = FakeTerminals()
    host.error = FleetForbidden("console may not exec; granted are list")
    refused = asyncio.run(Browser(host).ask("POST", "web-1", opening, **JSON))
    assert refused is not None
    assert (refused.status, b"may not exec" in refused.body) == (403, True)


def test_a_kubernetes_token_needs_the_right_and_names_its_owner() -> None:
    assert RIGHTS["terminal"][0] == Right("", "pods", "create", "exec")
    payload = "eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6c2hvcDphbGljZSJ9"
    assert _subject(f"head.{payload}.signature") == "system:serviceaccount:shop:alice"
    for token in ("opaque", "a.b.c", "a.e30.c"):
        assert _subject(token) == "kubernetes token"


def test_the_option_needs_a_fleet() -> None:
    with pytest.raises(InvalidInput, match="--terminals"):
        check(ConsoleArguments(terminals=True))
    check(ConsoleArguments(terminals=True, fleet="local"))
