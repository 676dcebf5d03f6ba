"""Buttons of the view "Autonomy": what each writes, whose they are, and what no other site can press."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest
from tests.fakes.processes import acting_objects as made

from cotenant.drivers.http.messages import HttpAnswer
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import AlreadyExists, Forbidden, NotFound
from cotenant.drivers.kube.kinds.custom.autonomy import AutonomyObject, read_autonomy
from cotenant.services.console.access import Right
from cotenant.services.console.acting.allowing import RIGHTS_BY_REQUEST, Allowing
from cotenant.services.console.acting.board import ActingBoard
from cotenant.services.console.asker import Asker
from cotenant.services.console.fleet import MeasuredFleet
from cotenant.services.console.views.lending import LendingPools
from cotenant.services.console.views.moves import MoveBoard
from cotenant.services.console.views.timeline import RecoveryAct

JSON = {"content-type": "application/json", "sec-fetch-site": "same-origin"}
REQUESTS: dict[tuple[str, str], dict[str, Any]] = {
    ("approve", "sizes"): {"name": "shop/cart", "id": made.SUGGESTED},
    ("undo", "sizes"): {"name": "shop/cart", "id": made.APPLIED},
    ("approve", "lending"): {"name": "old", "id": "0a1b2c3d-2"},
    ("undo", "lending"): {"name": "cluster", "id": "2025-12-31"},
    ("approve", "moves"): {"name": "move-1"},
    ("freeze", ""): {"why": "sale", "actions": ["sizes"], "namespaces": ["shop"]},
    ("thaw", ""): {},
}


class Server:
    """Objects by plural and name, and what was written."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {
            "rightsizings": {"cart": made.right_sizing("cart")},
            "poollendings": {"old": made.waiting_pool("old"), "cluster": made.lending_pool("cluster")},
            "podmigrationjobs": {"move-1": made.waiting_move("move-1", "shop/web")},
            "autonomies": {},
        }
        self.writes: list[Any] = []
        self.is_forbidden = False

    async def all_of(self, kind: Any) -> list[Any]:
        return [msgspec.convert(one, kind.form) for one in self.objects[kind.plural].values()]

    async def get(self, kind: Any, namespace: str, name: str) -> Any:
        found = self.objects[kind.plural].get(name)
        if found is None:
            raise NotFound(f"{kind.plural} {name}")
        return msgspec.convert(found, kind.form)

    async def create(self, kind: Any, namespace: str, body: Any) -> None:
        if body["metadata"]["name"] in self.objects[kind.plural]:
            raise AlreadyExists("it is there")
        self.objects[kind.plural][body["metadata"]["name"]] = body
        self.writes.append(body["spec"])

    async def patch(self, kind: Any, namespace: str, name: str, body: Any, content_type: str = "") -> None:
        if self.is_forbidden:
            raise Forbidden("the console may not patch it")
        self.writes.append(body["spec"])

    async def delete(self, kind: Any, namespace: str, name: str) -> None:
        del self.objects[kind.plural][name]
        self.writes.append("deleted")


class View:
    """One console's view; `lacks`: what a viewer's token may not do."""

    def __init__(self, *, is_on: bool = True) -> None:
        self.server, self.lacks = Server(), set[Right]()
        moves = MoveBoard(MeasuredFleet())
        self.board = ActingBoard(moves, LendingPools(), self._acts, lambda: 0.0, may_change=is_on)
        self.allowing = Allowing(self.board, cast(Client, self.server) if is_on else None)

    async def _acts(self) -> tuple[Sequence[RecoveryAct], str]:
        return (), ""

    def post(self, body: object, path: str = "autonomy", by: str = "alice", **headers: str) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        messages = [{"type": "http.request", "body": data, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return messages.pop() if messages else {"type": "http.disconnect"}

        async def has(right: Right) -> bool:
            return right not in self.lacks

        given = [(name.replace("_", "-").encode(), value.encode()) for name, value in (headers or JSON).items()]
        scope = {"type": "http", "method": "POST", "path": f"/api/{path}", "headers": given}
        answer: HttpAnswer | None = asyncio.run(self.allowing.answer(scope, receive, Asker(by, has)))
        assert answer is not None
        return answer.status, json.loads(answer.body)

    def freeze(self) -> None:
        found = made.autonomy("freeze", freeze={"why": "night"})
        self.server.objects["autonomies"]["freeze"] = found
        self.board.autonomy_seen(read_autonomy(msgspec.convert(found, AutonomyObject)))


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        (("approve", "sizes"), {"approved": made.SUGGESTED, "approvedBy": "alice"}),
        (("undo", "sizes"), {"undo": made.APPLIED}),
        (("approve", "lending"), {"approved": "0a1b2c3d-2", "approvedBy": "alice"}),
        (("undo", "lending"), {"undo": "2025-12-31"}),
        (("approve", "moves"), {"paused": False}),
        (
            ("freeze", ""),
            {"freeze": {"why": "sale", "by": "alice"}, "actions": ["sizes"], "namespaces": ["shop"]},
        ),
    ],
)
def test_each_button_writes_its_words_and_a_line_with_who_pressed_it(
    asked: tuple[str, str], written: Any, caplog: pytest.LogCaptureFixture
) -> None:
    view = View()
    with caplog.at_level(logging.INFO):
        status, body = view.post({"verb": asked[0], "of": asked[1], **REQUESTS[asked]})
    assert (status, view.server.writes) == (200, [written]), body
    assert body["told"]
    (line,) = [record.getMessage() for record in caplog.records if record.name.endswith("allowing")]
    assert line.startswith(asked[0])
    assert "by alice" in line


