"""What freezes, thaws, approvals of moves and the question of what was earned ask of an API server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.client.errors import AlreadyExists, Forbidden, NotFound
from cotenant.model.autonomy.autonomy import Action
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.services.autonomy import freezing, moves, standing
from cotenant.services.autonomy.freezing import AutonomyClient
from cotenant.services.autonomy.moves import MoveReceipts
from cotenant.services.autonomy.standing import earned_by_namespace

ALLOWED, SUGGESTED = "cotenant.io/allowed-by", "cotenant.io/suggested"


class Server:
    """Objects by plural and name; a plural that is not there is a kind that is not installed."""

    def __init__(self, **objects: dict[str, dict[str, Any]]) -> None:
        self.objects = objects
        self.writes: list[Any] = []

    def __call__(self, access: object, **options: object) -> Server:
        return self

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    def _of(self, kind: Any) -> dict[str, dict[str, Any]]:
        if kind.plural not in self.objects:
            raise NotFound(f"{kind.plural}: no such kind")
        return self.objects[kind.plural]

    async def all_of(self, kind: Any) -> list[Any]:
        return [msgspec.json.decode(json.dumps(one), type=kind.form) for one in self._of(kind).values()]

    async def get(self, kind: Any, namespace: str, name: str) -> Any:
        found = self._of(kind).get(name)
        if found is None:
            raise NotFound(f"{kind.plural} {name}")
        return msgspec.json.decode(json.dumps(found), type=kind.form)

    async def create(self, kind: Any, namespace: str, body: dict[str, Any]) -> None:
        found = self._of(kind)
        if body["metadata"]["name"] in found:
            raise AlreadyExists(f"{kind.plural} is there")
        found[body["metadata"]["name"]] = body
        self.writes.append(("create", body["spec"]))

    async def patch(self, kind: Any, namespace: str, name: str, body: Any, content_type: str) -> None:
        assert name in self._of(kind)
        self.writes.append((content_type, body))

    async def delete(self, kind: Any, namespace: str, name: str) -> None:
        del self._of(kind)[name]
        self.writes.append(("delete", name))


def asks(monkeypatch: pytest.MonkeyPatch, server: Server) -> Server:
    for module in (freezing, moves, standing):
        monkeypatch.setattr(module, "Client", server)
        monkeypatch.setattr(module, "load_access", lambda kubeconfig, context: None)
    return server


def freeze(name: str = "freeze") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"freeze": {"why": "w", "by": "b"}}}


MERGE = "application/merge-patch+json"


def test_a_freeze_says_why_and_by_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    server = asks(monkeypatch, Server(autonomies={}))
    AutonomyClient().freeze("day", "bob", ("shop",), ("moves", "sizes"))
    asked = {"freeze": {"why": "day", "by": "bob"}, "namespaces": ["shop"], "actions": ["moves", "sizes"]}
    assert server.writes == [("create", asked)]


@pytest.mark.parametrize(
    ("namespaces", "actions", "then"),
    [
        # a merge takes what is null away: all of them stay frozen, whatever the second asks for
        (None, None, (None, None)),
        (["web"], None, (["shop", "web"], None)),
        (["web"], ["moves", "lending"], (["shop", "web"], ["lending", "moves", "sizes"])),
    ],
)
def test_a_second_freeze_adds_to_the_first(
    monkeypatch: pytest.MonkeyPatch,
    namespaces: list[str] | None,
    actions: list[str] | None,
    then: tuple[list[str] | None, list[str] | None],
) -> None:
    of = {"freeze": {"why": "night", "by": "ada"}, "namespaces": namespaces, "actions": actions}
    server = asks(monkeypatch, Server(autonomies={"freeze": {"metadata": {"name": "freeze"}, "spec": of}}))
    AutonomyClient().freeze("day", "bob", ("shop",), ("moves", "sizes"))
    spec = {"freeze": {"why": "day", "by": "bob"}, "namespaces": then[0], "actions": then[1]}
    assert server.writes == [(MERGE, {"spec": spec})]


def test_whoever_may_not_read_what_is_frozen_freezes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(Server):
        async def all_of(self, kind: Any) -> list[Any]:
            raise Forbidden("autonomies may not be listed")

    server = asks(monkeypatch, Closed(autonomies={"freeze": freeze()}))
    AutonomyClient().freeze("day", "bob", ("shop",))
    assert server.writes == [
        (MERGE, {"spec": {"freeze": {"why": "day", "by": "bob"}, "namespaces": None, "actions": None}})
    ]


def test_a_freeze_of_all_after_one_of_some_is_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    of = {"freeze": {"why": "night"}, "namespaces": ["shop"], "actions": ["sizes"]}
    server = asks(monkeypatch, Server(autonomies={"freeze": {"metadata": {"name": "freeze"}, "spec": of}}))
    AutonomyClient().freeze("all", "eve")
    assert server.writes == [
        (MERGE, {"spec": {"freeze": {"why": "all", "by": "eve"}, "namespaces": None, "actions": None}})
    ]


@pytest.mark.parametrize(
    ("why", "actions", "field"), [(" ", (), "--why"), ("", (), "--why"), ("w", ("moves", "flights"), "--action")]
)
def test_a_freeze_without_a_reason_or_of_nothing_known_is_refused(
    monkeypatch: pytest.MonkeyPatch, why: str, actions: Sequence[str], field: str
) -> None:
    server = asks(monkeypatch, Server(autonomies={}))
    with pytest.raises(InvalidInput, match=field):
        AutonomyClient().freeze(why, "ada", (), actions)
    assert server.writes == []


def test_a_thaw_takes_that_freeze_away_and_says_whether_there_was_one(monkeypatch: pytest.MonkeyPatch) -> None:
    server = asks(monkeypatch, Server(autonomies={"b": freeze("b"), "a": freeze("a")}))
    assert [one.name for one in AutonomyClient().all()] == ["a", "b"]
    assert not AutonomyClient().thaw()
    server.objects["autonomies"]["freeze"] = freeze()
    assert AutonomyClient().thaw()
    assert server.writes == [("delete", "freeze")]


def test_without_the_kind_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asks(monkeypatch, Server())
    with pytest.raises(Permanent, match="cotenant crds"):
        AutonomyClient().all()


def job(name: str, at: int = 0, namespace: str = "shop", paused: bool = True, **more: Any) -> dict[str, Any]:
    meta = {
        "name": name,
        "uid": f"u-{name}",
        "resourceVersion": "7",
        "creationTimestamp": f"2026-01-01T00:00:{at:02}Z",
        "annotations": {SUGGESTED: "true"},
    }
    return {
        "metadata": {**meta, **more.pop("metadata", {})},
        "spec": {"paused": paused, "podRef": {"namespace": namespace, "name": "web"}},
        **more,
    }


def test_moves_are_listed_the_newest_first_of_one_namespace_or_of_all(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = [job("old", 1), job("new", 5), job("b", 3, "other"), job("a", 3), job("lost", metadata={"uid": ""})]
    asks(monkeypatch, Server(podmigrationjobs={one["metadata"]["name"]: one for one in jobs}))
    assert [one.name for one in MoveReceipts().all()] == ["new", "a", "b", "old"]
    assert [one.name for one in MoveReceipts().all("other")] == ["b"]
    assert "lost" in caplog.text
    asks(monkeypatch, Server())
    assert MoveReceipts().all() == ()


def test_an_approval_ends_the_pause_of_the_job_that_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    server = asks(monkeypatch, Server(podmigrationjobs={"m": job("m")}))
    MoveReceipts().approve("m", "ada")
    ((content_type, body),) = server.writes
    assert content_type == MERGE
    meta = {"uid": "u-m", "resourceVersion": "7", "annotations": {ALLOWED: "ada"}}
    assert body == {"metadata": meta, "spec": {"paused": False}}


@pytest.mark.parametrize(
    "found",
    [
        job("m", paused=False),
        job("m", metadata={"annotations": {}}),
        job("m", status={"phase": "Succeeded"}),
        job("m", status={"phase": "Failed"}),
    ],
)
def test_a_move_that_waits_for_nobody_cannot_be_approved(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, Any]
) -> None:
    server = asks(monkeypatch, Server(podmigrationjobs={"m": found}))
    with pytest.raises(InvalidInput, match="a move that waits for approval"):
        MoveReceipts().approve("m", "ada")
    with pytest.raises(InvalidInput, match="`cotenant receipts` has them"):
        MoveReceipts().approve("gone", "ada")
    assert server.writes == []


def test_where_no_kind_is_installed_nothing_was_earned(monkeypatch: pytest.MonkeyPatch) -> None:
    asks(monkeypatch, Server())
    assert earned_by_namespace(None, "") == {Action.SIZES: {}, Action.MOVES: {}, Action.LENDING: {}}


def test_namespaces_with_a_right_sizing_are_named_and_of_pools_those_with_a_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sizing(namespace: str) -> dict[str, Any]:
        return {"metadata": {"name": "web", "namespace": namespace, "uid": "u"}, "spec": {"workload": {"name": "web"}}}

    sizes = {"1": sizing("shop"), "2": sizing("bank"), "3": sizing("shop")}
    sizes["4"] = {**sizing("lost"), "status": {"receipts": "none"}}  # not ours: it hides no other
    pools = {"idle": {"metadata": {"name": "idle", "uid": "u"}, "spec": {}, "status": {}}}
    asks(monkeypatch, Server(rightsizings=sizes, poollendings=pools, podmigrationjobs={"m": job("m")}))
    found = earned_by_namespace(None, "")
    assert list(found[Action.SIZES]) == ["bank", "shop"]
    assert (found[Action.MOVES], found[Action.LENDING]) == ({}, {})
