"""Static pages in a real browser, opened as files: figures, legends, zoom, the view of two policies from what the file
carries; narrow, dark, hostile and without scripts.

Every page fails its test where it asks for anything but its own file, where the browser reports a violation of its
policy, an uncaught error, or a dialog.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fakes.processes.console_objects import run_machines
from tests.fakes.processes.console_world import HOSTILE
from tests.fakes.reports import ORIGIN, SWEEP, made, renamed
from tests.fakes.waiting import becomes, eventually, patience

from cotenant.model.results.forms import RunSeries
from cotenant_lab.experiments.outcome import Curve, FigureCheck, Findings, Picture
from cotenant_lab.report.page import render
from cotenant_local.demo import page as demo_page
from cotenant_local.demo.run import ClusterSample, DayOutcome, DemoConfig

from . import looks
from .conftest import ACTION_MS, NARROW, WIDE
from .test_looks import THEMES, axe, drawn, picture

LINES = "[data-figure=load-violation]"
CUT = """[...document.querySelectorAll('body *')].filter(
    e => !e.closest('svg') && e.getBoundingClientRect().right > innerWidth + 1)
    .map(e => e.outerHTML.slice(0, 90))"""
SHOTS = [(WIDE, "light"), (NARROW, "dark")]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of three policies at three loads, one of them and a tenant with a hostile name, with machines
    over time of two; the curve has a peak at its start.
    """
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2]))
        patch.setenv("COTENANT_SCENARIOS", "tests.fakes.processes.fake_scenarios")
        comparison, results = renamed(made(folder, "cotenant", "random", "tetris", loads=SWEEP), "tetris", HOSTILE)
    x = np.linspace(0.0, 12.0, 600)
    for k, (policy, runs) in enumerate(results.items()):
        queue = RunSeries("queued", "time (h)", "pods waiting", x, np.where(x < 0.2, 900.0, 10.0 + k + np.sin(x)))
        machines = None if policy == HOSTILE else run_machines(k)
        results[policy] = [replace(run, series=(*run.series, queue), machine_frames=machines) for run in runs]
    for runs in results.values():
        owned = runs[0].machine_map
        assert owned is not None
        owners = tuple(HOSTILE if name == "tenant 1" else name for name in owned.owner)
        runs[0] = replace(runs[0], machine_map=replace(owned, owner=owners))
    path = folder / "report.html"
    path.write_text(render(comparison, ORIGIN, results))
    return path


class Static:
    """A page opened from a file. `page` is Playwright's."""

    def __init__(self, browser: Any, path: Path, size: dict[str, int], scheme: str = "light", **options: Any) -> None:
        self.problems: list[str] = []
        self.context = browser.new_context(viewport=size, locale="zh-CN", color_scheme=scheme, offline=True, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(patience(ACTION_MS))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.problems.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("request", lambda request: self._asked(request.url, path))
        self.page.goto(path.as_uri())

    def _asked(self, url: str, path: Path) -> None:
        if url.partition("#")[0] != path.as_uri():
            self.problems.append(f"asked for {url}")

    def close(self) -> None:
        """Fails where the page had problems."""
        self.context.close()
        assert self.problems == []


@pytest.fixture
def opened(chromium: Any, report: Path) -> Iterator[Static]:
    static = Static(chromium, report, WIDE)
    static.page.wait_for_selector(f"{LINES} path.line")
    static.page.wait_for_selector("#lab-view .interval-row")
    yield static
    if folder := os.environ.get("CONSOLE_SHOTS"):
        static.page.screenshot(path=f"{folder}/{os.environ['PYTEST_CURRENT_TEST'].split('::')[-1].split(' ')[0]}.png")
    static.close()


def names(page: Any, figure: str) -> list[str]:
    """The legend of a figure, as it reads."""
    found: list[str] = page.locator(f"{figure} .names button").all_text_contents()
    return found


def test_every_figure_is_drawn_and_names_do_nothing(opened: Static) -> None:
    page = opened.page
    empty = (
        "[...document.querySelectorAll('[data-figure]')].filter(e => !e.querySelector('svg path, canvas, "
        ".interval-row')).map(e => e.dataset.figure)"
    )
    becomes("figures", page.locator("[data-figure]").count, 10)
    becomes("figures without a drawing", lambda: page.evaluate(empty), [])
    assert names(page, LINES)[0] == "cotenant"
    assert HOSTILE in names(page, LINES)
    assert page.locator("main img").count() == 0
    assert HOSTILE in page.locator("[data-figure=machines] .series").text_content()
    assert page.locator("html").get_attribute("lang") == "en"  # as its sentences, whatever the browser speaks
    becomes("the heading", page.locator("#lab-view h2").first.text_content, "SLO violation lower is better")


def test_a_legend_switches_a_policy_in_every_figure(opened: Static) -> None:
    page = opened.page

    def lines() -> list[int]:
        return [page.locator(f"[data-figure={key}] path.line").count() for key in ("load-violation", "slowdowns")]

    becomes("three policies", lines, [3, 3])
    page.click(f"{LINES} .names button:has-text('random')")
    becomes("one less", lines, [2, 2])
    for pale in ("[data-figure=slowdowns] button[aria-pressed=false]",
                 "[data-figure=classes] .interval-row.pale .shift-name"):  # fmt: skip
        becomes(pale, page.locator(pale).all_text_contents, ["random"])
    page.focus("[data-figure=slowdowns] .names button:has-text('random')")
    page.keyboard.press("Enter")
    becomes("all again", lines, [3, 3])
    page.keyboard.press("Shift+Enter")
    becomes("this one alone", lines, [1, 1])
    page.keyboard.press("Shift+Enter")
    becomes("all again", lines, [3, 3])
    page.dblclick(f"{LINES} .names button:has-text('cotenant')")
    becomes("ours alone", lines, [1, 1])


def test_values_are_read_with_the_pointer_and_with_arrow_keys(opened: Static) -> None:
    page = opened.page
    chart = page.locator(f"{LINES} svg[role=img]")
    chart.focus()
    page.keyboard.press("ArrowRight")  # the first point of ours

    def reads(*parts: str, without: str = "-") -> None:
        def label() -> bool:
            text = chart.get_attribute("aria-label")
            return all(part in text for part in parts) and without not in text

        eventually(f"the chart reads {parts}", label)

    reads("% of the cluster: 75", "cotenant: ")
    page.locator(f"{LINES} .tip").wait_for()
    page.keyboard.press("ArrowRight")
    reads("cluster: 85", "cotenant: ")
    page.keyboard.press("ArrowUp")
    reads("cluster: 85", without="cotenant")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 16, box["y"] + box["height"] / 2)
    page.wait_for_selector(f"{LINES} .tip:has-text('cluster: 95')")
    page.focus("[data-figure=machines] canvas")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("[data-figure=machines] .reading:has-text('Machine')")


