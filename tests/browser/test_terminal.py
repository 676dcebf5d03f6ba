"""A terminal into a container in a real browser: keys, output, colours, size, the end; hostile output is text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.fakes.processes.console_world import HOSTILE, TOKEN, ConsoleWorld
from tests.fakes.processes.fake_fleet import FakeFleet, FakeTerminals, container, host
from tests.fakes.waiting import eventually

from cotenant.model.fleet.refusal import FleetForbidden

from .conftest import NARROW, Tab
from .test_fleet import add_node, shot
from .test_looks import axe, show

ADDRESS = "fleet?container=front-1a&tab=terminal"


@pytest.fixture(scope="module")
def terminals() -> FakeTerminals:
    return FakeTerminals()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, terminals: FakeTerminals) -> Iterator[ConsoleWorld]:
    path = tmp_path_factory.mktemp("console") / "token"
    path.write_text(TOKEN)
    fleet = FakeFleet((host(1, (container("front-1a"),), name="node-1"),))
    with ConsoleWorld(token_file=path, options={"fleet": fleet, "terminals": terminals}) as running:
        add_node(running)
        yield running


def shown(tab: Tab) -> str:
    return "\n".join(tab.page.locator(".terminal .screen > div").all_inner_texts())


def begin(tab: Tab, terminals: FakeTerminals) -> str:
    """Open one; its session."""
    before = len(terminals.opened)
    tab.open(ADDRESS)
    tab.page.locator(".terminal .screen >> text=$").first.wait_for()
    assert len(terminals.opened) == before + 1
    return f"{before + 1:032x}"


def test_keys_go_there_and_output_comes_here_until_the_end(tab: Tab, terminals: FakeTerminals) -> None:
    page = tab.open("fleet?container=front-1a")
    page.click("role=tab[name=Terminal]")
    page.locator(".terminal .screen >> text=$").first.wait_for()
    opened = terminals.opened[-1]
    assert (opened.guid, opened.command, opened.viewer) == ("front-1a", ("sh",), "console token")
    page.keyboard.type("echo 1e2/?gc-[")  # none of them may be the page's keys
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Control+c")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    tab.until("document.querySelectorAll('.terminal .screen > div')[1].textContent.startsWith('$')")
    session = f"{len(terminals.opened):032x}"
    typed = b"".join(request.data for request in terminals.written if request.session == session)
    assert typed == b"echo 1e2/?gc-[\t\x1b[A\x03\x1b\r"
    shot(tab, "terminal")
    page.keyboard.type("bye")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=status] >> text=Ended with status 3.")
    page.get_by_role("button", name="Open again").click()
    page.wait_for_selector("[role=status] >> text=Ended with status 3.", state="detached")
    page.keyboard.type("once more")
    page.wait_for_selector(".terminal .screen >> text=once more")


def test_a_pod_s_terminal_is_behind_a_button_of_its_story(
    tab: Tab, world: ConsoleWorld, terminals: FakeTerminals
) -> None:
    for name, node in (("web-1", "node-1"), ("waits", "")):
        spec = {"nodeName": node, "containers": [{"name": "app", "image": "web:1"}]}
        pod = {
            "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": spec,
            "status": {"phase": "Pending"},
        }
        world.do(lambda written=pod: world.api.put("pods", written))
    world.wait(lambda: {"shop/web-1", "shop/waits"} <= set(world.process.fleet.pods))
    tab.asks_in_vain = True  # of the scheduler, which knows neither
    page = tab.open("pods?pod=shop/web-1")
    page.get_by_role("button", name="Terminal").click()
    page.locator(".terminal .screen >> text=$").first.wait_for()
    assert terminals.opened[-1].guid == "shop/web-1"
    page.keyboard.type("bye")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=status] >> text=Ended with status 3.")
    typed = b"".join(request.data for request in terminals.written if request.guid == "shop/web-1")
    assert typed.startswith(b"bye")  # another case's terminal may still be hung up
    shot(tab, "terminal-pod")
    page = tab.open("pods?pod=shop/waits")
    page.get_by_role("button", name="Logs").wait_for()
    assert page.get_by_role("button", name="Terminal").count() == 0  # it runs nowhere


def test_the_screen_is_drawn_as_the_command_says(tab: Tab, world: ConsoleWorld, terminals: FakeTerminals) -> None:
    session = begin(tab, terminals)
    said = "\x1b[2J\x1b[H\x1b[1;31mred\x1b[0m \x1b[38;5;46mgreen\x1b[m\x1b[3;5Hhere\x1b[1K\x1b]0;title\x07 中文e\u0301"
    data = said.encode() + HOSTILE.encode()
    for k in range(len(data)):  # sequences and characters come in pieces
        world.do(lambda piece=data[k : k + 1]: terminals.say(session, piece))
    tab.page.locator(f".terminal .screen >> text={HOSTILE}").wait_for()
    lines = shown(tab).split("\n")
    assert lines[0] == "red green"
    assert lines[2].rstrip() == f"        \u00a0中文e\u0301{HOSTILE}".replace("\u00a0", " ")
    red = tab.page.locator(".terminal .screen span.bold").first
    assert red.inner_text() == "red"
    assert red.evaluate("(e) => getComputedStyle(e).color") == "rgb(239, 83, 80)"
    assert tab.page.locator("img[src=x]").count() == 0
    world.do(lambda: terminals.say(session, b"\x1b[?1049h\x1b[Hother"))
    tab.page.locator(".terminal .screen >> text=other").wait_for()
    assert "green" not in shown(tab)
    world.do(lambda: terminals.say(session, b"\x1b[?1049l"))
    tab.page.locator(".terminal .screen >> text=green").wait_for()
    world.do(lambda: terminals.say(session, b"\x1b[6n"))
    world.wait(
        lambda: any(request.session == session and request.data.startswith(b"\x1b[3;") for request in terminals.written)
    )


def test_long_output_scrolls_and_is_bounded(tab: Tab, world: ConsoleWorld, terminals: FakeTerminals) -> None:
    session = begin(tab, terminals)
    world.do(lambda: terminals.say(session, b"".join(b"line %d\r\n" % k for k in range(3000)) + b"last"))
    tab.page.locator(".terminal .screen >> text=last").wait_for()
    assert 1000 <= tab.page.locator(".terminal .screen > div").count() <= 1200
    tab.until("document.querySelector('.screen').scrollTop > 0")


def test_the_window_s_size_goes_there_and_leaving_hangs_up(
    tab: Tab, world: ConsoleWorld, terminals: FakeTerminals
) -> None:
    session = begin(tab, terminals)
    wide = terminals.opened[-1].size

    def narrower() -> list[str]:
        """The sizes that the window has had since, as the command says them; a page may settle in several steps."""
        sizes = [request.size for request in terminals.written if request.session == session and request.size]
        return [f"{size.rows} {size.columns}" for size in sizes if size.columns < wide.columns]

    tab.size(NARROW)
    world.wait(lambda: bool(narrower()))
    tab.page.locator(".terminal .screen").click()
    tab.page.keyboard.type("size")
    tab.page.keyboard.press("Enter")
    eventually("the command says the size", lambda: any(size in shown(tab) for size in narrower()))
    tab.open("fleet")
    world.wait(lambda: any(request.session == session and request.ends for request in terminals.written))


def test_a_refusal_is_said(tab: Tab, terminals: FakeTerminals) -> None:
    tab.asks_in_vain = True
    terminals.error = FleetForbidden("console may not exec; granted are list, top, logs")
    try:
        page = tab.open(ADDRESS)
        page.wait_for_selector("[role=status] >> text=console may not exec")
    finally:
        terminals.error = None


def test_the_keyboard_comes_in_and_out(tab: Tab, terminals: FakeTerminals) -> None:
    begin(tab, terminals)
    tab.until("document.activeElement.className === 'typed'")
    tab.page.keyboard.press("Shift+Tab")
    tab.until("document.activeElement.className === 'screen'")


def test_axe_finds_nothing_serious_and_it_fits_a_phone(tab: Tab) -> None:
    found = []
    for scheme in ("light", "dark"):
        found += axe(show(tab, ADDRESS, ".terminal .screen > div", scheme))
    assert found == []
    tab.size(NARROW)
    tab.until("document.documentElement.scrollWidth <= innerWidth")


def test_a_node_links_to_its_host(tab: Tab) -> None:
    page = tab.open("node?name=node-1")
    page.get_by_role("link", name="Host", exact=True).click()
    tab.at("fleet?host=agent-0001")  # the node's page has a heading of the same name
    page.wait_for_selector("h1 >> text=node-1")
