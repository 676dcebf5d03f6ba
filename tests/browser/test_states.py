"""States between the main tasks: nothing chosen, addresses that name nothing, keys without a focus, tables on a
phone, terms under the pointer, the latency sketch.
"""

from __future__ import annotations

from tests.fakes.waiting import becomes

from .conftest import NARROW, Tab

LOST = (
    ("nonsense?x=1", "There is no view nonsense"),
    ("machines?machine=zz", "There is no machine zz"),
    ("machines?at=abc", "expected Unix seconds"),
    ("pods?pod=foo", "expected NAMESPACE/NAME"),
    ("pods?pod=shop/none", "The cluster has no such pod"),
    ("quotas?quota=zz", "There is no quota zz"),
    ("services?service=zz", "No service zz has sent a span"),
    ("services?objective=a/b", "There is no objective a/b"),
    ("services?trace=zz", "not known to this"),
    ("node?name=zz", "node zz does not exist"),
    ("moves?move=zz", "there is no PodMigrationJob zz"),
    ("zones?zone=zz", "There is no zone zz"),
)


def test_addresses_that_name_nothing_say_so(tab: Tab) -> None:
    tab.asks_in_vain = True
    for address, said in LOST:
        tab.open(address).wait_for_selector(f"main :text('{said}'), [role=status]:has-text('{said}')")


def test_without_a_choice_the_pods_that_need_a_look_are_shown(tab: Tab) -> None:
    page = tab.open("pods")
    page.wait_for_selector(".detail tr:has-text('shop/too-large') td:has-text('64')")
    late = page.locator(".detail tr:has-text('shop/web-1-0') td")
    becomes("the pod that is late", late.all_text_contents, ["node-1", "35 ms", "20 ms"])
    page.click(".detail a:has-text('shop/web-1-0')")
    page.wait_for_selector("h1:has-text('web-1-0')")
    tab.until("document.title.startsWith('shop/web-1-0')")


def test_keys_need_no_focus(tab: Tab) -> None:
    page = tab.page
    page.wait_for_selector("text=6 machines")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("section.card:has-text('node-0')")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("section.card:has-text('node-1')")
    page.keyboard.press("2")
    page.wait_for_selector("a.row")
    page.keyboard.press("/")
    page.keyboard.type("web-1")
    page.wait_for_selector(".list :text('4 pods')")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('web-1-1')")


def test_machines_are_ordered_and_found_by_numa_nodes(tab: Tab) -> None:
    page = tab.page
    page.wait_for_selector("text=6 machines")
    page.select_option("label:has-text('Group') select", "numa")
    page.select_option("label:has-text('Sort') select", "numa")
    page.fill("input[type=search]", "nodes=2 16")
    page.wait_for_selector("text=2 of 6 machines")
    tab.at("group=numa")
    tab.at("sort=numa")


def test_a_table_on_a_phone_names_each_value(tab: Tab) -> None:
    tab.size(NARROW)
    page = tab.open("quotas")
    page.wait_for_selector("tr:has-text('research') td")
    tab.until("getComputedStyle(document.querySelector('.wide thead')).display === 'none'")
    labels = (
        "[...document.querySelectorAll('.wide tbody tr:first-child td')].slice(0, 3).map(e => getComputedStyle(e, "
        "'::before').content)"
    )
    becomes("values are named", lambda: page.evaluate(labels), ['"minimum"', '"runtime"', '"used"'])
    tab.until("[...document.querySelectorAll('.wide td')].every(e => e.getBoundingClientRect().right <= innerWidth)")


def test_terms_of_a_quota_are_under_the_pointer(tab: Tab) -> None:
    page = tab.open("quotas")
    page.hover(".quota:has-text('research')")
    tip = page.locator(".tip")
    tip.wait_for()
    terms = {"research", "minimum20", "used30", "borrowed10", "runtime32"}
    becomes("the terms", lambda: {term for term in terms if term in tip.text_content()}, terms)


def test_the_latency_sketch_is_read_by_keyboard(tab: Tab) -> None:
    page = tab.open("services?service=front&objective=shop/front")
    page.wait_for_selector("[data-sketch] canvas")
    page.wait_for_selector("[data-sketch] :text('300 requests, 1 % failed')")
    page.wait_for_selector("[data-sketch] [aria-live]:has-text('p99 31 ms')")
    page.focus(".heat")
    page.keyboard.press("Home")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    tab.until("document.querySelector('[data-sketch] [aria-live]').textContent.includes('p99 64 ms')")
    tab.until(
        """(() => { const c = document.querySelector(".heat canvas");
        const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        return new Set(new Uint32Array(d.buffer)).size })() >= 6"""
    )