def test_dragging_zooms_and_escape_goes_back(opened: Static) -> None:
    page = opened.page

    def ticks() -> list[str]:
        found: list[str] = page.locator(f"{LINES} svg g > text:not(.y)").all_text_contents()
        return found

    whole = ticks()
    chart = page.locator(f"{LINES} svg[role=img]")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 160, steps=4)
    page.mouse.up()
    page.wait_for_selector(f"{LINES} button:has-text('Show all again')")
    eventually("other ticks", lambda: ticks() != whole)
    chart.focus()
    page.keyboard.press("Escape")
    becomes("the ticks of before", ticks, whole)


def test_two_policies_are_compared_from_what_the_file_carries(opened: Static) -> None:
    page = opened.page
    for name in ("cotenant", "random"):
        page.focus(f"#lab-view th button.link:has-text('{name}')")
        page.keyboard.press("Enter")
    page.wait_for_selector("[data-pair] .plot path.line")
    eventually("the address", lambda: "a=cotenant&b=random" in page.evaluate("location.href"))
    captions = page.locator("[data-pair] figcaption b")
    becomes("captions", lambda: captions.all_text_contents()[:2], ["fragmentation", "queued"])
    words = page.locator("[data-maps] [data-map-words]")
    page.focus("[data-maps] input[type=range]")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("[data-maps] [data-map-words]:has-text('1 of 60 machines with a missed objective')")
    eventually("the other one's", lambda: words.nth(0).text_content().startswith("0 of 60 machines"))
    ink = "c => new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size"
    eventually("it is drawn", lambda: page.locator("[data-maps] canvas").nth(1).evaluate(ink) > 4)
    page.click("nav a:has-text('Summary')")  # an anchor of the page is no other view
    page.wait_for_selector("[data-pair]")
    page.click("#lab-view button:has-text('load 0.75')")
    page.wait_for_selector("[data-pair] :text('This file has no run of cotenant at load 0.75')")
    page.click("#lab-view button:has-text('load 0.85')")
    page.focus("#lab-view th button.link:has-text('random')")
    page.keyboard.press("Enter")
    page.focus("#lab-view th button.link:has-text('<img')")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-maps] :text('This run has no machines over time')")


def test_the_address_holds_what_is_compared(chromium: Any, report: Path) -> None:
    static = Static(chromium, report, WIDE)
    static.page.goto(f"{report.as_uri()}#/lab?a=cotenant&b=random&at=2")
    static.page.reload()
    static.page.wait_for_selector("[data-maps] [data-map-words]:has-text('2 of 60 machines')")
    static.close()


def test_first_minutes_do_not_set_the_scale(opened: Static) -> None:
    marks = opened.page.locator("[data-figure=series-queued] text.y")
    becomes("the scale", lambda: 10 <= max(map(float, marks.all_text_contents()), default=0.0) <= 20, True)


