"""Each view's main task in a real browser, with the mouse and with the keyboard alone; hostile names; both
languages; a narrow window.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import msgspec
from tests.fakes.processes.console_objects import control_zone
from tests.fakes.processes.console_world import HOSTILE, TOKEN, ConsoleWorld
from tests.fakes.waiting import becomes, eventually, patience

from cotenant.drivers.kube.kinds.custom.control_zone import ControlZoneObject

from .conftest import ACTION_MS, NARROW, Tab

VIEWS = {  # and what is there once the view is
    "machines": ".tile",
    "pods": "a.row",
    "quotas": ".quota",
    "credit?of=shop": ".sketch",
    "services?objective=shop/front": ".chain",
    "moves?move=move-done": ".shift",
    "autonomy": "[data-pool=cluster] td",
    "profiles?a=shop/web&b=shop/sort": ".radar .shape",
    "lab?a=cotenant&b=kube-default": "[data-pair] .plot path",
    "node?name=node-1": ".cpu",
    "pods?pod=shop/too-large": "[data-headline]",
}


def pixels(tab: Tab) -> list[int]:
    """Distinct colours of the map's base layer."""
    found: list[int] = tab.page.evaluate(
        """() => { const c = document.querySelector(".map canvas");
        const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        return [...new Set(new Uint32Array(d.buffer))] }"""
    )
    return found


def test_machines_are_drawn_found_grouped_and_explained_by_mouse(tab: Tab) -> None:
    page = tab.page
    page.wait_for_selector("text=6 machines")
    tab.until("performance.getEntriesByName('paint').length > 0")
    eventually("it is drawn", lambda: len(pixels(tab)) > 6)
    page.fill("input[type=search]", "zone=b")
    page.wait_for_selector("text=3 of 6 machines")
    page.fill("input[type=search]", "")
    page.select_option("label:has-text('Group') select", "zone")
    page.wait_for_selector("text=6 machines")
    tab.at("group=zone")
    box = page.locator("[data-map]").bounding_box()
    page.mouse.click(box["x"] + 30, box["y"] + 50)
    page.wait_for_selector("section.card:has-text('node-0')")
    tab.at("machine=node-0")
    page.click("a.button:has-text('Explain')")
    page.wait_for_selector("h1:has-text('node-0')")
    page.go_back()
    page.wait_for_selector("[data-map]")
    tab.at("group=zone")  # the address holds the view


def test_machines_by_keyboard_alone(tab: Tab) -> None:
    page, keys = tab.page, tab.page.keyboard
    page.wait_for_selector("text=6 machines")
    keys.press("/")
    keys.type("team-2")
    page.wait_for_selector("text=6 machines")
    keys.press("Escape")
    keys.press("ArrowRight")
    keys.press("ArrowRight")
    tab.until("location.hash.includes('machine=node-1')")
    page.wait_for_selector("#map-selected:has-text('node-1'):has-text('miss their objective')", state="attached")
    keys.press("g")
    keys.press("c")
    keys.press("+")
    tab.until(
        "location.hash.includes('group=zone') && location.hash.includes('colour=kind') && "
        "location.hash.includes('size=')"
    )
    keys.press("e")
    page.wait_for_selector("h1:has-text('node-1')")
    keys.press("Escape")
    page.wait_for_selector("[data-map]")
    keys.press("2")
    page.wait_for_selector("text=26 pods")


def test_a_change_reaches_the_map_without_a_reload(tab: Tab, world: ConsoleWorld) -> None:
    page = tab.page
    page.wait_for_selector("text=6 machines")
    pod = {
        "metadata": {"name": "late", "namespace": "shop"},
        "spec": {"containers": []},
        "status": {"phase": "Pending"},
    }
    world.do(lambda: world.api.put("pods", pod))
    page.wait_for_selector(".tile:has-text('pending') b:text-is('3')")
    world.do(lambda: world.api.drop("pods", "shop/late"))
    page.wait_for_selector(".tile:has-text('pending') b:text-is('2')")
    world.do(lambda: world.api.node("node-9", cpu="16"))
    page.wait_for_selector("text=7 machines")
    world.do(lambda: world.api.drop("nodes", "node-9"))
    page.wait_for_selector("text=6 machines")


