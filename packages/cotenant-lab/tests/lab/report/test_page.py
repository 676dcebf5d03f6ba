"""The page is self-contained, and is written completely or not at all."""

import base64
import json
import re
import resource
import zlib
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fakes.reports import ORIGIN, SWEEP, made

from cotenant.cli.main import main
from cotenant.model.results.forms import MachineFrames, RunSeries
from cotenant_lab.comparison import Comparison, standing
from cotenant_lab.contract import RunResult
from cotenant_lab.metrics import METRICS
from cotenant_lab.metrics_by_workload import catalogue
from cotenant_lab.provenance import Provenance
from cotenant_lab.report.page import render
from cotenant_lab.report.palette import styles
from cotenant_lab.report.runs import carried

pytestmark = pytest.mark.usefixtures("fake_workloads")


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


def embedded(page: Page) -> dict[str, Any]:
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
    assert [attributes.get("type") for attributes, _ in page.scripts] == ["application/json", None]
    assert len(text) < 500_000


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
        lines = embedded(page)["figures"][key]["lines"]
        assert lines[-1]["name"] == "cotenant", key  # on top of the others
        for line in lines:
            if line["name"] != "frontier":
                colours.setdefault(line["name"], set()).add(line["colour"])
                widths.setdefault(line["name"], set()).add(line["width"])
    assert {name: len(found) for name, found in colours.items()} == {"cotenant": 1, "random": 1, "tetris": 1}
    assert len(set.union(*colours.values())) == 3
    assert colours["cotenant"] == {"ours"}
    assert min(widths["cotenant"]) > max(widths["random"] | widths["tetris"])
    assert embedded(page)["colours"] == {name: next(iter(found)) for name, found in colours.items()}


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


def test_the_machine_map_has_a_cell_a_machine_and_its_tenants_inside(tmp_path: Path) -> None:
    comparison, results = made(tmp_path, "cotenant", "random")
    figure = embedded(Page(render(comparison, ORIGIN, results)))["figures"]["machines"]
    machines = results["cotenant"][0].machine_map
    assert machines is not None
    assert [entry["policy"] for entry in figure["maps"]] == ["cotenant", "random"]
    ours = figure["maps"][0]
    kinds = 2 * len(figure["tenants"])
    cells = [ours["shares"][k : k + kinds] for k in range(0, len(ours["shares"]), kinds)]
    assert len(cells) == len(ours["machine"]) == 120
    full = [sum(entry) for entry in cells]
    assert (
        full == sorted(full, reverse=True) or max(b - a for a, b in pairwise(full)) <= kinds
    )  # the fullest first, but for rounding
    assert sum(full) == pytest.approx(float(machines.cpu_share.sum()) * 1000, rel=1e-2)
    services = sum(sum(entry[: kinds // 2]) for entry in cells)
    assert services == pytest.approx(float(machines.cpu_share[machines.is_service].sum()) * 1000, rel=1e-2)


def test_every_figure_has_its_values_as_a_table_without_a_script(tmp_path: Path) -> None:
    text = render(*with_origin(made(tmp_path, "cotenant", "random", loads=SWEEP)))
    page = Page(text)
    for key in embedded(page)["figures"]:
        figure = text[text.index(f'data-figure="{key}"') :].partition("</figure>")[0]
        assert "<details><summary>values</summary>" in figure, key
        assert "cotenant" in figure, key


def answer(packed: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def test_the_file_carries_the_runs_of_one_load_and_seed_for_the_console_s_view(tmp_path: Path) -> None:
    comparison, results = made(tmp_path, "cotenant", "random", loads=SWEEP)
    frames = MachineFrames(
        np.arange(2.0) * 3600,
        np.arange(3),
        np.arange(36, dtype=np.uint8).reshape(2, 3, 6),
        9,
        np.arange(2),
        np.full(2, 0.5),
    )
    results["cotenant"] = [replace(run_result, machine_frames=frames) for run_result in results["cotenant"]]
    runs = embedded(Page(render(comparison, ORIGIN, results)))["runs"]
    assert (runs["load"], runs["seed"]) == (comparison.focus, 0)
    assert list(runs["curves"]) == ["cotenant", "random"]  # ours first
    (curve,) = answer(runs["curves"]["random"])
    assert curve["name"] == "fragmentation"
    assert curve["x"] == results["random"][0].series[0].x.tolist()[:: -(-len(results["random"][0].series[0].x) // 400)]
    assert runs["machines"]["random"] is None
    machines = answer(runs["machines"]["cotenant"])
    assert machines["hours"] == [0.0, 1.0]
    assert machines["machines"] == 9
    cells = np.frombuffer(base64.b64decode(machines["cells"]), np.uint8).reshape(6, 3, 2)
    assert np.array_equal(cells.transpose(2, 1, 0), frames.cells)
    page = answer(runs["page"])
    rows = page["results"]["rows"]
    assert {row["load"] for row in rows} == set(SWEEP)
    row = comparison.row("random", comparison.focus)
    assert row is not None
    shown = next(entry for entry in rows if (entry["policy"], entry["load"]) == ("random", comparison.focus))
    assert shown["violation"] == pytest.approx(row.get("violation").mean, rel=1e-5)
    assert {entry["name"] for entry in page["metrics"]} == set(comparison.measured)


def test_runs_that_have_no_room_are_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    comparison, results = made(tmp_path, "cotenant", "random", "tetris")
    sizes = {name: len(packed) for name, packed in carried(comparison, results).runs.curves.items()}
    monkeypatch.setattr("cotenant_lab.report.runs.MAX_BYTES", sizes["cotenant"] + 1)
    text = render(comparison, ORIGIN, results)
    assert list(embedded(Page(text))["runs"]["curves"]) == ["cotenant"]
    left_out = re.findall(r"left out of this file for its size: ([^<]*)\.<", text)[0].split(", ")
    assert sorted(left_out) == ["random", "tetris"]


def test_the_first_minutes_do_not_set_the_scale(tmp_path: Path) -> None:
    comparison, results = made(tmp_path, "cotenant", "random")
    x = np.linspace(0.0, 12.0, 600)
    y = np.where(x < 0.2, 900.0, 10.0 + np.sin(x))
    queue = RunSeries("queued", "time (h)", "pods waiting", x, y)
    results = {name: [replace(run, series=(queue,)) for run in runs] for name, runs in results.items()}
    text = render(comparison, ORIGIN, results)
    axis = embedded(Page(text))["figures"]["series-queued"]["y"]
    assert 11.0 <= axis["high"] < 15.0
    assert "The axis ends at" in text
    assert "900" in text


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may grow beyond 80 KiB: writing the report fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (80 << 10, hard))
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
    assert len(earlier) > 80 << 10
    capsys.readouterr()
    request.getfixturevalue("small_files")
    assert main([*arguments, "--seeds", "2"]) == 1
    captured = capsys.readouterr()
    assert re.fullmatch(r"cotenant: cannot write .*report\.html: File too large; .* unchanged\n", captured.err)
    assert "2 runs (1 now, 1 stored before)" in captured.out  # the figures are printed all the same
    assert (tmp_path / "report.html").read_bytes() == earlier
    assert not list(tmp_path.glob(".*.tmp"))
