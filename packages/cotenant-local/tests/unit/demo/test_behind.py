"""What the demonstration takes, the table of a day in which the cluster did not keep up, and the page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cotenant.model.errors import InvalidInput
from cotenant_lab.experiments.outcome import Curve, FigureCheck, Findings, Picture
from cotenant_local.demo import page
from cotenant_local.demo.run import ClusterSample, DayOutcome, DemoConfig


def samples(*hours: float) -> list[ClusterSample]:
    return [ClusterSample(hour, 0.6, 0.3, 0.138, 0.2, 100) for hour in hours]


GOOD = DayOutcome(
    "kube-default",
    samples(*(0.2 * number for number in range(70))),
    hours_per_s=0.41,
    submitted=1600,
    placed=1575,
    wait_p99_ms=158.0,
    services_placed=True,
    stages_done=297,
    stages=447,
)


def test_a_day_that_was_kept_up_with_has_all_figures() -> None:
    assert GOOD.behind == ""
    assert page.row(GOOD) == ("kube-default", "1575", "158", "60.0", "30.0", "13.80", "13.8", "20.0", "297 of 447")
    assert page.warnings([GOOD]) == []


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (
            replace(GOOD, placed=109, services_placed=False),
            "only 109 of 1600 pods were placed, not all services among them",
        ),
        (replace(GOOD, samples=samples(0.2, 0.4, 3.5, 3.7)), "the nodes stood still for 3.1 simulated hours"),
        (replace(GOOD, wait_p99_ms=3000.0), "pods waited for up to 1.2 simulated hours (p99)"),
        (replace(GOOD, samples=samples(0.2, 0.4)), "no sample was taken after the settling time"),
        (replace(GOOD, samples=[]), "no sample was taken after the settling time"),
    ],
)
def test_a_cluster_that_fell_behind_shows_no_figure_as_a_result(bad: DayOutcome, why: str) -> None:
    assert bad.behind == why
    row = page.row(bad)
    assert len(row) == len(page.COLUMNS)
    assert row[0] == "kube-default *"
    assert set(row[2:-1]) == {"–"}
    (line,) = page.warnings([GOOD, bad])
    assert line.startswith(f"* kube-default: the cluster did not keep up with the day: {why}.")


def test_the_page_says_it_too(tmp_path: Path) -> None:
    page.write(tmp_path / "report.html", DemoConfig(), [replace(GOOD, placed=109, services_placed=False)])
    text = (tmp_path / "report.html").read_text()
    assert "only 109 of 1600 pods were placed" in text
    assert "13.80" not in text.partition("<script>")[0]
    assert _data(tmp_path / "report.html")["figures"] == {}
    page.write(tmp_path / "report.html", DemoConfig(), [GOOD, replace(GOOD, profile="slow", services_placed=False)])
    assert [entry["name"] for entry in _data(tmp_path / "report.html")["figures"]["violation"]["lines"]] == [
        GOOD.profile
    ]


@pytest.mark.parametrize(
    "profile", ["kube-default+", "kube-default+request", "+peak", "cotenants", "kube-default+peak+peak"]
)
def test_unknown_profiles_and_policies_are_refused(profile: str) -> None:
    with pytest.raises(InvalidInput, match="--profile"):
        DemoConfig(profiles=(profile,))


def test_loads_that_no_workload_can_have_are_refused() -> None:
    with pytest.raises(InvalidInput, match="--load"):
        DemoConfig(load=0.0)


def _data(path: Path) -> dict[str, Any]:
    text = path.read_text()
    found: dict[str, Any] = json.loads(text.partition('id="report-data">')[2].partition("</script>")[0])
    return found


def test_the_hours_that_count_set_the_scale_and_ours_is_emphasised(tmp_path: Path) -> None:
    early = [ClusterSample(0.1 * number, 0.6, 0.3, 0.9, 0.2, 100) for number in range(29)]
    ours = replace(
        GOOD, profile="cotenant+peak", samples=[*early, *samples(*(3.0 + 0.2 * number for number in range(50)))]
    )
    page.write(tmp_path / "report.html", DemoConfig(), [ours, GOOD])
    figure = _data(tmp_path / "report.html")["figures"]["violation"]
    assert (figure["y"]["low"], figure["y"]["high"]) == (0.0, pytest.approx(13.8 * 1.08))
    assert figure["spans"] == [{"low": 0.0, "high": 3.0, "words": "not counted"}]
    assert [entry["name"] for entry in figure["lines"]] == ["kube-default", "cotenant+peak"]  # ours on top
    assert figure["lines"][1]["width"] > figure["lines"][0]["width"]
    assert figure["lines"][1]["colour"] == "ours" != figure["lines"][0]["colour"]
    text = (tmp_path / "report.html").read_text()
    assert "reach 90 %" in text
    assert re.search(r'<tr class="ours"><th scope=row class="name">cotenant\+peak<', text)


def test_the_verdict_says_where_ours_is_better_and_where_it_is_worse(tmp_path: Path) -> None:
    ours = replace(
        GOOD,
        profile="cotenant+peak",
        samples=[replace(sample, batch_pace=0.3, violation=0.05) for sample in GOOD.samples],
    )
    ours.samples[-1] = replace(ours.samples[-1], violation=0.5)
    assert page.verdict([GOOD, ours]) == (
        "On this day of this seed cotenant+peak had, against kube-default more batch work, fewer missed objectives, a "
        "higher worst instant."
    )
    page.write(tmp_path / "report.html", DemoConfig(), [GOOD, ours])
    assert page.verdict([GOOD, ours]) in (tmp_path / "report.html").read_text()
    behind = replace(ours, services_placed=False)
    assert page.verdict([GOOD, behind]).startswith("No two days can be compared")


def test_a_neighbour_is_a_picture_and_what_the_agent_said(tmp_path: Path) -> None:
    seen = page.Neighbour([None, 50.0, 120.0, 60.0], [None, 50.0, 120.0, 130.0], 80.0, 2.0, [(3.0, "caused by <job>")])
    page.write(tmp_path / "report.html", DemoConfig(), [GOOD], neighbour=seen)
    text = (tmp_path / "report.html").read_text()
    assert "3 s: caused by &lt;job&gt;" in text
    lines = _data(tmp_path / "report.html")["figures"]["neighbour"]["lines"]
    assert [line["name"] for line in lines] == ["without an agent", "objective", "with the agent"]


def test_the_node_side_is_in_the_same_page(tmp_path: Path) -> None:
    curve = Curve("batch work", [0, 1], [1.0, None], "ours")
    found = Findings(
        "sine",
        "A sine",
        1,
        (),
        1,
        {},
        (FigureCheck("correlation", 0.99, 0.95, at_least=True),),
        ("arm", "correlation"),
        (("regulated", "0.99"),),
        pictures=(Picture("CPU", "s", "%", [("alone", [curve]), ("together", [curve])]),),
    )
    path = tmp_path / "report.html"
    page.write(path, DemoConfig(), [GOOD], page.NodeSide(found, "cotenant node experiment sine"))
    text = path.read_text()
    assert "cotenant node experiment sine" in text
    assert {"violation", "node-0-0", "node-0-1"} <= _data(path)["figures"].keys()
    assert _data(path)["figures"]["node-0-0"]["lines"][0]["y"] == [1.0, None]
    page.write(path, DemoConfig(), [GOOD], page.NodeSide(skipped="it needs <root>"))
    assert "Not shown on this machine: it needs &lt;root&gt;" in path.read_text()