def test_why_a_pod_waits_and_what_if(tab: Tab) -> None:
    page = tab.open("pods?state=pending")
    page.click("a.row:has-text('too-large')")
    page.wait_for_selector("[data-headline]:has-text('no node has 64 cpu')")
    page.wait_for_selector("text=1 node fits but for 28 cpu")
    page.click("button:has-text('What if')")
    page.wait_for_selector("[data-whatif]:has-text('would be placed on node-2')")
    tab.at("if=cpu")
    page.click("button:has-text('As it is')")
    page.wait_for_selector("[data-whatif]", state="detached")
    page.fill("input[placeholder^='disk=ssd']", "disk=ssd")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-whatif]:has-text('node selector disk=ssd it would be placed on node-3')")


def test_why_a_pod_is_there(tab: Tab) -> None:
    page = tab.open("pods?pod=shop/web-1-0")
    page.wait_for_selector("table.scores >> text=-2.50")
    page.wait_for_selector("dd:has-text('35 ms')")
    page.wait_for_selector(".chosen .s-late")
    tab.open("pods?pod=shop/web-1-3")
    page.wait_for_selector("[data-gang]:has-text('it waits for 1 member')")
    page.wait_for_selector("[data-gang]:has-text('1 placed, 0 hold a node and wait, 1 without a node')")
    tab.counts("[data-gang] li", 2)


def test_a_node_as_hardware(tab: Tab) -> None:
    page = tab.open("node?name=node-1")
    page.wait_for_selector("text=12 of 16 CPUs without an owner")
    tab.counts("a.cpu.held", 3)
    tab.counts(".cpu.reserved", 1)
    page.wait_for_selector("tr:has-text('cpu.max'):has-text('recovery'):has-text('after 30 s calm')")
    page.wait_for_selector("tr:has-text('shop/web-1-0') td.burning:has-text('35 ms / 20 ms')")
    page.wait_for_selector("text=memory, full")
    page.wait_for_selector("tr:has-text('kept'):has-text('shop/too-large waits for it')")
    page.wait_for_selector("text=not ready", state="detached")
    tab.open("node?name=node-5")
    page.wait_for_selector("text=not ready")


def test_quotas_by_keyboard(tab: Tab) -> None:
    page = tab.open("quotas")
    page.wait_for_selector(".quota")
    tab.counts(".quota", 3)
    page.focus(".treemap")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("section.card:has-text('runtime of')")
    page.click("button.link:has-text('research')")
    page.wait_for_selector("tr.chosen:has-text('research')")
    row = page.locator("tr.chosen td")
    becomes("the amounts", lambda: row.all_text_contents()[:3], ["20", "32", "30"])
    becomes("borrowed and lent", lambda: row.all_text_contents()[5:7], ["10", "0"])
    page.click("button.link:has-text('shop')")
    page.wait_for_selector("tr.chosen:has-text('shop')")
    becomes("lent", lambda: row.all_text_contents()[6:7], ["15"])


def test_the_account_book_by_keyboard(tab: Tab) -> None:
    page = tab.page
    page.keyboard.press("4")
    page.wait_for_selector("text=Account book: all tenants")
    page.focus("button.link:has-text('research')")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Account book of research")
    tab.at("of=research")
    page.wait_for_selector(".services > section:last-of-type td.number:has-text('2.40')")
    book = page.locator(".services > section:last-of-type td.number")
    becomes("the book", book.all_text_contents, ["0.700", "1.25", "−0.090", "2.40"])
    balance = page.get_by_role("img", name="Balance after each")
    eventually("the balance", lambda: balance.get_attribute("aria-label").endswith("0.000 – 4.26"))
    page.keyboard.press("Escape")
    page.wait_for_selector("text=Account book: all tenants")
    tab.asks_in_vain = True
    page.route("**/api/credit/tenants", lambda route: route.fulfill(status=503, body='{"error": "gone away"}'))
    page.wait_for_selector(".stale:has-text('gone away')")  # the last answer stays, and is said to be old
    tab.counts("td .balance", 3)


