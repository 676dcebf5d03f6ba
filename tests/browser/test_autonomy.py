"""The view "Autonomy" in a real browser: what waits for a person is approved, taken back, frozen and thawed there, for
every mover; hostile names; both themes, both languages and a narrow window; and what it says where it is switched off.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.fakes.processes import acting_objects as made
from tests.fakes.processes.console_world import HOSTILE, TOKEN, ConsoleWorld
from tests.fakes.waiting import becomes

from .conftest import NARROW, Tab
from .test_looks import THEMES, axe, show

READY = "[data-kind=recovery] tbody td"


def fill(world: ConsoleWorld) -> None:
    put = world.api.put
    world.api.node("node-1")
    put("rightsizings", made.right_sizing("cart"))
    put("rightsizings", made.right_sizing("wide", "suggest", HOSTILE, HOSTILE))
    put("podmigrationjobs", made.waiting_move("move-1", "shop/web-1-0", HOSTILE))
    put("poollendings", made.waiting_pool("old"))
    put("poollendings", made.lending_pool("cluster", HOSTILE))
    night = [{"days": ["mon", "tue"], "from": "22:00", "to": "06:00", "timeZone": "Europe/Berlin"}]
    put("autonomies", made.autonomy("shop", namespaces=["shop"], ceiling="approve", windows=night))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    token = tmp_path_factory.mktemp("console") / "token"
    token.write_text(TOKEN)
    pages = {"/api/v1/stories": made.recovery_stories("shop/web-1-0", HOSTILE)}
    with ConsoleWorld(pages=pages, token_file=token, options={"approvals": True}) as running:
        running.do(lambda: fill(running))
        process = running.process
        running.wait(lambda: "node-1" in process.fleet.nodes and len(process.lending.pools) == 2)
        yield running


def spec(world: ConsoleWorld, plural: str, key: str) -> Any:
    """Of an object as the server has it; None = there is none."""
    return world.do(lambda: (world.api.objects[plural].get(key) or {}).get("spec"))


def press(tab: Tab, within: str, name: str, of: str) -> None:
    """Both presses of a button."""
    part = tab.page.locator(within)
    part.get_by_role("button", name=name, exact=True).click()
    part.get_by_role("button", name=f"{name} {of}?").click()


def test_a_size_is_approved_and_a_change_taken_back(tab: Tab, world: ConsoleWorld) -> None:
    page = tab.open("autonomy")
    cart = "[data-sizing='shop/cart']"
    page.wait_for_selector(f"{cart} >> text=cpu 1150m->900m")
    page.wait_for_selector(f"{cart} tr:has-text('undone') >> text=ada")
    page.locator(cart).get_by_role("button", name="Approve", exact=True).click()
    assert "approved" not in spec(world, "rightsizings", "shop/cart")  # the first press asks
    page.get_by_role("button", name="Approve shop/cart?").click()
    page.wait_for_selector("[role=status]:has-text('shop/cart: approved')")
    found = spec(world, "rightsizings", "shop/cart")
    assert (found["approved"], found["approvedBy"]) == (made.SUGGESTED, "console token")
    tab.counts(f"{cart} button:text-is('Approve')", 0)
    press(tab, cart, "Undo", "shop/cart")
    becomes("it is to be taken back", lambda: spec(world, "rightsizings", "shop/cart").get("undo"), made.APPLIED)
    tab.counts(f"{cart} button:text-is('Undo')", 0)
    tab.counts("[data-sizing='shop/wide'] button:text-is('Approve')", 0)  # its owner only wants to be told


def test_a_move_and_pools_are_approved_and_taken_back(tab: Tab, world: ConsoleWorld) -> None:
    page = tab.open("autonomy")
    page.wait_for_selector("[data-move=move-1] >> text=waits for approval")
    press(tab, "[data-move=move-1]", "Approve", "move-1")
    becomes("it goes on", lambda: spec(world, "podmigrationjobs", "move-1")["paused"], False)
    page.wait_for_selector("[data-move=move-1] >> text=console token")
    tab.counts("[data-move=move-1] button", 0)
    press(tab, "[data-pool=old]", "Approve", "old")
    becomes("it may lend", lambda: spec(world, "poollendings", "old").get("approvedBy"), "console token")
    press(tab, "[data-pool=cluster]", "Undo", "cluster")
    becomes("it is taken back", lambda: bool(spec(world, "poollendings", "cluster").get("undo")), True)


def test_everything_is_frozen_and_thawed(tab: Tab, world: ConsoleWorld) -> None:
    page = tab.open("autonomy")
    page.get_by_label("Why, for those who find it").fill(HOSTILE)
    page.get_by_role("button", name="Freeze", exact=True).click()
    page.wait_for_selector(f"[data-frozen]:has-text('{HOSTILE}')")
    kept = {"freeze": {"why": HOSTILE, "by": "console token"}}
    becomes("it is stored", lambda: spec(world, "autonomies", "freeze"), kept)
    for action in ("sizes", "lending", "moves", "recovery", "weights"):
        page.wait_for_selector(f"[data-action={action}] >> text=frozen")
    press(tab, "[data-now]", "Thaw", "everything")
    tab.counts("[data-frozen]", 0)
    becomes("it is thawed", lambda: spec(world, "autonomies", "freeze"), None)
    page.wait_for_selector("[data-action=recovery] >> text=may begin")


def test_one_kind_in_one_namespace_is_frozen(tab: Tab, world: ConsoleWorld) -> None:
    page = tab.open("autonomy")
    page.get_by_label("Why, for those who find it").fill("sale")
    page.locator("[data-now]").get_by_label("Kind").select_option("sizes")
    page.get_by_label("Namespaces, by commas; none: all").fill("shop, cart")
    page.get_by_role("button", name="Freeze", exact=True).click()
    page.wait_for_selector("[data-frozen]:has-text('sizes')")
    found = spec(world, "autonomies", "freeze")
    assert (found["actions"], found["namespaces"]) == (["sizes"], ["shop", "cart"])
    tab.counts("[data-action=sizes] >> text=frozen", 0)  # elsewhere sizes go on
    press(tab, "[data-now]", "Thaw", "everything")
    becomes("it is thawed", lambda: spec(world, "autonomies", "freeze"), None)


def test_receipts_of_recovery_windows_and_hostile_names_are_shown_as_text(tab: Tab) -> None:
    page = tab.open("autonomy")
    page.wait_for_selector("[data-kind=recovery] tr:has-text('cap'):has-text('yes')")
    page.wait_for_selector("[data-kind=recovery] tr:has-text('evict'):has-text('not judged yet')")
    page.wait_for_selector("tr:has-text('mon, tue 22:00-06:00 Europe/Berlin') >> text=approve")
    page.wait_for_selector(f"[data-sizing='shop/wide'] >> text={HOSTILE}")
    tab.counts("img[src=x]", 0)


@pytest.mark.parametrize(("scheme", "rule"), THEMES)
def test_axe_finds_nothing_serious(tab: Tab, scheme: str, rule: str) -> None:
    assert axe(show(tab, "autonomy", READY, scheme), rule) == []


def test_it_fits_a_phone_in_both_languages(tab: Tab) -> None:
    tab.size(NARROW)
    for language, words in (("English", "Recovery"), ("中文", "恢复")):
        if language == "中文":
            tab.page.get_by_role("button", name=language).click()
        page = tab.open("autonomy")
        page.locator(READY).first.wait_for()
        page.wait_for_selector(f"h2:has-text('{words.lower()}')")
        tab.until("document.documentElement.scrollWidth <= innerWidth")


def test_where_it_is_switched_off_the_commands_are_shown(
    chromium: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    token = tmp_path_factory.mktemp("console") / "token"
    token.write_text(TOKEN)
    with ConsoleWorld(token_file=token) as world:
        world.do(lambda: fill(world))
        world.wait(lambda: "node-1" in world.process.fleet.nodes and len(world.process.lending.pools) == 2)
        tab = Tab(chromium, world)
        page = tab.open("autonomy")
        page.wait_for_selector("code:text-is('cotenant receipts approve shop/cart abcdef12')")
        page.wait_for_selector("code:text-is('cotenant receipts undo cluster --lending')")
        page.wait_for_selector("code:text-is('cotenant receipts approve move-1')")
        assert page.locator("main button").count() == 0
        assert tab.problems == []
        tab.context.close()
