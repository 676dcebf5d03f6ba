"""A run over a fake machine: the order of loads, the abort, and that no load is left on any path; signals and
charts.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path

import pytest

from cotenant.model.cluster.workload_profile import (
    AxisReading,
    FigureSource,
    ProfileAxis,
    ProfileFigure,
    Unknown,
    WorkloadProfile,
    WorkloadRef,
    figure,
)
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.services.profiling import png, radar
from cotenant.services.profiling.ladder import MEASURED, Ladder, climb
from cotenant.services.profiling.signals import LatencyFile


@dataclass
class FakeBench:
    """A replica with a sensitivity by axis; `fails_at` windows raises."""

    sensitivities: dict[ProfileAxis, float] = field(default_factory=dict)
    objective: float | None = None
    fails_at: int = -1
    signal: str = "latency"
    load: tuple[ProfileAxis, float] | None = None
    started: list[tuple[ProfileAxis, float]] = field(default_factory=list)
    windows: int = 0

    def start(self, axis: ProfileAxis, level: float) -> None:
        assert self.load is None
        self.load = (axis, level)
        self.started.append(self.load)

    def stop(self) -> None:
        self.load = None

    def wait_until_steady(self) -> None:
        pass

    def window(self) -> float:
        self.windows += 1
        if self.windows == self.fails_at:
            raise Permanent("the replica's group is gone")
        if self.load is None:
            return 10.0
        axis, level = self.load
        return 10.0 * (1.0 + self.sensitivities.get(axis, 0.0) * level)


def value(reading: object) -> int:
    assert isinstance(reading, ProfileFigure)
    return reading.value


def test_every_axis_at_rising_levels() -> None:
    bench = FakeBench({ProfileAxis.CPU: 0.8, ProfileAxis.DISK: 0.3})
    lines: list[str] = []
    found = climb(bench, Ladder(levels=2, windows=3), lines.append)
    assert bench.started == [(axis, level) for axis in MEASURED for level in (0.5, 1.0)]
    assert bench.load is None
    assert (value(found.axes[ProfileAxis.CPU].sensitivity), value(found.axes[ProfileAxis.DISK].sensitivity)) == (
        800,
        300,
    )
    assert value(found.axes[ProfileAxis.NETWORK].sensitivity) == 0
    assert isinstance(found.axes[ProfileAxis.START_UP].sensitivity, Unknown)
    assert list(found.axes) == list(ProfileAxis)
    assert lines[0] == "cpu 50%: 14 (10 without load)"
    assert found.aborted == ""


def test_the_load_ends_at_the_first_window_beyond_the_limit_and_nothing_follows() -> None:
    bench = FakeBench({ProfileAxis.CPU: 0.1, ProfileAxis.CACHE: 3.0}, objective=12.0)
    found = climb(bench, Ladder(levels=4, windows=3, abort_factor=1.5))
    assert bench.started[-1] == (ProfileAxis.CACHE, 0.5)  # 25 > 18
    assert bench.load is None
    assert found.aborted.startswith("cache at 50%: 25 is over 1.5 times the objective of 12")
    assert value(found.axes[ProfileAxis.CPU].sensitivity) == 100
    assert value(found.axes[ProfileAxis.CACHE].sensitivity) == 1000
    for axis in (ProfileAxis.MEMORY_BANDWIDTH, ProfileAxis.RUN_QUEUE):
        reading = found.axes[axis].sensitivity
        assert isinstance(reading, Unknown)
        assert "the run was aborted" in reading.because


def test_a_replica_that_misses_its_objective_alone_gets_no_load() -> None:
    bench = FakeBench(objective=4.0)
    found = climb(bench, Ladder())
    assert bench.started == []
    assert found.aborted.startswith("without load: 10 is over 2 times")


def test_an_error_leaves_no_load() -> None:
    bench = FakeBench(fails_at=5)
    with pytest.raises(Permanent):
        climb(bench, Ladder(windows=3))
    assert bench.started
    assert bench.load is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"levels": 0},
        {"windows": 0},
        {"abort_factor": 0.5},
        {"abort_factor": nan},
        {"abort_ratio": 1.0},
        {"axes": ()},
        {"axes": (ProfileAxis.START_UP,)},
    ],
)
def test_what_cannot_be_run_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        Ladder(**wrong)  # type: ignore[arg-type]


def test_a_latency_file_is_read_by_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "windows"
    path.write_text('{"p99_us": 99000}\n')  # before the run
    signal = LatencyFile(path, 20.0)
    assert isnan(signal.read())
    with path.open("a") as file:
        file.write('{"p99_us": 5000}\n{"p99_us": 7000}\n{"p99_')
        file.flush()
        assert signal.read() == 6.0
        file.write('us": 9000}\n')
        file.flush()
        assert signal.read() == 9.0
        file.write("nonsense\n")
        file.flush()
    with pytest.raises(InvalidInput):
        signal.read()
    signal.close()
    with pytest.raises(InvalidInput):
        LatencyFile(tmp_path / "none", None)


def profile() -> WorkloadProfile:
    told = AxisReading(figure(0.2, 0.05, 30, FigureSource.LEARNED), figure(0.6, 0.1, 30, FigureSource.MEASURED))
    return WorkloadProfile(
        "shop/a<b", WorkloadRef("Deployment", "cart"), learned={ProfileAxis.CPU: told, ProfileAxis.DISK: told}
    )


def test_a_chart_is_well_formed_and_names_what_is_not_known(tmp_path: Path) -> None:
    root = ElementTree.fromstring(radar.chart(radar.series_of([profile(), profile()])))
    text = "".join(root.itertext())
    assert text.count("6 axes not known") == 4
    assert "CPU: 600 (500 to 700, 30 samples, measured)" in text
    assert "cache: cannot tell, because nothing has been measured yet" in text
    for name in ("chart.svg", "chart.html"):
        radar.write(tmp_path / name, [profile()])
        assert "<svg" in (tmp_path / name).read_text()
    with pytest.raises(InvalidInput):
        radar.write(tmp_path / "chart.gif", [profile()])
    with pytest.raises(Permanent):
        radar.write(tmp_path / "none" / "chart.svg", [profile()])


def test_a_chart_as_png_has_words_and_colours(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    with pytest.raises(Unsupported, match="a font"):
        png.check([tmp_path])
    try:
        png.check()
    except Unsupported as error:
        pytest.skip(str(error))
    radar.write(tmp_path / "chart.png", [profile()])
    found = (tmp_path / "chart.png").read_bytes()
    assert found.startswith(b"\x89PNG")
    svg = radar.chart(radar.series_of([profile()]))
    assert png.rendered(svg) == found
    assert png.rendered(svg.replace(">memory bandwidth<", "><")) != found  # the words are drawn
