"""The view "Fleet" and logs in a real browser: from the list to a host, a container, its log and a trace, and to a
group that failed; live; hostile names; both languages and themes; a narrow window.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.processes.console_world import HOSTILE, TOKEN, ConsoleWorld
from tests.fakes.processes.fake_fleet import TRACE, FakeFleet, container, host
from tests.fakes.waiting import becomes

from cotenant.model.fleet.host import FunctionHealth
from cotenant.model.fleet.logs import ShownLine
from cotenant.model.fleet.requests import GroupRow, Member
from cotenant.model.fleet.states import AgentState, ContainerState

from .conftest import NARROW, Tab
from .test_looks import THEMES, axe, show

REASON = f"create of web (web-9f) on agent-0002: no such image {HOSTILE}"


def fleet_of_hosts() -> FakeFleet:
    """Sixty hosts in three regions; one is a node of the cluster, one is away, one says what it should not."""
    shop = (
        container("front-1a", group="shop", appkey="front", host_ports=("8080/tcp",), limits=("cpu=2", "memory=512Mi")),
        container("cart-2b", ContainerState.PENDING, group="shop", appkey="cart"),
    )
    hosts = [
        host(1, shop, region="eu-west", tags=("edge", "gpu"), name="node-1"),
        host(2, (container("db-3c", ContainerState.STOPPING, group="lost", appkey="db"),), region="eu-west"),
        host(
            3,
            (container(HOSTILE, ContainerState.FAILED, detail=HOSTILE, image=HOSTILE, group=HOSTILE),),
            region=HOSTILE,
            tags=(HOSTILE,),
            name=HOSTILE,
            faults=(FunctionHealth("logs", True, HOSTILE),),
        ),
        host(4, state=AgentState.AWAY, region="us"),
        *(host(number, (container(f"job-{number}"),), region="us", tags=("edge",)) for number in range(5, 61)),
    ]
    members = (Member("web-9f", "agent-0002", "web", "web:9"), Member("db-3c", "agent-0002", "db", "db:1"))
    lines = [ShownLine(1_800_000_000_000_000_000 + k * 10**9, "stdout", f"GET /{k} 200") for k in range(60)]
    lines += [
        ShownLine(1_800_000_061_000_000_000, "stderr", f"GET /slow 503 {HOSTILE}", TRACE),
        ShownLine(1_800_000_062_000_000_000, "stdout", "a line " + "long " * 60),
    ]
    return FakeFleet(
        tuple(hosts),
        {
            "shop": GroupRow("shop", "up", True, "", 2),
            "lost": GroupRow("lost", "gone", False, REASON, 2, members),
        },
        {"front-1a": tuple(lines), "shop/web-1-0": tuple(lines[-3:])},
    )


@pytest.fixture(scope="module")
def fleet() -> FakeFleet:
    return fleet_of_hosts()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, fleet: FakeFleet) -> Iterator[ConsoleWorld]:
    path = tmp_path_factory.mktemp("console") / "token"
    path.write_text(TOKEN)
    with ConsoleWorld(token_file=path, options={"fleet": fleet}) as running:
        add_node(running)
        yield running


def add_node(world: ConsoleWorld) -> None:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    world.do(lambda: world.api.put("nodes", {"metadata": {"name": "node-1"}, "spec": {}, "status": status}))
    world.wait(lambda: "node-1" in world.process.fleet.nodes)


def shot(tab: Tab, name: str) -> None:
    """For whoever changes the view."""
    if folder := os.environ.get("CONSOLE_SHOTS"):
        tab.page.screenshot(path=str(Path(folder) / f"{name}.png"))


PLACES = {  # and what is there once the page is
    "fleet": "main tbody",
    "fleet?host=agent-0001": "h1:has-text('node-1')",
    "fleet?group=lost": "[data-headline]",
    "fleet?container=front-1a&tab=logs": ".log > div",
}


def cells(tab: Tab, heading: str) -> Any:
    return tab.page.locator("section", has=tab.page.locator("h2", has_text=heading)).locator("tbody tr")


def test_from_the_list_to_a_host_a_container_its_log_and_a_trace(tab: Tab) -> None:
    page = tab.open("fleet")
    page.wait_for_selector("text=60 hosts, 60 containers")
    becomes("a page of hosts", cells(tab, "Hosts").count, 50)
    shot(tab, "fleet-list")
    page.click("text=›")
    page.wait_for_selector("text=51 to 60 of 60")
    page.get_by_role("button", name="eu-west").click()
    page.wait_for_selector("h2:has-text('Hosts') >> text=2")
    page.locator("a", has_text="node-1").first.click()
    page.wait_for_selector("[data-headline] >> text=ready")
    tab.counts("dl a[href='#/node?name=node-1']", 1)
    becomes("parts", cells(tab, "Parts of the agent").count, 1)
    shot(tab, "fleet-host")
    page.locator("a", has_text="front").first.click()
    page.wait_for_selector("text=cpu=2, memory=512Mi")
    page.click("role=tab[name=Logs]")
    page.wait_for_selector(".log >> text=GET /slow 503")
    shot(tab, "fleet-logs")
    page.fill("input[type=search]", "503")
    page.wait_for_selector(".log >> text=GET /59 200", state="detached")
    tab.counts(".log > div", 1)
    becomes("the trace", lambda: page.locator(".log a").get_attribute("href"), f"#/services?trace={TRACE}")


def test_a_group_that_failed_names_who_failed_and_which_were_undone(tab: Tab) -> None:
    page = tab.open("fleet?group=lost")
    page.wait_for_selector("[data-headline] >> text=being undone")
    becomes("the reason", page.locator("p.error").inner_text, REASON)
    becomes("members", cells(tab, "Members").count, 2)
    failed = cells(tab, "Members").filter(has_text="web-9f")
    for words in ("this failed", "undone"):
        failed.filter(has_text=words).wait_for()
    becomes("states", page.locator(".machine .here").all_inner_texts, ["Stopping 1"])
    shot(tab, "fleet-group")
    page.locator("a", has_text="node-1").or_(page.locator("a", has_text="host-0002")).first.click()
    page.wait_for_selector("h1 >> text=host-0002")
    page.keyboard.press("Escape")
    page.wait_for_selector("text=60 hosts, 60 containers")


def test_what_changes_in_the_fleet_is_shown_by_itself(tab: Tab, world: ConsoleWorld, fleet: FakeFleet) -> None:
    before = fleet.hosts
    page = tab.open("fleet?q=agent-0004")
    page.wait_for_selector("tbody >> text=away")
    alive = tuple(replace(row, state=AgentState.ALIVE) for row in before)
    world.do(lambda: setattr(fleet, "hosts", alive))
    row = page.locator("tr", has=page.locator("a", has_text="host-0004"))
    row.locator("text=ready").wait_for()
    world.do(lambda: setattr(fleet, "hosts", before))
    row.locator("text=away").wait_for()


def test_search_finds_containers_and_groups_by_the_keyboard_alone(tab: Tab) -> None:
    page = tab.open("machines")
    page.keyboard.press("0")
    page.wait_for_selector("text=60 hosts, 60 containers")
    page.keyboard.press("/")
    page.keyboard.type("job-17")
    page.wait_for_selector("h2:has-text('Containers') >> text=1")
    becomes("hosts", cells(tab, "Hosts").count, 1)
    page.locator("a", has_text="job-17").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("h1 >> text=job-17")


def test_what_hosts_say_is_text(tab: Tab) -> None:
    ready = {
        f"fleet?q={HOSTILE}": f"tbody :text('{HOSTILE}')",
        "fleet?host=agent-0003": f"h1:has-text('{HOSTILE}')",
        f"fleet?container={HOSTILE}": f"main :text('{HOSTILE}')",
        f"fleet?group={HOSTILE}": f"main :text('{HOSTILE}')",
        "fleet?container=front-1a&tab=logs": f".log :text('{HOSTILE}')",
    }
    for address, shown in ready.items():
        page = tab.open(address)
        page.locator(shown).first.wait_for()
        assert page.locator("img[src=x]").count() == 0, address


def test_a_pods_story_has_its_log_where_the_fleet_has_it(tab: Tab) -> None:
    tab.asks_in_vain = True  # this pod is in the fleet's logs only
    page = tab.open("pods?pod=shop/web-1-0")
    page.click("role=button[name=Logs]")
    page.wait_for_selector(".log >> text=GET /slow 503")
    page.goto(f"{tab.world.url}/#/pods?pod=shop/none&tab=logs")
    page.wait_for_selector("text=no host of this fleet has a log of shop/none")


@pytest.mark.parametrize(("scheme", "rule"), THEMES)
def test_axe_finds_nothing_serious(tab: Tab, scheme: str, rule: str) -> None:
    assert [line for address, shown in PLACES.items() for line in axe(show(tab, address, shown, scheme), rule)] == []


def test_it_fits_a_phone_in_both_languages_and_themes(tab: Tab) -> None:
    tab.size(NARROW)
    tab.page.get_by_role("button", name="中文").click()
    tab.page.wait_for_selector("nav >> text=机群")
    for address, shown in PLACES.items():
        page = tab.open(address)
        page.locator(shown).first.wait_for()
        for theme in ("light", "dark"):
            page.evaluate("(theme) => { document.documentElement.dataset.theme = theme }", theme)
            shot(tab, f"fleet-narrow-{theme}-{address[6:11]}")
            tab.until("document.documentElement.scrollWidth <= innerWidth")


def test_without_a_fleet_the_view_says_how_to_get_one(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    with ConsoleWorld(token_file=path) as running:
        add_node(running)
        opened = Tab(chromium, running)
        opened.open("fleet")
        opened.page.wait_for_selector("text=cotenant fleet serve --embedded")
        opened.context.close()
