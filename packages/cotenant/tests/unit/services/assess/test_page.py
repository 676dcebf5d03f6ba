"""The page of a report: what each section says, row by row, and what its two charts draw."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from tests.unit.services.assess.test_words import figure, money, report, spending

from cotenant.model.assess.figure import AssessedFigure, unknown
from cotenant.model.assess.report import (
    AdvisedMove,
    AssessedPlacement,
    AssessmentReport,
    Cards,
    Consolidation,
    Elsewhere,
    EmptiedNode,
    EmptyingTrial,
    EmptyingTried,
    EnergyGroups,
    EnergyOf,
    Lendable,
    NextStep,
    PastTrial,
    PendingPods,
    RefusedNodes,
    ReportSource,
    Saving,
    ShapeRoom,
    SizeTrial,
    SizeTried,
    Tried,
    WaitCause,
    WorkloadUse,
)
from cotenant.model.assess.what_if import Compared, UnplacedPods, WhatIfCase, WhatIfs
from cotenant.model.pages.figures import IntervalReadings
from cotenant.services.assess.page import _lendable_chart, _resources, page

SOURCE = ReportSource("2026-01-01", "a test", "v1", "no source of use was given", False, (), ())


def usual(**changes: Any) -> AssessmentReport:
    """A report with every figure that a page asks for."""
    figures = [
        figure("cpu_allocatable", 8.0),
        figure("cpu_allocated", 5.0),
        figure("cpu_idle", 3.0),
        figure("cpu_used_p99_day", None),
        figure("cpu_used_last", 2.0),
        figure("memory_allocatable", 16.0, "GiB"),
        figure("memory_allocated", 4.0, "GiB"),
        figure("memory_used_p99_day", 8.0, "GiB", low=6.0, high=10.0),
        figure("memory_used_last", 1.0, "GiB"),
    ]
    return replace(report(), figures=tuple(figures), source=SOURCE, **changes)


def section(given: AssessmentReport, name: str) -> str:
    """Its HTML; empty where the page has none."""
    found = re.search(rf'<section[^>]*id="?{name}"?[\s>].*?</section>', page(given, "a test"), re.DOTALL)
    return found[0] if found else ""


def rows(html: str) -> list[list[str]]:
    """The cells of all tables."""
    return [
        [unescape(re.sub(r"<[^>]*>", "", text)) for text in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)]
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", html, re.DOTALL)
    ]


def text(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def body(given: AssessmentReport, name: str) -> list[list[str]]:
    """Without heads."""
    return rows(section(given, name))[1:]


def test_sections_without_anything_to_say_are_left_out() -> None:
    names = re.findall(r'<section[^>]*id="?([a-z-]+)', page(usual(), "a test"))
    always = ["amounts", "idle", "lendable", "waiting", "elsewhere", "consolidation", "shapes", "moves", "workloads"]
    assert [name for name in names if name not in ("steps", "source")] == always
    assert {"steps", "source"} <= set(names)


def test_figures_that_are_known_and_why_others_are_not() -> None:
    html = section(usual(), "amounts")
    shown = {row[0]: row[1:] for row in rows(html)}
    assert shown["memory_used_p99_day"] == ["8 (6 to 10) GiB", "d", "i"]
    assert shown["cpu_used_p99_day"] == ["why"]
    assert "1 figure not given, and why" in html
    known = usual()
    known = replace(known, figures=tuple(one for one in known.figures if one.value is not None or "p99" in one.key))
    whole = replace(known, figures=tuple(replace(one, value=1.0, why="") for one in known.figures))
    assert "not given" not in section(whole, "amounts")


def readings(given: AssessmentReport) -> dict[str, list[tuple[float, float | None, float | None, str]]]:
    found = _resources(given)
    assert found is not None
    assert isinstance(found.drawing, IntervalReadings)
    return {row.name: [(one.value, one.low, one.high, one.shown) for one in row.readings] for row in found.drawing.rows}


def test_resources_are_drawn_in_percent_of_what_is_allocatable() -> None:
    assert readings(usual()) == {
        "cores": [(62.5, None, None, "5 cores"), (25.0, None, None, "2 cores")],
        "memory": [(25.0, None, None, "4 GiB"), (50.0, 37.5, 62.5, "8 GiB")],
    }


def changed(key: str, value: float | None, **more: float) -> AssessmentReport:
    given = usual()
    unit = "GiB" if key.startswith("memory") else "cores"
    other = figure(key, value, unit, **more)
    return replace(given, figures=tuple(other if one.key == key else one for one in given.figures))


def axis_high(given: AssessmentReport) -> float:
    found = _resources(given)
    assert found is not None
    assert isinstance(found.drawing, IntervalReadings)
    assert found.drawing.axis.low == 0.0
    return found.drawing.axis.high


def test_the_axis_holds_what_is_drawn() -> None:
    assert axis_high(usual()) == 105.0
    assert axis_high(changed("cpu_allocated", 16.0)) == pytest.approx(210.0)
    assert axis_high(changed("memory_used_p99_day", 8.0, low=1.0, high=32.0)) == pytest.approx(210.0)
    assert len(readings(changed("cpu_used_last", None))["cores"]) == 1
    assert set(readings(changed("cpu_allocatable", 0.0))) == {"memory"}
    nothing = changed("cpu_allocatable", 0.0)
    none = tuple(figure(one.key, 0.0, one.unit) if "allocatable" in one.key else one for one in nothing.figures)
    assert _resources(replace(nothing, figures=none)) is None


def lendable(name: str, ours: float | None, koordinator: float | None, unit: str = "cores") -> Lendable:
    return Lendable(name, unit, figure("o", ours, unit), figure("k", koordinator, unit))


def test_lendable_cores_by_both_rules_where_they_are_known() -> None:
    given = (
        lendable("batch cores", 3.0, 4.0),
        lendable("batch memory", 9.0, 9.0, "GiB"),
        lendable("mid cores", None, 1.0),
        lendable("no cores", None, None),
    )
    found = _lendable_chart(usual(lendable=given))
    assert found is not None
    assert isinstance(found.drawing, IntervalReadings)
    drawn = {row.name: [reading.value for reading in row.readings] for row in found.drawing.rows}
    assert drawn == {"batch cores": [3.0, 4.0], "mid cores": [1.0]}
    assert found.drawing.axis.high == pytest.approx(4.4)
    few = _lendable_chart(usual(lendable=(lendable("batch cores", 0.1, None),)))
    assert few is not None
    assert isinstance(few.drawing, IntervalReadings)
    assert few.drawing.axis.high == 1.0
    assert _lendable_chart(usual(lendable=given[3:])) is None
    told = rows(section(usual(lendable=given[2:3]), "lendable"))[-2:]  # after the chart's own table
    assert told[0] == ["class and resource", "ours, 1 % risk", "how", "Koordinator", "how"]
    assert told[1] == ["mid cores", "?", "why", "1 cores", "d. Interval: i."]


def workload(name: str, **changes: Any) -> WorkloadUse:
    return replace(
        WorkloadUse(name, 3, 1500, 2048, 500.0, 900.0, 1000.0, None, 1024.0, (8, 9, 10), 500.0, 1024.0), **changes
    )


def test_workloads_leave_out_columns_of_which_nothing_is_known() -> None:
    html = section(usual(workloads=(workload("w"),), idle=(workload("i"),)), "workloads")
    assert rows(html)[1] == ["w", "3", "1.5", "0.5", "1", "8-10", "0.5", "2", "1"]
    assert "Not known of any" not in html
    none = workload("w", cpu_p50_m=None, cpu_p99_m=None, peak_hours=(), idle_cpu_m=None, idle_memory_mib=None)
    html = section(usual(workloads=(none,)), "workloads")
    assert rows(html) == [["workload", "pods", "cores requested", "GiB requested"], ["w", "3", "1.5", "2"]]
    assert (
        "Not known of any: used, p50, used, p99, peak hours, UTC, cores idle, GiB idle; no source of use was given."
        in text(html)
    )
    assert "No pod runs." in section(usual(), "workloads")
    assert len(body(usual(workloads=tuple(workload(f"w{i}") for i in range(20))), "workloads")) == 15
    assert rows(section(usual(idle=(workload("i"),)), "idle"))[1][0] == "i"
    assert "Not known: no source of use was given." in section(usual(), "idle")


def test_pods_that_wait_and_pods_that_would_be_elsewhere() -> None:
    waits = (PendingPods("full", 1200, 3, None, WaitCause.ROOM), PendingPods("gate", 1, 0, 1, WaitCause.GATE))
    assert body(usual(waiting=waits), "waiting") == [
        ["full", "room", "1,200", "3", "?"],
        ["gate", "a gate", "1", "0", "1"],
    ]
    assert "No pod waits." in section(usual(), "waiting")
    share = replace(figure("share", 12.5, "%"), definition="of those asked")
    moved = tuple(Elsewhere(f"p{i}", "a", "b", i, 1000, "spread") for i in range(17))
    html = section(usual(placement=AssessedPlacement(20, 1, 2, moved, share)), "elsewhere")
    assert "12.5 %: of those asked. Interval: i." in text(html)
    assert rows(html)[1:3] == [["p0", "a", "rejected", "b", "spread"], ["p1", "a", "1 of 1,000", "b", "spread"]]
    assert len(rows(html)) == 16
    assert rows(section(usual(), "elsewhere")) == []


def test_nodes_that_could_be_emptied_and_why_others_are_not() -> None:
    emptied = tuple(EmptiedNode(f"n{i}", 1000 + i, 2) for i in range(17))
    found = Consolidation((), 20, emptied, (RefusedNodes("a budget", 3, "shop/web"),), 1000, 1024)
    given = rows(section(usual(consolidation=found), "consolidation"))
    assert given[1] == ["n0", "1,000", "2"]
    assert len(given) == 1 + 15 + 2
    assert given[-1] == ["a budget", "3", "shop/web"]
    assert rows(section(usual(consolidation=replace(found, emptied=(), refused=())), "consolidation")) == []


def test_room_by_shape_and_devices() -> None:
    room = ShapeRoom(1500, 2048, 1200, 3, 500, 1024)
    assert body(usual(shapes=(room,)), "shapes") == [["1.5 cores, 2 GiB", "1,200", "3", "0.5", "1"]]
    assert "No pod runs." in section(usual(), "shapes")
    cards = Cards("gpu", 8, 2.5, 1, figure("used", 1.5, "cards"), unknown("s", "s", "cards", "d", "nobody says"))
    assert body(usual(cards=(cards,)), "cards") == [["gpu", "8", "2.5", "1", "1.5 cards", "nobody says"]]


def test_what_was_tried_on_the_past() -> None:
    tried = PastTrial("CPU", (Tried("ours", 1.234, 2.0, None, 0.0),), "ours was best", "told of a day")
    html = section(usual(back_test=tried), "past")
    assert rows(html)[1] == ["ours", "1.23", "2.00", "?", "0.00"]
    assert "ours was best told of a day" in text(html)
    assert "Sizes of workloads" not in html
    sizes = SizeTrial("CPU", 3, (SizeTried("ours", 1.0, None, 3.0),), "sizes in words")
    emptying = EmptyingTrial(
        "CPU", (EmptyingTried("ours", ("a", "b"), 40, figure("x", 0.5), 0.25, 1, 91.0, 7, 2),), "nodes in words"
    )
    html = section(usual(back_test=tried, sizes=sizes, emptying=emptying), "past")
    assert ["ours", "1", "?", "3"] in rows(html)
    assert rows(html)[-1][:3] == ["ours", "2", "40"]
    assert rows(html)[-1][4:] == ["0.25", "1", "91", "2 of 7"]
    assert "The nodes of the plan: a, b" in text(html)
    assert section(usual(sizes=sizes), "past") == ""


def test_a_month_and_its_energy() -> None:
    html = section(usual(money=replace(money(), left_out=("1 volume",), tenants=(spending("red"),))), "money")
    assert rows(html)[1] == ["red", "1,234", "101", "42", "59", "7.5"]
    assert "1 volume" in html
    assert "By tenant" in html
    assert "By namespace" not in html
    assert "Saved by each step" not in html
    saved = section(usual(money=money(savings=(Saving("empty a", 30.0, "move its pods"),))), "money")
    assert rows(saved) == [["step of the plan", "saves a month, EUR", "how"], ["empty a", "30", "move its pods"]]
    no_unit = section(usual(money=replace(money(savings=(Saving("x", 1.0, "y"),)), currency="")), "money")
    assert rows(no_unit)[0][1] == "saves a month"
    energy = EnergyGroups((), (EnergyOf("shop", 2.5),), ())
    assert rows(section(usual(energy=energy), "energy")) == [["namespace", "kWh a day"], ["shop", "2.5"]]


def test_what_ifs_moves_steps_and_the_source() -> None:
    one: AssessedFigure = figure("x", 2.0)
    compared = Compared("Nodes", "nodes", one, (figure("x", 3.0),), (figure("x", 1.0),), None)
    case = WhatIfCase("add=1:a", (UnplacedPods("full", 2.0, "shop/web"),), ("a note",))
    html = section(usual(what_ifs=WhatIfs((1,), (case,), (compared,))), "what-if")
    assert "A add=1:a" in text(html)
    assert ["A", "2", "shop/web", "full"] in rows(html)
    assert "A: a note" in text(html)
    moves = usual(moves=(AdvisedMove("p", "a", "b", "hot"),), moves_note="1 of 2 nodes")
    assert body(moves, "moves") == [["p", "a", "b", "hot"]]
    assert "1 of 2 nodes." in text(section(moves, "moves"))
    assert rows(section(usual(moves_note="none"), "moves")) == []
    assert "None." in text(section(usual(moves_note="none"), "moves"))
    steps = section(usual(steps=(NextStep("look", "cotenant lint", "nothing", "none"),)), "steps")
    assert "1. look" in text(steps)
    assert "Risk: none. The way back: nothing." in text(steps)
    hidden = replace(SOURCE, is_anonymised=True, lacking=("no devices",), notes=("read this",), server="")
    assert "read from a test at 2026-01-01" in text(section(replace(usual(), source=hidden), "source"))
    assert "names replaced by words not read no devices note read this" in text(
        section(replace(usual(), source=hidden), "source")
    )
    assert "read from a test, v1" in text(section(usual(), "source"))
    assert "names as they are" in text(section(usual(), "source"))
