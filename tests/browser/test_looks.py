"""How the pages look and whether everybody can use them: axe-core on every view in both themes, golden images with a
tolerance (looks.py), and the static pages on a phone.

axe-core comes with axe-playwright-python (the script only; `evaluate` runs it through the debugger, since the console's
policy forbids scripts that are put into the page). Skipped, with the reason, where it is not installed.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.waiting import Bound, becomes, patience

from cotenant_local.demo import page as demo_page
from cotenant_local.demo.run import ClusterSample, DayOutcome, DemoConfig

from . import looks
from .conftest import ACTION_MS, NARROW, WIDE, Tab
from .test_console import VIEWS

SERIOUS = ("serious", "critical")
THEMES = [("light", ""), ("dark", "color-contrast")]  # only colours differ between them
SHOTS = {
    "machines-1280-light": ("machines?group=zone", ".tile", WIDE, "light"),
    "machines-1280-dark": ("machines?group=zone", ".tile", WIDE, "dark"),
    "machines-400-light": ("machines?group=zone", ".tile", NARROW, "light"),
    "pods-400-dark": ("pods?pod=shop/too-large", "[data-headline]", NARROW, "dark"),
}


def axe(page: Any, rule: str = "") -> list[str]:
    """The serious and critical findings of axe-core in a page, a line each; of one rule only, if given."""
    spec = importlib.util.find_spec("axe_playwright_python")
    if spec is None or spec.origin is None:
        pytest.skip("axe-core is not installed: pip install axe-playwright-python")
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate((Path(spec.origin).parent / "axe.min.js").read_text())
    options = {"resultTypes": ["violations"], **({"runOnly": [rule]} if rule else {})}
    found = page.evaluate(
        "options => axe.run(options).then(r => r.violations.map(v => [v.impact, v.id, v.nodes.map(n => "
        "n.html.slice(0, 120) + ' ' + n.failureSummary.slice(0, 160))]))",
        options,
    )
    return [f"{rule}: {node}" for impact, rule, nodes in found if impact in SERIOUS for node in nodes]


def show(tab: Tab, view: str, ready: str, scheme: str) -> Any:
    """Open a view in a colour scheme, drawn."""
    tab.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page = tab.open(view)
    page.wait_for_selector(ready)
    tab.until(f"document.documentElement.dataset.theme === '{scheme}'")
    if view.startswith("machines"):
        tab.until("performance.getEntriesByName('paint').length > 0")
    drawn(page)
    return page


def styled(page: Any, rules: str = "") -> None:
    """Add rules to a page's style; sheets that a script makes are not subject to its policy. What depends on how
    long the console has run is hidden.
    """
    page.evaluate(
        "rules => { const sheet = new CSSStyleSheet(); sheet.replaceSync(rules); document.adoptedStyleSheets = "
        "[sheet] }",
        f".timeline, .card:has(.curves) {{ display: none !important }} {rules}",
    )
    drawn(page)


def drawn(page: Any) -> None:
    """Wait for two frames."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")


def picture(page: Any, blank: Any) -> looks.Grid:
    """The page once it no longer changes: two equal screenshots in a row. A page that never settles is taken as it
    is after 20 s.
    """
    before, shot = b"", page.screenshot()
    bound = Bound(20.0)
    while shot != before and not bound.reached():
        before, shot = shot, page.screenshot()
    return looks.read(blank, shot)


@pytest.mark.parametrize(("scheme", "rule"), THEMES)
def test_axe_finds_nothing_serious_in_any_view(tab: Tab, scheme: str, rule: str) -> None:
    found = {view: axe(show(tab, view, ready, scheme), rule) for view, ready in VIEWS.items()}
    assert [f"{view}: {line}" for view, lines in found.items() for line in lines] == []


def test_axe_finds_a_fault(tab: Tab) -> None:
    page = show(tab, "quotas", ".quota", "light")
    page.evaluate(
        """() => { const input = document.createElement("input"); const text = document.createElement("p");
        text.textContent = "pale"; text.style.color = "#ccc"; text.style.background = "#fff";
        document.querySelector("main").append(input, text) }"""
    )
    assert {line.split(":")[0] for line in axe(page)} == {"label", "color-contrast"}


@pytest.fixture
def blank(tab: Tab) -> Iterator[Any]:
    """A page without a policy, which decodes pictures."""
    opened = tab.context.new_page()
    yield opened
    opened.close()


@pytest.mark.parametrize("shot", SHOTS)
def test_views_look_as_they_did(tab: Tab, blank: Any, shot: str) -> None:
    view, ready, size, scheme = SHOTS[shot]
    tab.size(size)
    page = show(tab, view, ready, scheme)
    styled(page)
    becomes(shot, lambda: looks.faults(page, blank, shot, picture(page, blank)), [])


HARMLESS = (":root { font-family: monospace !important; letter-spacing: -.06em }",)
FAULTS = {
    "dark colours in the light scheme": ":root { --bg: #12171b !important; --card: #1a2126 !important; --ink: #e7ecef "
    "!important }",
    "no panel at the side": ".side { display: none }",
    "one column": ".split { display: block !important }",
    "a header over the page": "header { position: absolute; width: 100% }",
    "a header overlapped": "nav { margin-left: -8rem }",
}


def test_faults_are_seen_and_other_fonts_are_not(tab: Tab, blank: Any) -> None:
    page = show(tab, "machines?group=zone", ".tile", "light")
    kept = looks.golden(blank, "machines-1280-light")
    for rules in (*HARMLESS, *FAULTS.values()):
        styled(page, rules)

        def is_seen() -> bool:
            colour, ink = looks.differences(picture(page, blank), kept)
            overlaps = looks.overlaps(page)
            print(f"{rules}: colour {colour:.3f}, ink {ink:.3f}, {overlaps}")  # noqa: B023
            return colour > looks.ALLOWED_COLOUR or ink > looks.ALLOWED_INK or overlaps != []

        becomes(f"whether it is seen: {rules}", is_seen, rules not in HARMLESS)


def test_the_demonstration_page_is_readable_on_a_phone(chromium: Any, tmp_path: Path) -> None:
    samples = [ClusterSample(number / 5, 0.6, 0.3, 0.1, 0.2, 100) for number in range(70)]
    days = [
        DayOutcome(name, samples, hours_per_s=0.4, submitted=9, placed=9, services_placed=True)
        for name in ("kube-default+usage", "cotenant+peak")
    ]
    path = tmp_path / "report.html"
    demo_page.write(path, DemoConfig(), days)
    page = chromium.new_page(viewport=NARROW)
    page.set_default_timeout(patience(ACTION_MS))
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    for scheme, ground, rule in (("light", "rgb(246, 247, 248)", ""), ("dark", "rgb(18, 23, 27)", "color-contrast")):
        page.emulate_media(color_scheme=scheme)
        if scheme == "light":
            page.goto(path.as_uri())
        page.wait_for_selector("[data-figure] svg")
        shade = "getComputedStyle(document.body).backgroundColor"
        becomes("the ground", functools.partial(page.evaluate, shade), ground)
        cut = (
            "[...document.querySelectorAll('main *')].filter(e => !e.closest('svg') && "
            "e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 90))"
        )
        becomes("nothing is cut", functools.partial(page.evaluate, cut), [])
        assert problems == []
        assert axe(page, rule) == []
    page.close()
