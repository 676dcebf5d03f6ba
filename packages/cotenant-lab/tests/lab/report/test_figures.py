"""The figures of a page, as structures: axes, tables of values, and that the page's script knows the same fields
and colours.
"""

import re
from pathlib import Path

import msgspec
import pytest

from cotenant.model.pages import figures
from cotenant.model.pages.figures import (
    ABLATIONS,
    RIVALS,
    Axis,
    Chart,
    ChartLine,
    IntervalReading,
    IntervalReadings,
    ReadingRow,
    ShadedSpan,
    TenantMap,
    TenantMaps,
    ends,
    logarithmic,
    over,
)
from cotenant.model.pages.values import PLACES, values
from cotenant_lab.report.run_answers import EmbeddedPage, EmbeddedRuns

CONSOLE = Path(__file__).parents[5] / "console" / "src"


def interface(name: str, text: str) -> set[str]:
    """The fields of an interface of the page's sources."""
    found = re.search(rf"interface {name} \{{(.*?)\n\}}", text, re.S)
    assert found, name
    body = re.sub(r"/\*.*?\*/|//[^\n]*", "", found[1])
    while "{" in body:
        body = re.sub(r"\{[^{}]*\}", "", body)
    body = re.sub(r"\[[^\]]*\]", "", body)
    return set(re.findall(r"(\w+)\??:", body))


def test_the_page_knows_the_fields_of_every_structure() -> None:
    data = (CONSOLE / "report" / "data.ts").read_text()
    for name, struct in (
        ("LineData", ChartLine),
        ("ChartData", Chart),
        ("IntervalsData", IntervalReadings),
        ("TenantMapData", TenantMaps),
        ("RunsData", EmbeddedRuns),
    ):
        tag = {"kind"} if struct.__struct_config__.tag else set()
        assert interface(name, data) == {*struct.__struct_fields__, *tag}, name
    for struct in (IntervalReading, ReadingRow, ShadedSpan, TenantMap):
        for field in struct.__struct_fields__:
            assert re.search(rf"\b{field}: ", data), (struct, field)
    assert interface("Axis", (CONSOLE / "chart" / "axis.ts").read_text()) == set(Axis.__struct_fields__)
    assert {"name", "written", "metrics", "results"} == set(EmbeddedPage.__struct_fields__)


def test_the_page_has_every_colour_that_figures_name() -> None:
    text = (CONSOLE / "report" / "colours.ts").read_text()
    (rivals,) = re.findall(r"RIVALS = \[([^\]]*)\]", text)
    (ablations,) = re.findall(r"ABLATIONS = \[([^\]]*)\]", text)
    assert len({*rivals.split(", ")}) == RIVALS
    assert len({*ablations.split(", ")}) == ABLATIONS
    assert {figures.OURS, figures.BOUND, figures.SERVICE, figures.BATCH} <= set(re.findall(r'"--c-(\w+)"', text))
    assert figures.rival(RIVALS) == figures.rival(0) == "rival-0"
    assert figures.ablation(ABLATIONS + 1) == "ablation-1"


def test_an_axis_has_room_around_its_values_and_starts_at_zero_where_asked() -> None:
    assert over("x", [10.0, 20.0, None, float("nan")]) == Axis(title="x", low=9.7, high=20.3)
    assert over("x", [10.0, 20.0], from_zero=True) == Axis(title="x", low=0.0, high=20.3)
    assert over("x", [-1.0, 1.0], from_zero=True).low < -1.0
    assert over("x", [5.0]).low < 5.0 < over("x", [5.0]).high
    assert over("x", []).high > over("x", []).low
    axis = logarithmic("x", 0.3, 30.0)
    assert axis.scale == "log"
    assert [label for at, label in axis.ticks if 0.3 <= at <= 30.0] == ["0.5", "1", "2", "5", "10", "20"]
    line = ChartLine(name="a", x=[0, 1, 2], y=[1.0, None, 3.0], colour="ours", half=[0.5, 0.0, 1.0])
    assert ends([line]) == [0.5, 1.5, 2.0, 4.0]


def cells(table: str) -> list[list[str]]:
    return [re.findall(r"<t[hd][^>]*>([^<]*)", row) for row in re.findall(r"<tr.*?</tr>", table)]


def test_a_chart_s_values_are_a_table_of_its_points_or_of_places_between() -> None:
    axis = Axis(title="load", low=0.0, high=100.0, unit=" %")
    few = [
        ChartLine(name="a", x=[70.0, 80.0], y=[1.0, 2.0], colour="rival-0", half=[0.1, 0.0]),
        ChartLine(name="ours", x=[70.0, 80.0], y=[0.5, None], colour="ours"),
    ]
    assert cells(values(Chart(x=axis, y=axis, lines=tuple(few)))) == [
        ["", "70 %", "80 %"],
        ["ours", "0.5", "–"],
        ["a", "1 ± 0.1", "2"],
    ]
    many = ChartLine(name="a", x=[float(k) for k in range(101)], y=[2.0 * k for k in range(101)], colour="ours")
    table = cells(values(Chart(x=axis, y=axis, lines=(many,))))
    assert len(table[0]) == PLACES + 1
    assert (table[1][1], table[1][-1]) == ("0", "200")
    assert float(table[1][2]) == pytest.approx(200 / (PLACES - 1), rel=1e-3)  # between two points
    scattered = ChartLine(
        name="t", x=[1.0, 2.0], y=[3.0, 4.0], colour="ours", notes=["trial 1", "trial 2"], is_points=True
    )
    assert cells(values(Chart(x=axis, y=axis, lines=(scattered,))))[1:] == [
        ["t", "trial 1", "1", "3"],
        ["t", "trial 2", "2", "4"],
    ]


def test_readings_and_maps_have_their_values_too() -> None:
    one = IntervalReading(1.0, 0.5, 1.5, "1.0 ± 0.5 %", "ours")
    rows = (ReadingRow("cotenant", True, (one,)),)
    table = values(IntervalReadings(axis=over("x", [1.0]), rows=rows, series=(("services", "service"),)))
    assert cells(table) == [["", "services"], ["cotenant", "1.0 ± 0.5 %"]]
    assert '<tr class="ours">' in table
    maps = TenantMaps(
        tenants=("a", "other tenants"), maps=(TenantMap("cotenant", [7, 9], [300, 0, 600, 50, 0, 0, 0, 0]),)
    )
    assert cells(values(maps))[1] == ["cotenant", "47.5", "15.0", "1", "1", "2"]


def test_a_figure_is_encoded_with_its_kind_and_without_what_is_not_a_number() -> None:
    line = ChartLine(name="a", x=[0.0], y=[float("nan")], colour="ours")
    chart = Chart(x=over("x", [0.0]), y=over("y", [1.0]), lines=(line,))
    found = msgspec.json.decode(msgspec.json.encode(chart))
    assert found["kind"] == "chart"
    assert found["lines"][0]["y"] == [None]