def test_results_of_the_lab_by_keyboard(tab: Tab) -> None:
    page = tab.page
    page.keyboard.press("8")
    page.wait_for_selector(".interval-row")
    order = page.locator(".interval-row .shift-name")
    becomes("by violation, the lowest first", order.all_text_contents, ["cotenant", "kube-default", HOSTILE])
    for name in ("cotenant", "kube-default"):
        page.focus(f"th button.link:has-text('{name}')")
        page.keyboard.press("Enter")
    page.wait_for_selector("[data-pair] .plot path")
    rows = page.locator("[data-pair] tbody tr")

    def cells(name: str) -> list[str]:
        """Those of a row."""
        every = rows.evaluate_all("rows => rows.map(r => [...r.cells].map(c => c.textContent.trim()))")
        return next((row for row in every if row[0] == name), [])

    becomes("the difference", lambda: cells("SLO violation")[3:], ["+0.9 % ± 0.3 %", "cotenant"])
    becomes("none", lambda: cells("Wait, mean")[-1:], ["within the interval"])
    words = page.locator("[data-maps] [data-map-words]")
    page.focus("[data-maps] input[type=range]")
    page.keyboard.press("ArrowRight")
    tab.until("location.hash.includes('at=1')")
    late = "1 of 60 machines with a missed objective; CPU used 50 %"
    eventually("a machine is late", lambda: words.nth(1).text_content().startswith(late))
    eventually("none of ours", lambda: words.nth(0).text_content().startswith("0 of 60 machines"))
    page.keyboard.press("Space")  # plays to the last frame
    tab.until("location.hash.includes('at=4')")
    page.wait_for_selector("[data-maps] button[aria-pressed=false]")
    page.click("button:has-text('load 0.7')")
    page.wait_for_selector("[data-pair] td:has-text('+0.7 %')")
    page.select_option("label:has-text('Figure') select", "wait_mean_s")
    tab.until("location.hash.includes('load=0.7') && location.hash.includes('figure=wait_mean_s')")


def test_services_traces_and_the_critical_path(tab: Tab) -> None:
    page = tab.open("services")
    page.click("button.link:has-text('shop/front')")
    page.wait_for_selector("text=Replicas, last six seconds")
    tab.at("objective=shop%2Ffront")
    page.wait_for_selector("td.burning:has-text('critical')")
    chain = page.locator(".chain").first
    chain.wait_for()
    story = "Victim.*shop/web-1-0.*Culprit.*Job shop/sorts 93 %shop/web-1-1.*cap.* Job shop/sorts.*helped.*after 8.0 s"
    eventually("the whole story", lambda: re.search(story, chain.text_content()))
    tab.counts(".timeline-of path.line", 1)
    tab.counts(".steps .k-victim", 1)
    page.wait_for_selector(".steps .k-action a:has-text('Job shop/sorts')")
    page.click(".steps .k-move a:has-text('shop/web-1-1')")
    page.wait_for_selector("[data-headline]")
    page.go_back()
    page.wait_for_selector("text=Replicas, last six seconds")
    page.wait_for_selector("g.vertex[aria-label=front]")
    page.focus("g.vertex[aria-label=front]")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=critical path of front")
    page.click(".row:has-text('front')")
    page.wait_for_selector(".span >> text=cart")
    tab.at("trace=ab12")


def test_moves_and_profiles_by_keyboard(tab: Tab) -> None:
    page = tab.page
    page.keyboard.press("6")
    page.wait_for_selector("text=planned or running 1")
    page.focus("a.row")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-headline]:has-text('helped: node-1 → node-2')")
    tab.at("move=move-done")
    tab.counts(".shift", 4)
    page.keyboard.press("Escape")
    page.wait_for_selector("[data-headline]", state="detached")
    page.keyboard.press("7")
    for name in ("shop/web", "shop/sort"):
        page.focus(f"button.row:has-text('{name}')")
        page.keyboard.press("Enter")
    page.wait_for_selector("td.burning:has-text('+66 %')")
    tab.counts(".radar .shape", 4)
    tab.at("a=shop%2Fweb&b=shop%2Fsort")
    page.keyboard.press("Escape")
    page.wait_for_selector(".radar", state="detached")