@pytest.mark.parametrize("has_scripts", [True, False])
def test_nothing_is_cut_on_a_phone(chromium: Any, report: Path, has_scripts: bool) -> None:
    static = Static(chromium, report, NARROW, "dark", java_script_enabled=has_scripts)
    page = static.page
    if has_scripts:
        page.wait_for_selector(f"{LINES} path.line")
        page.wait_for_selector("#lab-view .interval-row")
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        drawn(page)
        becomes("what is cut", lambda: page.evaluate(CUT), [])
        becomes("the width", lambda: page.evaluate("document.documentElement.scrollWidth"), NARROW["width"])
        small = page.evaluate(
            "[...document.querySelectorAll('main :is(text, td, p, li, span, button)')].filter(e => "
            "e.textContent.trim() && parseFloat(getComputedStyle(e).fontSize) < 10.5).map(e => "
            "e.outerHTML.slice(0, 80))"
        )
        assert small == []
    else:
        page.locator(f"figure:has({LINES}) summary").click()
        row = page.locator(f"figure:has({LINES}) tr.ours, figure:has({LINES}) tr").nth(1)
        row.wait_for()
        assert row.text_content().startswith("cotenant")
        page.locator(f"figure:has({LINES}) figcaption p").wait_for()
    ground = lambda: page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")  # noqa: E731
    becomes("the ground", ground, "rgb(18, 23, 27)")
    static.close()


@pytest.mark.parametrize(("scheme", "rule"), THEMES)
def test_axe_finds_nothing_serious(chromium: Any, report: Path, scheme: str, rule: str) -> None:
    static = Static(chromium, report, WIDE, scheme)
    static.page.goto(f"{report.as_uri()}#/lab?a=cotenant&b=random")
    static.page.reload()
    static.page.wait_for_selector("[data-maps] canvas")
    static.page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    becomes("the theme", lambda: static.page.locator("html").get_attribute("data-theme"), scheme)
    drawn(static.page)
    assert axe(static.page, rule) == []
    static.close()


def test_the_report_looks_as_it_did(chromium: Any, report: Path) -> None:
    for size, scheme in SHOTS:
        static = Static(chromium, report, size, scheme, reduced_motion="reduce")
        page = static.page
        page.wait_for_selector(f"{LINES} path.line")
        page.locator("#load").scroll_into_view_if_needed()
        page.evaluate("document.getElementById('load').scrollIntoView()")
        drawn(page)
        blank = static.context.new_page()
        name = f"report-{size['width']}-{scheme}"
        becomes(name, lambda: looks.faults(page, blank, name, picture(page, blank)), [])  # noqa: B023
        static.problems[:] = [
            problem for problem in static.problems if "about:blank" not in problem and "data:" not in problem
        ]
        static.close()


def demo(path: Path) -> None:
    """The demonstration's page: a day with a peak in its first hours, and the node's side."""
    samples = [ClusterSample(number / 5, 0.6, 0.3, 0.9 if number < 12 else 0.02, 0.2, 100) for number in range(70)]
    days = [
        DayOutcome(name, samples, hours_per_s=0.4, submitted=9, placed=9, services_placed=True)
        for name in ("kube-default+usage", "cotenant+peak", HOSTILE)
    ]
    curves = (
        Curve("batch work", [0, 1, 2], [1.0, None, 3.0], "rival-0", is_filled=True),
        Curve("service", [0, 1, 2], [2.0, 2.5, 1.0], "ours"),
    )
    picture = Picture("CPU", "seconds", "% of the core", [("alone", curves), ("together", curves)])
    checks = (FigureCheck("correlation", 0.99, 0.95, at_least=True), FigureCheck("share", 0.5, 0.9, at_least=True))
    found = Findings(
        "sine", "A sine", 1, (), 1, {}, checks, ("arm", "r"), (("regulated", "0.99"),), pictures=(picture,)
    )
    demo_page.write(path, DemoConfig(), days, demo_page.NodeSide(found, "cotenant node experiment sine"))


def test_the_demonstration_marks_what_it_does_not_count(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    demo(path)
    for size, scheme in SHOTS:
        static = Static(chromium, path, size, scheme)
        page = static.page
        page.wait_for_selector("[data-figure=violation] path.line")
        assert page.locator("[data-figure=violation] .uncounted").bounding_box()["width"] > 20
        assert page.locator("[data-figure=violation] text.words").text_content() == "not counted"
        marks = page.locator("[data-figure=violation] text.y").all_text_contents()
        assert (
            max(float(mark.removesuffix(" %")) for mark in marks) <= 3
        )  # the counted part; the peak of the first hours leaves the frame
        assert names(page, "[data-figure=violation]")[0] == "cotenant+peak"
        becomes("the node's side", page.locator("[data-figure=node-0-1] path.fill").count, 1)
        becomes("what is cut", lambda: page.evaluate(CUT), [])  # noqa: B023
        static.close()
