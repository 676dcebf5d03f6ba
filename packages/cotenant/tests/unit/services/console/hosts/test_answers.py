"""What the view "Fleet" answers: selection and sums, a thousand hosts in bounded pages, one question to the fleet for
many viewers, members of a group that failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from tests.fakes.processes.fake_fleet import FakeFleet, container, host

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.model.errors import InvalidInput, Transient
from cotenant.model.fleet.host import FunctionHealth
from cotenant.model.fleet.requests import GroupRow, Member
from cotenant.model.fleet.states import AgentState, ContainerState
from cotenant.services.console.hosts import rows
from cotenant.services.console.hosts.answers import MAX_FOUND, HostAnswers
from cotenant.services.console.hosts.known import PERIOD_S, STALE_S, KnownFleet
from cotenant.services.console.sources import FLEET, ConsoleSources
from cotenant.services.console.upstream import Unanswered


class Console:
    """The section over a fleet, with a clock of the test's."""

    def __init__(self, fleet: FakeFleet) -> None:
        self.fleet, self.now_s, self.versions = fleet, 100.0, list[int]()
        self.sources = ConsoleSources(lambda: self.now_s)
        self.known = KnownFleet(fleet, self.sources, lambda: self.now_s, self.versions.append)
        self.answers = HostAnswers(self.known, lambda name: name == "host-0001")

    async def ask(self, *names: str, **query: str) -> Any:
        return msgspec.json.decode(msgspec.json.encode(await self.answers.answer(names, query)))


def asked(fleet: FakeFleet, *names: str, **query: str) -> Any:
    return asyncio.run(Console(fleet).ask(*names, **query))


SHOP = FakeFleet(
    hosts=(
        host(
            1, (container("web-1", group="shop", appkey="web"), container("db-1", ContainerState.FAILED)), region="eu"
        ),
        host(2, (container("cam-2", image="camera:2"),), region="eu", tags=("edge", "gpu")),
        host(3, state=AgentState.AWAY, tags=("edge",)),
    ),
    groups={"shop": GroupRow("shop", "up", True, "", 1)},
)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["host-0001", "host-0002", "host-0003"]),
        ({"region": "eu"}, ["host-0001", "host-0002"]),
        ({"region": ""}, ["host-0003"]),  # hosts that name none
        ({"tag": "edge"}, ["host-0002", "host-0003"]),
        ({"state": "away"}, ["host-0003"]),
        ({"q": "GPU"}, ["host-0002"]),
        ({"q": "camera"}, ["host-0002"]),  # by a container on it
        ({"q": "shop"}, ["host-0001"]),
        ({"q": "nothing"}, []),
        ({"start": "1", "limit": "1"}, ["host-0002"]),
    ],
)
def test_hosts_are_found_by_what_names_them_or_a_container_on_them(query: Mapping[str, str], names: list[str]) -> None:
    assert [row["host"] for row in asked(SHOP, **query)["rows"]] == names


def test_sums_are_of_the_whole_fleet_whatever_is_searched() -> None:
    page = asked(SHOP, q="camera")
    assert (page["hosts"], page["containers"], page["count"]) == (3, 3, 1)
    assert page["states"] == {"ready": 2, "suspect": 0, "away": 1}
    assert [(row["name"], row["hosts"], row["away"], row["containers"]) for row in page["regions"]] == [
        ("eu", 2, 0, 3),
        ("", 1, 1, 0),
    ]
    assert page["tags"] == [["edge", 2], ["gpu", 1]]
    assert [found["guid"] for found in page["found"]] == ["cam-2"]
    assert page["groups"] == []


def test_a_host_has_its_parts_its_containers_with_figures_and_its_node() -> None:
    fault = FunctionHealth("logs", True, "journald has no files")
    fleet = FakeFleet(hosts=(host(1, (container("web-1", limits=("cpu=2",)),), faults=(fault,)),))
    page = asked(fleet, "host", "agent-0001")
    assert (page["node"], page["faults"], page["figures"]["load1"]) == ("host-0001", 1, 0.75)
    assert page["functions"][1] == {"name": "logs", "isOn": True, "fault": "journald has no files"}
    assert (page["containers"][0]["limits"], page["containers"][0]["figures"]["system"]) == (["cpu=2"], 40)
    assert asked(fleet, "host", "host-0001")["guid"] == "agent-0001"  # by its name
    with pytest.raises(NotFound):
        asked(fleet, "host", "elsewhere")


def test_a_host_without_figures_says_why() -> None:
    page = asked(SHOP, "host", "agent-0003")
    assert (page["figures"], page["unmeasured"]) == (None, "agent-0003 is away")
    assert (page["usedCpu"], page["usedMemory"], page["load"]) == (None, None, None)  # what it used is long ago


def test_a_container_leads_to_its_host_and_group() -> None:
    page = asked(SHOP, "container", "web-1")
    assert [page[name] for name in ("agent", "group", "node", "hostState", "state")] == [
        "agent-0001",
        "shop",
        "host-0001",
        "ready",
        "Ready",
    ]


