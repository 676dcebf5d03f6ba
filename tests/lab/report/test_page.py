"""The page is self-contained, and is written completely or not at all."""

import json
import re
import resource
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cotenant.cli.main import main
from cotenant.lab import experiment, registry, storage
from cotenant.lab.comparison import Comparison, compare, standing
from cotenant.lab.contract import RunResult, RunSpec
from cotenant.lab.experiment import Plan
from cotenant.lab.metrics import METRICS
from cotenant.lab.metrics_by_workload import catalogue
from cotenant.lab.provenance import Provenance
from cotenant.lab.report.page import render
from cotenant.lab.report.palette import styles

pytestmark = pytest.mark.usefixtures("fake_workloads")

ORIGIN = Provenance("cotenant lab compare --workload fake", "0.1.0", "abc", "3.11", ("numpy 2",), "a machine", 2, 2)
SWEEP = (0.75, 0.85, 0.95)


class Page(HTMLParser):
    """Collects the elements that tests inspect, and fails on tags that do not close."""

    VOID = frozenset({"meta", "br", "link", "img", "input", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.headings: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings.append(data)
        if self.open and self.open[-1] == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)


def made(
    folder: Path, *policies: str, seeds: int = 2, loads: tuple[float, ...] = (0.77,), workload: str = "fake"
) -> tuple[Comparison, dict[str, list[RunResult]]]:
    scenario = registry.scenario(workload)
    plan = Plan(RunSpec(workload, "", 0, 0.0), policies, tuple(range(seeds)), loads)
    comparison = compare(plan, scenario, experiment.run(plan, folder, jobs=1))
    results = {
        policy: [
            storage.load_result(record)
            for record in comparison.records
            if record.spec.policy == policy and record.spec.load == comparison.focus
        ]
        for policy in policies
    }
    return comparison, results


def embedded(page: Page) -> dict[str, dict[str, dict[str, list[dict[str, object]]]]]:
    text = next(body for attributes, body in page.scripts if attributes.get("id") == "report-data")
    return json.loads(text)


def test_a_sweep_has_every_section_and_picture(tmp_path: Path) -> None:
    page = Page(render(*with_origin(made(tmp_path, "cotenant", "random", "best-fit", loads=SWEEP))))
    assert page.headings[0] == "fake"
    assert {"What was run", "What these figures say", "Summary", "Definitions", "Notes"} <= set(page.headings)
    assert set(embedded(page)["figures"]) == {
        "sustained",
        "load-violation",
        "load-success",
        "frontier",
        "classes",
        "slowdowns",
        "series-fragmentation",
        "latency",
        "machines",
    }
    drawn = {value for tag, name, value in page.attributes if tag == "div" and name == "data-figure"}
    assert drawn == set(embedded(page)["figures"])


def test_one_load_without_violations_draws_only_what_it_has(tmp_path: Path) -> None:
    page = Page(render(*with_origin(made(tmp_path, "cotenant", "random", workload="fake-packing"))))
    assert set(embedded(page)["figures"]) == {"latency"}
    assert "Machines" not in page.headings


def test_figures_name_what_the_workload_measures(tmp_path: Path) -> None:
    comparison, results = made(tmp_path, "cotenant", "random", loads=SWEEP)
    text = render(replace(comparison, metrics=catalogue("dag")), ORIGIN, results)
    assert "Slowdown of jobs" in Page(text).headings
    assert "microseconds a placement round" in text
    assert "of their task becoming ready" in text
    assert "batch pods" not in text


def with_origin(
    parts: tuple[Comparison, dict[str, list[RunResult]]],
) -> tuple[Comparison, Provenance, dict[str, list[RunResult]]]:
    return parts[0], ORIGIN, parts[1]


def test_the_page_needs_no_network(tmp_path: Path) -> None:
    text = render(*with_origin(made(tmp_path, "cotenant", "random")))
    page = Page(text)
    fetched = [
        (tag, name, value) for tag, name, value in page.attributes if name in ("src", "href", "srcset", "action")
    ]
    assert all(name == "href" and value.startswith("#") for _, name, value in fetched)
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert sum(len(body) > 1_000_000 for _, body in page.scripts) == 1  # the library, once


def test_the_contents_lead_to_sections_that_are_there(tmp_path: Path) -> None:
    page = Page(render(*with_origin(made(tmp_path, "cotenant", "random"))))
    there = {value for _, name, value in page.attributes if name == "id"}
    assert {value[1:] for tag, name, value in page.attributes if (tag, name) == ("a", "href")} <= there


def test_every_figure_is_defined_and_every_policy_described(tmp_path: Path) -> None:
    text = render(*with_origin(made(tmp_path, "cotenant", "random")))
    for metric in METRICS:
        assert f"<code>{metric.name}</code>" in text
    assert "fits by formula (random)" in text
    assert ORIGIN.command in text
    assert "synthetic: no world behind it" in text


def test_names_and_notes_cannot_break_the_page(tmp_path: Path) -> None:
    comparison, results = made(tmp_path, "cotenant", "random")
    wicked = "</script><script>alert(1)</script><b>"
    Page(render(replace(comparison, notes=(wicked,), provenance=wicked, failures=(wicked,)), ORIGIN, results))
    named = replace(comparison, headline=(), summaries=dict.fromkeys(comparison.policies, wicked))
    text = render(named, ORIGIN, results)
    Page(text)
    assert "<script>alert" not in text


def test_numbers_that_are_not_there_leave_valid_data(tmp_path: Path) -> None:
    page = Page(render(*with_origin(made(tmp_path, "cotenant", "raises", "random", seeds=1))))
    assert "NaN" not in next(body for attributes, body in page.scripts if attributes.get("id") == "report-data")


def test_a_policy_has_one_colour_in_every_picture_and_ours_stands_out(tmp_path: Path) -> None:
    page = Page(render(*with_origin(made(tmp_path, "cotenant", "random", "tetris", loads=SWEEP))))
    colours: dict[str, set[str]] = {}
    widths: dict[str, set[float]] = {}
    for key in ("load-violation", "load-success", "frontier", "slowdowns", "series-fragmentation"):
        for trace in embedded(page)["figures"][key]["data"]:
            if trace["name"] != "frontier":
                colours.setdefault(trace["name"], set()).add(trace["line"]["color"])
                widths.setdefault(trace["name"], set()).add(trace["line"]["width"])
    assert {name: len(found) for name, found in colours.items()} == {"cotenant": 1, "random": 1, "tetris": 1}
    assert len(set.union(*colours.values())) == 3
    assert min(widths["cotenant"]) > max(widths["random"] | widths["tetris"])


def test_twenty_rivals_have_distinct_styles() -> None:
    names = ["ours", *(f"rival-{i}" for i in range(20))]
    found = styles(names, {name: "ours" if name == "ours" else "rival" for name in names}, "ours")
    assert len({(style.colour, style.dash) for style in found.values()}) == 21


def test_the_best_of_a_column_and_its_ties_are_marked(tmp_path: Path) -> None:
    comparison, _ = made(tmp_path, "cotenant", "edf-paragon", "random", "true-values", seeds=4)
    load = comparison.focus
    found = standing(comparison, "violation", load)
    assert found is not None
    assert found.best == "cotenant"  # bounds are not ranked
    assert "random" not in found.tied
    granted = standing(comparison, "success", load)
    assert granted is not None
    assert {granted.best, *granted.tied} >= {"cotenant", "edf-paragon"}
    assert standing(comparison, "dominant_fairness", load) is None


def test_the_machine_map_has_a_bar_a_machine_and_its_tenants_inside(tmp_path: Path) -> None:
    comparison, results = made(tmp_path, "cotenant", "random")
    figure = embedded(Page(render(comparison, ORIGIN, results)))["figures"]["machines"]
    ours = [trace for trace in figure["data"] if trace["meta"] == "cotenant"]
    machines = results["cotenant"][0].machine_map
    assert machines is not None
    assert {len(trace["y"]) for trace in ours} == {120}
    total = sum(sum(trace["y"]) for trace in ours)
    assert total == pytest.approx(float(machines.cpu_share.sum()) * 100, rel=1e-2)
    assert figure["choices"] == ["cotenant", "random"]
    assert all(trace["visible"] == (trace["meta"] == "cotenant") for trace in figure["data"])


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may grow beyond a megabyte: writing the report fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_report_that_cannot_be_written_leaves_the_earlier_one(
    tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "lab",
        "compare",
        "--workload",
        "fake",
        "--policies",
        "cotenant",
        "--jobs",
        "1",
        "--out",
        str(tmp_path),
    ]
    assert main([*arguments, "--seeds", "1"]) == 0
    earlier = (tmp_path / "report.html").read_bytes()
    assert len(earlier) > 1 << 20
    capsys.readouterr()
    request.getfixturevalue("small_files")
    assert main([*arguments, "--seeds", "2"]) == 1
    captured = capsys.readouterr()
    assert re.fullmatch(r"cotenant: cannot write .*report\.html: File too large; .* unchanged\n", captured.err)
    assert "2 runs (1 now, 1 stored before)" in captured.out  # the figures are printed all the same
    assert (tmp_path / "report.html").read_bytes() == earlier
    assert not list(tmp_path.glob(".*.tmp"))