def test_zones_are_a_view_when_there_are_any(tab: Tab) -> None:
    page, zones = tab.page, tab.world.process.zones
    tab.counts("nav a", 11)
    spec = {"applications": [{"namespace": "shop", "labels": {"app": HOSTILE}}], "rules": [{"kind": "batch"}]}
    port = {"container": 8080, "host": 24080, "address": "127.0.0.1"}
    pod = {"name": HOSTILE, "kind": "service", "running": True, "ready": False, "restarts": 2, "ports": [port]}
    active = {"state": "active", "setting": "root/latency", "groups": 4, "lastChange": f"switched: {HOSTILE}"}
    nodes = {
        "node-1": {**active, "pods": [pod]},
        HOSTILE: {"state": "refused", "message": HOSTILE},
    }
    for name, reported in (("shop", nodes), ("idle", {})):
        found = msgspec.convert(control_zone(name, spec, reported), ControlZoneObject)
        tab.world.do(lambda found=found: zones.seen(found))
    try:
        page.keyboard.press("9")
        page.wait_for_selector("nav a[aria-current]:has-text('Zones')")
        page.focus("a.row:has-text('idle')")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_selector("[data-headline]:has-text('active on 1 of 2 nodes')")
        tab.at("zone=shop")
        nodes_said = page.locator("article table").nth(1).locator("tbody tr")
        eventually("as text", lambda: "".join(nodes_said.all_inner_texts()[:1]).count(HOSTILE) == 2)
        (pod_said,) = page.locator("[data-zone-pod]").all_inner_texts()
        assert f"{HOSTILE}\tnode-1\tservice\truns, not ready\t127.0.0.1:24080 -> 8080\t2" == pod_said
        assert page.locator("img[src='x']").count() == 0
        page.keyboard.press("Escape")
        page.wait_for_selector("[data-headline]:has-text('no node reports it')")  # the first zone, without a choice
        tab.until("!location.href.includes('zone=')")
    finally:
        for name in ("shop", "idle"):
            tab.world.do(lambda name=name: zones.gone(name))


def test_markup_in_names_labels_tenants_and_reasons_is_text(tab: Tab) -> None:
    page = tab.page
    tab.asks_in_vain = True  # there is no node of that name
    hostile = {
        f"pods?pod=shop/{HOSTILE}": f"text=reason {HOSTILE}",
        f"node?name={HOSTILE}": f"main :text('{HOSTILE}')",
        f"machines?q={HOSTILE}": "text=1 of 6 machines",
        "machines?machine=node-0": "section.card:has-text('node-0')",
        "quotas?quota=shop": f"main :text('{HOSTILE}')",
        "services?service=front": f"main :text('{HOSTILE}')",
        "moves?move=move-planned": f"article h1:has-text('{HOSTILE}')",
        f"credit?of={HOSTILE}": f"main :text('{HOSTILE}')",
        f"lab?a=cotenant&b={HOSTILE}": f"main :text('{HOSTILE}')",
        f"profiles?a=shop/{HOSTILE}": f"main :text('{HOSTILE}')",
    }
    for view, ready in (*VIEWS.items(), *hostile.items()):
        tab.open(view)
        page.wait_for_selector(ready)
        assert page.locator("img:not(.brand img)").count() == 0, view


def test_a_narrow_window_scrolls_in_one_direction(tab: Tab) -> None:
    tab.size(NARROW)
    for view, ready in VIEWS.items():
        tab.open(view).wait_for_selector(ready)
        tab.until("document.documentElement.scrollWidth <= innerWidth")


def test_chinese_and_the_dark_theme_are_kept(tab: Tab) -> None:
    page = tab.page
    page.wait_for_selector("text=6 machines")
    light = set(pixels(tab))
    page.click("button:has-text('中文')")
    page.wait_for_selector("text=6 台机器")
    page.click("button[aria-label^='主题']")
    page.click("button[aria-label^='主题']")
    tab.until("document.documentElement.dataset.theme === 'dark'")
    eventually("other colours", lambda: set(pixels(tab)) != light)
    page.reload()
    page.wait_for_selector("text=6 台机器")
    kept = "[document.documentElement.lang, document.documentElement.dataset.theme]"
    becomes("what is kept", lambda: page.evaluate(kept), ["zh", "dark"])


async def _away(scope: object) -> None:
    raise OSError("away")


def test_a_console_that_goes_away_is_said_and_found_again(chromium: Any, tmp_path: Any) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    with ConsoleWorld(token_file=path) as world:
        world.do(lambda: world.api.node("a"))
        tab = Tab(chromium, world)
        tab.page.wait_for_selector("text=1 machine")
        sessions = world.process.sessions  # a browser's own "offline" is not that of its shared workers
        world.do(lambda: setattr(sessions, "find", _away))
        world.do(lambda: setattr(sessions, "is_open", lambda session: False))
        world.do(world.process.live.wake)
        tab.page.wait_for_selector("text=The console does not answer since")
        world.do(lambda: (delattr(sessions, "is_open"), delattr(sessions, "find")))
        tab.page.wait_for_selector("text=The console does not answer since", state="detached")
        world.do(lambda: world.api.node("b"))
        tab.page.wait_for_selector("text=2 machines")
        tab.context.close()