def test_a_thaw_takes_the_freeze_away() -> None:
    view = View()
    view.freeze()
    assert view.post({"verb": "thaw"}) == (200, {"told": "thawed"})
    assert view.server.writes == ["deleted"]
    assert view.post({"verb": "thaw"}) == (200, {"told": "nothing was frozen"})


def test_a_narrower_freeze_does_not_let_go_what_one_holds_and_a_wider_one_is_taken() -> None:
    view = View()
    view.freeze()
    status, body = view.post({"verb": "freeze", "why": "sale", "actions": ["sizes"]})
    assert (status, "thaw first" in body["error"]) == (400, True)
    assert view.server.writes == []
    assert view.post({"verb": "freeze", "why": "fire"})[0] == 200
    assert view.server.writes == [{"freeze": {"why": "fire", "by": "alice"}, "namespaces": None, "actions": None}]


@pytest.mark.parametrize(("verb", "of"), RIGHTS_BY_REQUEST, ids=str)
def test_each_request_needs_its_rights(verb: str, of: str) -> None:
    for right in RIGHTS_BY_REQUEST[verb, of]:
        view = View()
        view.lacks.add(right)
        status, body = view.post({"verb": verb, "of": of, **REQUESTS[verb, of]})
        assert (status, view.server.writes) == (403, [])
        assert body["error"] == f"your token may not {right.words} in all namespaces"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"verb": "undo", "of": "moves", "name": "move-1"}, "verb: undo moves: expected one of approve sizes"),
        ({"verb": "fly"}, "verb: fly"),
        ({"verb": "approve", "of": "sizes", "name": "shop/cart"}, "what is approved"),
        ({"verb": "approve", "of": "sizes", "name": "shop/cart", "id": "00000000"}, "it has abcdef12"),
        ({"verb": "approve", "of": "sizes", "name": "shop/none", "id": "1"}, "a RightSizing"),
        ({"verb": "approve", "of": "moves", "name": "none"}, "a move"),
        ({"verb": "freeze", "why": " "}, "a reason"),
        ({"verb": "freeze", "why": "w", "actions": ["flights"]}, "sizes, lending, moves"),
        ({"verb": "thaw", "more": 1}, "body"),
        (b"{", "body"),
        (b"[]", "body"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_written(body: object, said: str) -> None:
    view = View()
    status, found = view.post(body)
    assert (status, view.server.writes) == (400, [])
    assert said in found["error"]


def test_what_the_console_itself_may_not_write_is_said(caplog: pytest.LogCaptureFixture) -> None:
    view = View()
    view.server.is_forbidden = True
    status, body = view.post({"verb": "approve", "of": "sizes", **REQUESTS["approve", "sizes"]})
    assert (status, body["error"]) == (403, "the console may not patch it")
    assert "refused" in caplog.text


def test_a_line_of_the_log_is_one_line_whatever_a_name_is(caplog: pytest.LogCaptureFixture) -> None:
    view = View()
    view.post({"verb": "approve", "of": "moves", "name": "a\nINFO approve by root"}, by="eve\r\nx")
    (line,) = [record.getMessage() for record in caplog.records if record.name.endswith("allowing")]
    assert line.isprintable()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/json", "sec-fetch-site": "cross-site"}, 403),
    ],
)
def test_no_other_site_presses_a_button(headers: dict[str, str], status: int) -> None:
    view = View()
    assert view.post({"verb": "thaw"}, **headers)[0] == status
    assert view.server.writes == []


def test_what_is_switched_off_is_said_and_nothing_written() -> None:
    view = View(is_on=False)
    status, body = view.post({"verb": "thaw"})
    assert (status, body["error"]) == (403, "approvals are switched off: cotenant console --approvals")
    assert view.allowing.takes("POST", "/api/autonomy")
    assert not view.allowing.takes("GET", "/api/autonomy")
    assert not view.allowing.takes("POST", "/api/releases/a/b")
    assert View().post({"verb": "thaw"}, path="autonomy/x")[0] == 404
