"""Monitors of a zone in a real browser: what its services feel, both sides of its machine and its limits, with hostile
names; both themes, both languages and a phone; and what is said where no agent answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.fakes.processes.console_objects import control_zone
from tests.fakes.processes.console_world import HOSTILE, TOKEN, ConsoleWorld
from tests.fakes.processes.zone_monitors import machine_zone, zones_page
from tests.fakes.waiting import becomes

from cotenant.drivers.kube.kinds.custom.control_zone import ControlZoneObject

from . import looks
from .conftest import NARROW, WIDE, Tab
from .test_looks import THEMES, axe, picture, show, styled

READY = "[data-side=limits] td"
SHOTS = {
    "zone-1280-light": (WIDE, "light"),
    "zone-1280-dark": (WIDE, "dark"),
    "zone-400-light": (NARROW, "light"),
}
SPEC = {"vm": {"cpus": 2}, "pods": [{"name": "web", "image": {"archive": "web.tar"}, "lateMs": 5}]}


def fill(world: ConsoleWorld) -> None:
    change = "setting root/latency: started"
    active = {"state": "active", "setting": "root/latency", "groups": 1, "lastChange": change, "observedGeneration": 1}
    nodes = {"node-1": active, HOSTILE: {"state": "refused", "message": HOSTILE}}
    world.process.zones.seen(msgspec.convert(control_zone("box", SPEC, nodes), ControlZoneObject))
    world.process.zones.seen(msgspec.convert(control_zone("none", SPEC, {}), ControlZoneObject))
    world.api.node("node-1")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    token = tmp_path_factory.mktemp("console") / "token"
    token.write_text(TOKEN)
    pages = {"/v1/zones": zones_page("node-1", machine_zone("box"))}
    with ConsoleWorld(pages=pages, token_file=token) as running:
        running.do(lambda: fill(running))
        running.wait(lambda: "node-1" in running.process.fleet.nodes)
        yield running


def rows(tab: Tab, side: str) -> list[str]:
    found: list[str] = tab.page.locator(f"[data-side={side}] tbody tr").all_inner_texts()
    return found


def test_both_sides_and_the_limits_of_a_machine_are_shown(tab: Tab) -> None:
    page = tab.open("zones?zone=box")
    page.wait_for_selector(READY)
    assert rows(tab, "felt") == ["node-1\t16.68\t2.5\t25.0 %\t0.97"]
    assert rows(tab, "front") == ["node-1\t3\t0.47 ms\t0.25\t–\t8.1 %\t50.0 %\t0.4 %"]
    assert rows(tab, "back") == ["node-1\t0.2\t57.9 %\t0.02\t0.01\t0\t–\t1,235\t3\t412"]
    assert rows(tab, "limits") == ["node-1\t512 MiB\t2\t1.5 CPUs\t96 of 2,048 MiB\t1,024 of 4,096 MiB, 3 of 16 vCPUs"]
    tab.counts("[data-side=felt] .burning", 3)  # late, burning and stalled
    page.wait_for_selector(f"[data-no-monitors]:has-text('{HOSTILE}') >> text=does not exist")
    tab.counts("img[src='x']", 0)


def test_a_zone_that_no_node_reports_asks_nobody(tab: Tab) -> None:
    asked: list[str] = []  # by this page: an earlier one's questions may still be on their way to agents
    tab.page.on("request", lambda request: asked.append(request.url))
    page = tab.open("zones?zone=none")
    page.wait_for_selector("[data-headline]:has-text('no node reports it')")
    tab.counts("[data-monitors]", 0)
    tab.open("zones?zone=box").wait_for_selector(READY)  # which has, and is asked for after all of the other's
    assert {url.rpartition("/api/zone/")[2] for url in asked if "/api/zone/" in url} == {"box"}


@pytest.mark.parametrize(("scheme", "rule"), THEMES)
def test_axe_finds_nothing_serious(tab: Tab, scheme: str, rule: str) -> None:
    assert axe(show(tab, "zones?zone=box", READY, scheme), rule) == []


def test_it_fits_a_phone_in_both_languages(tab: Tab) -> None:
    tab.size(NARROW)
    for language, words in (("English", "Front end: the guest's kernel"), ("中文", "前端：客户机内核")):
        if language == "中文":
            tab.page.get_by_role("button", name=language).click()
        page = tab.open("zones?zone=box")
        page.locator(READY).first.wait_for()
        page.get_by_role("heading", name=words).wait_for()
        tab.until("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture
def blank(tab: Tab) -> Iterator[Any]:
    """A page without a policy, which decodes pictures."""
    opened = tab.context.new_page()
    yield opened
    opened.close()


@pytest.mark.parametrize("shot", SHOTS)
def test_it_looks_as_it_did(tab: Tab, blank: Any, shot: str) -> None:
    size, scheme = SHOTS[shot]
    tab.size(size)
    page = show(tab, "zones?zone=box", READY, scheme)
    styled(page, "article > section, .note, .banner { display: none !important }")  # what other pictures have
    becomes(shot, lambda: looks.faults(page, blank, shot, picture(page, blank)), [])