def test_the_log_in_form_refuses_and_the_session_can_be_ended(chromium: Any, world: ConsoleWorld) -> None:
    tab = Tab(chromium, world)  # a session of its own: it ends here
    page = tab.page
    page.click("button[aria-label='Log out']")
    page.wait_for_selector("#token")
    page.fill("#token", "wrong")
    page.click("button")
    page.wait_for_url("**/login?refused*")
    page.goto(f"{tab.world.url}/#/pods")
    page.wait_for_selector("#token")
    tab.context.close()


def test_a_link_leads_to_its_place_after_the_log_in(chromium: Any, world: ConsoleWorld) -> None:
    context = chromium.new_context(locale="en-US")
    page = context.new_page()
    page.set_default_timeout(patience(ACTION_MS))
    place = f"{world.url}/#/pods?pod=shop/web-1-1"
    page.goto(place)
    page.fill("#token", "wrong")
    page.click("button")
    page.wait_for_url("**/login?refused#**")
    page.fill("#token", TOKEN)
    page.click("button")
    page.wait_for_selector("h1:has-text('web-1-1')")
    page.wait_for_url(place)
    # A session that ends meanwhile: the page asks, is sent to the log-in, and comes back to where it was.
    context.clear_cookies()
    page.goto(f"{world.url}/#/quotas?quota=research")
    page.wait_for_selector("#token")
    page.fill("#token", TOKEN)
    page.click("button")
    page.wait_for_selector("tr:has-text('research')")
    page.wait_for_url(f"{world.url}/#/quotas?quota=research")
    context.close()


def test_no_log_in_is_quicker_than_what_keeps_its_place(chromium: Any, world: ConsoleWorld) -> None:
    context = chromium.new_context(locale="en-US")
    page = context.new_page()
    page.set_default_timeout(patience(ACTION_MS))
    held: list[Any] = []
    page.route("**/login.js", lambda route: held.append(route))
    page.goto(f"{world.url}/login#/quotas?quota=research", wait_until="commit")
    eventually("the script is asked for", lambda: page.wait_for_timeout(10) or held)
    assert page.locator("#token").count() == 0
    held[0].continue_()
    page.fill("#token", TOKEN)
    page.click("button")
    page.wait_for_url(f"{world.url}/#/quotas?quota=research")
    context.close()


def test_every_control_has_a_name_and_text_has_contrast(tab: Tab) -> None:
    script = """() => { const bad = [];
      const named = "button, a[href], input, select, [role=img], [role=application], [role=listbox]";
      for (const e of document.querySelectorAll(named)) {
        const name = e.getAttribute("aria-label") || e.textContent.trim() || e.title
          || (e.labels && e.labels.length && e.labels[0].textContent.trim());
        if (!name) bad.push("no name: " + e.outerHTML.slice(0, 90)); }
      const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
      if (new Set(ids).size !== ids.length) bad.push("an id twice");
      if (!document.documentElement.lang || !document.title) bad.push("no language or title");
      const rgb = (c) => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
      const lum = (c) => { const [r, g, b] = rgb(c).map((v) => { v /= 255;
        return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4 });
        return .2126 * r + .7152 * g + .0722 * b };
      const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
        if (!/, 0\\)|transparent/.test(c)) return c } return "rgb(255,255,255)" };
      for (const e of document.querySelectorAll("main *, header *")) {
        if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.offsetParent
          || e.closest("svg, .quota, .cpu, .device-box, .bars")) continue;
        const [a, b] = [lum(getComputedStyle(e).color), lum(ground(e))].sort((x, y) => y - x);
        if ((a + .05) / (b + .05) < 4.5) bad.push("contrast " + ((a + .05) / (b + .05)).toFixed(2) + ": "
          + e.outerHTML.slice(0, 90)); }
      return bad }"""
    for scheme in ("light", "dark"):
        tab.page.emulate_media(color_scheme=scheme)
        for view, ready in VIEWS.items():
            page = tab.open(view)
            page.wait_for_selector(ready)
            becomes(f"{view} in {scheme}", functools.partial(page.evaluate, script), [])


def test_the_whole_page_is_reachable_by_tab(tab: Tab) -> None:
    page = tab.page
    page.wait_for_selector("text=6 machines")
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.textContent")
        )
    text = json.dumps(seen)
    for wanted in ("Skip to content", "Pods", "Search machines", "Map of the machines", "Larger"):
        assert re.search(wanted, text), wanted
