"""Many tabs of one console in one browser, which opens six connections to a host: they share one event stream, and
none hangs.
"""

from __future__ import annotations

from typing import Any

from tests.fakes.processes.console_world import ConsoleWorld
from tests.fakes.waiting import patience

from .conftest import ACTION_MS, Tab

TABS = 8  # more than the connections that a browser opens to a host
WITHOUT_WORKERS = "delete window.SharedWorker"
# A page that can be hidden by a test: all pages of a headless browser are visible.
HIDEABLE = """
    Object.defineProperty(document, "hidden", { get: () => window.isAway ?? false });
    window.away = (is) => { window.isAway = is; document.dispatchEvent(new Event("visibilitychange")) };
"""


def _more(tab: Tab, count: int, view: str = "") -> list[Any]:
    pages = []
    for _ in range(count):
        page = tab.context.new_page()
        page.set_default_timeout(patience(ACTION_MS))
        page.goto(f"{tab.world.url}/#/{view}")
        pages.append(page)
    return pages


def test_eight_tabs_share_one_stream_and_all_of_them_answer(tab: Tab, world: ConsoleWorld) -> None:
    pages = [tab.page, *_more(tab, TABS - 1)]
    for page in pages:
        page.wait_for_selector("text=6 machines")
    world.wait(lambda: world.process.live.viewers == 1)
    for page in pages:  # a question of each
        page.goto(f"{world.url}/#/quotas")
        page.wait_for_selector("tr:has-text('research') td")
    world.wait(lambda: world.process.live.viewers == 1)


def test_a_change_reaches_every_tab_also_after_the_first_was_closed(tab: Tab, world: ConsoleWorld) -> None:
    first, *others = [tab.page, *_more(tab, TABS - 1)]
    for page in others:
        page.wait_for_selector("text=6 machines")
    first.close()
    tab.page = others[0]  # what the fixture looks at
    world.do(lambda: world.api.node("later"))
    try:
        for page in others:
            page.wait_for_selector("text=7 machines")
        (late,) = _more(tab, 1)  # its snapshot is newer than where the stream began
        late.wait_for_selector("text=7 machines")
    finally:
        world.do(lambda: world.api.drop("nodes", "later"))
    for page in (*others, late):
        page.wait_for_selector("text=6 machines")
    world.wait(lambda: world.process.live.viewers == 1)
    for page in (*others, late):
        page.close()
    world.wait(lambda: world.process.live.viewers == 0)
    tab.page = tab.context.new_page()


def test_without_shared_workers_a_tab_that_is_not_seen_gives_its_stream_up(
    chromium: Any, world: ConsoleWorld, session: Any
) -> None:
    context = chromium.new_context(storage_state=session, locale="en-US")
    context.add_init_script(WITHOUT_WORKERS + HIDEABLE)
    try:
        pages = []
        for _ in range(TABS):
            for entry in pages[-1:]:
                entry.evaluate("away(true)")
            page = context.new_page()
            page.set_default_timeout(patience(ACTION_MS))
            page.goto(world.url)
            page.wait_for_selector("text=6 machines")
            pages.append(page)
        world.wait(lambda: world.process.live.viewers == 1)
        pages[0].evaluate("away(false)")
        world.wait(lambda: world.process.live.viewers == 2)
    finally:
        context.close()