def test_a_group_that_failed_says_who_failed_and_which_were_undone() -> None:
    members = tuple(Member(f"{name}-1", "agent-0001", name) for name in ("db", "web"))
    reason = "create of web (web-1) on agent-0001: no such image"
    group = GroupRow("shop", "gone", False, reason, 2, members)
    there = (container("db-1", ContainerState.STOPPING, group="shop", appkey="db"),)
    page = asked(FakeFleet((host(1, there),), {"shop": group}), "group", "shop")
    assert (page["goal"], page["isDone"], page["reason"]) == ("gone", False, reason)
    assert [(row["appkey"], row["state"], row["hasFailed"]) for row in page["members"]] == [
        ("db", "Stopping", False),
        ("web", "undone", True),
    ]
    assert {row["host"] for row in page["members"]} == {"host-0001"}
    assert page["changes"]["Stopping"] == ["Failed", "Terminated", "Unknown"]


@pytest.mark.parametrize(
    ("goal", "is_done", "state"), [("up", False, "to-make"), ("up", True, "Unknown"), ("gone", True, "undone")]
)
def test_a_member_that_no_host_reports_has_the_state_that_its_group_gives(goal: str, is_done: bool, state: str) -> None:
    group = GroupRow("shop", goal, is_done, "", 1, (Member("web-1", "agent-0001", "web"),))
    page = asked(FakeFleet((host(1),), {"shop": group}), "group", "shop")
    assert [row["state"] for row in page["members"]] == [state]


def test_a_group_that_only_labels_tell_of_is_shown() -> None:
    page = asked(FakeFleet((host(1, (container("web-1", group="lost"),)),)), "group", "lost")
    assert (page["goal"], [row["guid"] for row in page["members"]]) == ("up", ["web-1"])


def test_a_thousand_hosts_are_one_question_and_pages_of_a_few() -> None:
    there = [
        host(
            number,
            [container(f"web-{number}-{k}", group=f"group-{number // 10}") for k in range(10)],
            region=f"region-{number % 80}",
            tags=(f"rack-{number}",),
        )
        for number in range(1000)
    ]
    console = Console(FakeFleet(tuple(there)))

    async def look() -> Any:
        pages = [await console.ask(limit="50") for _ in range(200)]  # viewers
        found = await console.ask(q="web-7")
        return pages[0], found

    page, found = asyncio.run(look())
    assert console.fleet.asked == ["list"]
    assert (page["hosts"], page["containers"], page["count"], len(page["rows"])) == (1000, 10_000, 1000, 50)
    assert (len(page["regions"]), page["regions"][-1]["others"]) == (51, 30)
    assert sum(row["hosts"] for row in page["regions"]) == 1000
    assert (len(page["tags"]), len(page["groups"])) == (100, 100)
    assert len(msgspec.json.encode(page)) < 64 << 10
    assert (found["containersFound"], len(found["found"])) == (1110, MAX_FOUND)


def test_what_hosts_say_is_cut() -> None:
    long = "x" * 5000
    said = host(1, (container("web-1", detail=long, image=long, host_ports=("1/tcp",) * 1000),), region=long)
    page = asked(FakeFleet((said,)), "host", "agent-0001")
    assert len(page["region"]) == len(page["containers"][0]["detail"]) == rows.MAX_TEXT
    assert len(page["containers"][0]["ports"]) == rows.MAX_ITEMS


def test_bad_values_are_named() -> None:
    for query in ({"state": "dead"}, {"start": "-1"}, {"start": "x"}, {"limit": "1000"}):
        with pytest.raises(InvalidInput, match=next(iter(query))):
            asked(SHOP, **query)
    with pytest.raises(NotFound):
        asked(SHOP, "elsewhere")


def test_a_region_called_none_is_not_every_region() -> None:
    async def look() -> None:
        console = Console(SHOP)
        assert (await console.ask())["count"] == 3
        assert (await console.ask(region="None"))["count"] == 0

    asyncio.run(look())


def test_without_a_fleet_the_answer_says_how_to_get_one() -> None:
    with pytest.raises(Unanswered, match="--fleet local") as caught:
        asyncio.run(HostAnswers(None, lambda name: False).answer([], {}))
    assert caught.value.status == 404


def test_a_fleet_that_is_away_fails_once_for_all_viewers_and_comes_back() -> None:
    async def look() -> None:
        console = Console(FakeFleet(hosts=(host(1),), error=Transient("no bus answers")))
        for _ in range(50):
            with pytest.raises(Unanswered, match="no bus answers"):
                await console.ask()
        assert console.fleet.asked == ["list"]
        assert not console.sources.is_ok(FLEET)
        console.fleet.error = None
        console.now_s += PERIOD_S
        assert (await console.ask())["hosts"] == 1
        assert (console.sources.is_ok(FLEET), console.versions) == (True, [1])
        console.fleet.error = Transient("no bus answers")
        console.now_s += STALE_S
        assert (await console.ask())["hosts"] == 1  # still young enough
        console.now_s += 1
        with pytest.raises(Unanswered, match="no bus answers"):
            await console.ask()

    asyncio.run(look())
