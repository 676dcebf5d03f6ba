"""Lines of the page about hosts: what they show, what selects them, and how much a host can make of them."""

from __future__ import annotations

import pytest

from cotenant.model.fleet.figures import ContainerFigures, HostFigures
from cotenant.model.fleet.host import FunctionHealth, Heartbeat, HostContainer, Registration
from cotenant.model.fleet.requests import GroupRow, HostRow, Member
from cotenant.model.fleet.states import AgentState, ContainerState
from cotenant.services.console.hosts import rows
from cotenant.services.console.hosts.rows import HostQuery

WEB = HostContainer(
    "c-web", ContainerState.READY, "shop/web:1", "shop", "front", "well", 500, 1024, ("80/tcp",), 250, 512, ("cpu=2",)
)
SAID = Registration(
    "agent-1", "node.example", "0.1", "edge", "docker", "north", "shops", ("gpu", "night"), (), 4000, 8 << 30
)
BEAT = Heartbeat(
    "agent-1",
    7,
    100.0,
    revision=3,
    refused=("heartbeat_s",),
    load=1.5,
    cpu_milli=2000,
    memory_bytes=1 << 30,
    containers=(WEB,),
    functions=(FunctionHealth("limits", True, "no keeper"), FunctionHealth("logs", False)),
    exporters=("h:9477",),
)
ROW = HostRow(SAID, AgentState.ALIVE, 0.4321, BEAT)


def test_a_hosts_line_has_what_it_is_has_and_uses() -> None:
    assert rows.host_view(ROW, "n1") == {
        "guid": "agent-1",
        "host": "node.example",
        "state": "ready",
        "silentS": 0.4,
        "isDoubled": False,
        "version": "0.1",
        "role": "edge",
        "platform": "docker",
        "region": "north",
        "namespace": "shops",
        "tags": ["gpu", "night"],
        "cpu": 4000,
        "memory": 8 << 30,
        "usedCpu": 2000,
        "usedMemory": 1 << 30,
        "load": 1.5,
        "states": {"Ready": 1},
        "faults": 2,  # a part that does not work, and a configuration that was refused
        "node": "n1",
    }


def test_what_a_host_used_before_it_fell_silent_is_not_shown() -> None:
    away = rows.host_view(HostRow(SAID, AgentState.AWAY, 99.0, BEAT), "")
    assert (away["state"], away["usedCpu"], away["usedMemory"], away["load"]) == ("away", None, None, None)
    assert away["states"] == {"Ready": 1}
    new = rows.host_view(HostRow(SAID, AgentState.SUSPECT, 0.0), "")
    assert (new["state"], new["usedCpu"], new["states"], new["faults"]) == ("suspect", None, {}, 0)


def test_health_of_an_agents_parts() -> None:
    assert rows.parts_view(ROW) == {
        "functions": [
            {"name": "limits", "isOn": True, "fault": "no keeper"},
            {"name": "logs", "isOn": False, "fault": ""},
        ],
        "refused": ["heartbeat_s"],
        "exporters": ["h:9477"],
        "revision": 3,
        "startedS": 100.0,
    }
    silent = {"functions": [], "refused": [], "exporters": [], "revision": 0, "startedS": None}
    assert rows.parts_view(HostRow(SAID, AgentState.ALIVE, 0.0)) == silent


def test_a_containers_line() -> None:
    assert rows.container_view(ROW, WEB) == {
        "guid": "c-web",
        "agent": "agent-1",
        "host": "node.example",
        "state": "Ready",
        "detail": "well",
        "image": "shop/web:1",
        "group": "shop",
        "appkey": "front",
        "cpuRequest": 500,
        "memoryRequest": 1024,
        "usedCpu": 250,
        "usedMemory": 512,
        "ports": ["80/tcp"],
        "limits": ["cpu=2"],
    }


@pytest.mark.parametrize(
    ("wanted", "is_found"),
    [
        (HostQuery(), True),
        (HostQuery("node.ex"), True),
        (HostQuery("agent"), True),
        (HostQuery("night"), True),
        (HostQuery("shops"), True),
        (HostQuery("shop/web"), True),  # a container on it
        (HostQuery("front"), True),
        (HostQuery("c-web"), True),
        (HostQuery("elsewhere"), False),
        (HostQuery(region="north"), True),
        (HostQuery(region=""), False),
        (HostQuery(tag="gpu"), True),
        (HostQuery(tag="gp"), False),
        (HostQuery(state="ready"), True),
        (HostQuery(state="away"), False),
        (HostQuery("night", tag="gpu", state="away"), False),
        (HostQuery("elsewhere", tag="gpu"), False),
    ],
)
def test_hosts_are_selected_by_all_that_is_asked_for(wanted: HostQuery, is_found: bool) -> None:
    assert wanted.has_host(ROW) is is_found


def test_search_does_not_look_at_the_case_of_what_hosts_say() -> None:
    assert HostQuery("north").matches("The North")
    assert not HostQuery("north").matches()


