"""`cotenant fleet`: what people read, and what is refused before anything is asked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant.cli.fleet import showing
from cotenant.cli.main import main
from cotenant.model.fleet.group import GroupOutcome
from cotenant.model.fleet.host import FunctionHealth, Heartbeat, HostContainer, Registration
from cotenant.model.fleet.requests import GroupRow, HostRow, Listed, Member, Spread
from cotenant.model.fleet.states import AgentState, ContainerState

WEB = HostContainer(
    "web-1",
    ContainerState.READY,
    group="shop",
    appkey="web",
    cpu_milli=250,
    memory_bytes=3 << 20,
    limits=("cpu=2 for 9m",),
)
BEAT = Heartbeat("agent-a", 1, 0.0, containers=(WEB,), functions=(FunctionHealth("limits", False, "no keeper"),))
HOST = Registration("agent-a", "host-a", "1", tags=("edge",))


def test_a_group_that_is_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert showing.show_outcome(GroupOutcome("shop", {"web": "web-1"}), "up", False) == 0
    assert capsys.readouterr().out == "shop is up\n  web: web-1\n"


def test_a_group_that_failed_and_one_that_left_something(capsys: pytest.CaptureFixture[str]) -> None:
    assert showing.show_outcome(GroupOutcome("shop", {}, "start of web: no"), "up", False) == 1
    assert capsys.readouterr().err == "shop is not up: start of web: no\n  nothing of it is left\n"
    assert showing.show_outcome(GroupOutcome("shop", {}, "", ("web-1 on agent-a: away",)), "down", False) == 1
    assert "left, and removed when that is possible: web-1 on agent-a: away" in capsys.readouterr().err


def test_containers_and_hosts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    listed = Listed((HostRow(HOST, AgentState.AWAY, 12.0, BEAT),), (GroupRow("shop", "gone", True, "start failed", 1),))
    showing.show_containers(listed, False)
    shown = capsys.readouterr().out
    for word in (
        "web-1",
        "shop",
        "Ready",
        "host-a",
        "0.25",
        "3.0 MiB",
        "cpu=2 for 9m",
        "group shop: undone: start failed",
    ):
        assert word in shown
    showing.show_hosts(listed, False)
    shown = capsys.readouterr().out
    for word in ("agent-a", "away for 12 s", "edge", "limits: no keeper"):
        assert word in shown
    showing.show_hosts(listed, True)
    assert json.loads(capsys.readouterr().out)["hosts"][0]["state"] == "away"


def test_a_group_whose_record_is_lost_is_shown_by_its_labels(capsys: pytest.CaptureFixture[str]) -> None:
    listed = Listed((HostRow(HOST, AgentState.ALIVE, 0.1, BEAT),), ())
    assert showing.group_of_labels("front", listed) is None
    found = showing.group_of_labels("shop", listed)
    assert found is not None
    assert showing.show_group(replace(listed, groups=(found,)), False) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "shop",
        "  state: known by its containers' labels only: cotenant fleet down shop removes it",
    ]


def test_a_group_with_members_that_are_there_and_not(capsys: pytest.CaptureFixture[str]) -> None:
    members = (Member("web-1", "agent-a", "web", "web:1"), Member("db-2", "agent-b", "db", "db:1"))
    listed = Listed((HostRow(HOST, AgentState.ALIVE, 0.1, BEAT),), (GroupRow("shop", "up", True, "", 2, members),))
    assert showing.show_group(listed, False) == 0
    assert capsys.readouterr().out.splitlines() == [
        "shop",
        "  state: up",
        "  web: web-1, Ready, web:1, on host-a",
        "  db: db-2, not there, db:1, on agent-b",
    ]
    undone = Listed((), (GroupRow("shop", "gone", True, "start of web: no", 2),))
    showing.show_group(undone, False)
    assert capsys.readouterr().out == "shop\n  state: undone: start of web: no\n"
    showing.show_group(listed, True)
    assert json.loads(capsys.readouterr().out)["members"][1]["guid"] == "db-2"


def test_a_configuration_that_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert showing.show_spread("edge", "docker", Spread(3, 1, {"agent-b": "keeper: no"}), False) == 1
    assert capsys.readouterr().out.splitlines() == [
        "configuration 3 of edge on docker: 1 agents use it",
        "  agent-b: keeper: no",
    ]


def test_a_dry_run_shows_the_order_and_asks_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shop.yml").write_text("services: {web: {image: w, depends_on: [db]}, db: {image: d}}")
    assert main(["fleet", "up", str(tmp_path / "shop.yml"), "--dry-run"]) == 0
    assert capsys.readouterr().out == "group shop: db -> web\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["up", "nothing.yml"], "FILE: nothing.yml: expected a readable file"),
        (["limit", "web-1", "cpu"], "LIMITS: cpu: expected NAME=VALUE"),
        (["limit", "web-1", "cpu=2", "--for", "soon"], "--for: soon: expected a duration"),
        (["ps", "--state-dir", "/nowhere"], "--bus: : expected nats://HOST:PORT; or start a fleet of this machine"),
        (["agent", "--guid", "A b"], "--guid: A b: expected a guid"),
        (["keys", "nothing.yml"], "fleet file: nothing.yml: expected a readable file"),
    ],
)
def test_what_is_refused_at_once(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COTENANT_BUS", raising=False)
    assert main(["fleet", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_fleet_file_that_is_wrong_names_the_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fleet.yml"
    path.write_text("operators: [{name: bob, verbs: [destroy]}]")
    assert main(["fleet", "keys", str(path)]) == 2
    assert "verbs: destroy: expected one of list, inspect" in capsys.readouterr().err