def test_a_groups_line_and_its_reason_is_longer_than_other_texts() -> None:
    row = GroupRow("shop", "up", False, "r" * 1000, 2)
    shown = rows.group_view(row, [WEB, HostContainer("d", ContainerState.FAILED)])
    assert shown == {
        "name": "shop",
        "goal": "up",
        "isDone": False,
        "reason": "r" * 800,
        "containers": 2,
        "states": {"Ready": 1, "Failed": 1},
    }


@pytest.mark.parametrize(
    ("goal", "is_done", "state"),
    [("up", False, "to-make"), ("up", True, "Unknown"), ("gone", False, "undone"), ("gone", True, "undone")],
)
def test_a_member_that_no_host_reports_is_shown_by_where_its_group_goes(goal: str, is_done: bool, state: str) -> None:
    members = (Member("c-web", "agent-1", "front", "shop/web:1"), Member("c-db", "agent-2", "db", "db:1"))
    row = GroupRow("shop", goal, is_done, "create of db (c-db) on agent-2: no room", 2, members)
    web, db = rows.members_view(row, [(ROW, WEB)], {"agent-1": ROW})
    assert (web["state"], web["hasFailed"]) == ("Ready", False)
    assert db == {
        **dict.fromkeys(("detail", "host"), ""),
        "guid": "c-db",
        "agent": "agent-2",
        "state": state,
        "image": "db:1",
        "group": "shop",
        "appkey": "db",
        "cpuRequest": 0,
        "memoryRequest": 0,
        "usedCpu": None,
        "usedMemory": None,
        "ports": [],
        "limits": [],
        "hasFailed": True,
    }


def test_a_members_host_is_named_where_it_is_known() -> None:
    row = GroupRow("shop", "up", False, "", 1, (Member("c-db", "agent-1", "db", "db:1"),))
    (db,) = rows.members_view(row, [], {"agent-1": ROW})
    assert db["host"] == "node.example"


def host(number: int, region: str, state: AgentState = AgentState.ALIVE, *tags: str) -> HostRow:
    return HostRow(Registration(f"a{number}", "h", "0", region=region, tags=tags), state, 0.0, BEAT)


def test_regions_are_summed_the_largest_first() -> None:
    found = [host(1, "b"), host(2, "a"), host(3, "c", AgentState.AWAY), host(4, "c", AgentState.SUSPECT)]
    assert rows.regions_view(found) == [
        {"name": "c", "others": 0, "hosts": 2, "ready": 0, "suspect": 1, "away": 1, "containers": 2},
        {"name": "a", "others": 0, "hosts": 1, "ready": 1, "suspect": 0, "away": 0, "containers": 1},
        {"name": "b", "others": 0, "hosts": 1, "ready": 1, "suspect": 0, "away": 0, "containers": 1},
    ]


def test_regions_beyond_those_that_are_shown_are_one_line() -> None:
    many = [host(i, f"r{i:03d}") for i in range(rows.MAX_REGIONS + 2)]
    found = rows.regions_view(many)
    assert len(found) == rows.MAX_REGIONS + 1
    assert found[-1] == {"name": "", "others": 2, "hosts": 2, "ready": 2, "suspect": 0, "away": 0, "containers": 2}
    assert len(rows.regions_view(many[: rows.MAX_REGIONS])) == rows.MAX_REGIONS


def test_tags_are_counted_once_a_host_and_the_most_frequent_come_first() -> None:
    tagged = [host(1, "", AgentState.ALIVE, "b", "a", "a"), host(2, "", AgentState.ALIVE, "b", "x" * 201, "y" * 200)]
    assert rows.tags_view(tagged) == [("b", 2), ("a", 1), ("y" * 200, 1)]
    crowd = [host(i, "", AgentState.ALIVE, *(f"t{i}-{n}" for n in range(40))) for i in range(4)]
    found = rows.tags_view(crowd)
    assert len(found) == rows.MAX_TAGS
    assert not any(tag.endswith(("-32", "-39")) for tag, _ in rows.tags_view(crowd[:1]))


def test_figures_have_the_pages_names_and_null_for_what_a_host_has_not() -> None:
    host_figures = rows.figures_view(HostFigures(8, 2500, 3, 16, 0.5, 0.25, 0.125, 10, 20, 30, 40))
    assert host_figures == {
        "cpu": 2500, "system": None, "held": None, "memory": 3, "load1": 0.5, "load5": 0.25, "load15": 0.125,
        "received": 10, "sent": 20, "read": 30, "written": 40, "tasks": None, "oomKills": None, "restarts": None,
    }  # fmt: skip
    found = rows.figures_view(
        ContainerFigures("c", system_milli=5, throttled_permille=6, tasks=7, oom_kills=8, restarts=9)
    )
    assert found is not None
    assert [found[name] for name in ("system", "held", "tasks", "oomKills", "restarts", "cpu")] == [5, 6, 7, 8, 9, None]
    assert rows.figures_view(None) is None


def test_texts_and_lists_of_hosts_are_cut() -> None:
    assert rows.short("x" * 200) == "x" * 200
    assert rows.short("x" * 201) == "x" * 199 + "…"
    assert rows.shorts([str(i) for i in range(50)]) == [str(i) for i in range(32)]
