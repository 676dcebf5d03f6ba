"""Recordings as perf 6.1 writes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.drivers.perf.recorded import RecordedCycles, parse
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.counters import Gap

CSV = """\
# started on Sat Nov 21 21:48:10 2026

     1.000617170,3000,,cycles,pods/web,1000000,100.00,,
     1.000617170,2000,,instructions,pods/web,1000000,50.00,0.66,insn per cycle
     1.000617170,245.13,msec,task-clock,pods/web,245135336,100.00,0.490,CPUs utilized
     1.000617170,<not counted>,,cycles,pods/idle,0,100.00,,
     2.001612501,500,,cpu_core/cycles/,pods/web,1000000,100.00,,
     2.001612501,100,,cpu_atom/cycles/,pods/web,1000000,100.00,,
     2.001612501,400,,instructions:u,pods/web,1000000,100.00,,
     2.001612501,70,,cycles,pods/idle,1000000,100.00,,
"""
JSON = (
    '{"interval" : 1.501740303, "counter-value" : "3000.000000", "unit" : "", "event" : "cycles", "cgroup" : "pods/web",'
    ' "event-runtime" : 0, "pcnt-running" : 100.00, "metric-value" : 0.000000, "metric-unit" : ""}\n'
    '{"interval" : 1.501740303, "counter-value" : "<not supported>", "unit" : "", "event" : "instructions",'
    ' "cgroup" : "pods/web", "event-runtime" : 0, "pcnt-running" : 100.00}\n'
)


def test_a_recording_is_played_back_an_interval_a_reading() -> None:
    source = RecordedCycles(parse(CSV))
    asked = ("pods/web", "pods/idle", "pods/unheard")
    assert source.read(asked) == {"pods/web": (3000, 2000)}
    assert source.read(asked) == {"pods/web": (3600, 2400), "pods/idle": (70, 0)}
    assert source.read(asked) == {"pods/web": (3600, 2400), "pods/idle": (70, 0)}
    assert source.gaps() == ()


def test_times_are_kept_to_the_microsecond() -> None:
    assert [interval.at_us for interval in parse(CSV)] == [1_000_617, 2_001_613]


def test_json_lines_mean_the_same_and_what_was_not_supported_is_a_gap() -> None:
    source = RecordedCycles(parse(JSON))
    assert source.gaps() == ()
    assert source.read(("pods/web",)) == {"pods/web": (3000, 0)}
    assert source.gaps() == (Gap("instructions", "a hardware performance counter where it was recorded"),)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "stat.csv"
    path.write_text(CSV)
    assert RecordedCycles.from_file(path).read(("pods/web",)) == {"pods/web": (3000, 2000)}
    with pytest.raises(InvalidInput, match=r"none\.csv"):
        RecordedCycles.from_file(tmp_path / "none.csv")


@pytest.mark.parametrize(
    "line",
    [
        "1.0,3000",
        "now,3000,,cycles,pods/web,1,100.00,,",
        "1.0,many,,cycles,pods/web,1,100.00,,",
        "1.0,inf,,cycles,pods/web,1,100.00,,",
        "nan,1,,cycles,pods/web,1,100.00,,",
        '{"interval": 1.0}',
        "{",
    ],
)
def test_a_line_that_perf_does_not_write_is_named(line: str) -> None:
    with pytest.raises(InvalidInput, match=r"web\.csv:2"):
        parse(f"0.5,1,,cycles,pods/web,1,100.00,,\n{line}\n", "web.csv")


def test_time_does_not_run_backwards() -> None:
    with pytest.raises(InvalidInput, match="recording:2"):
        parse("2.0,1,,cycles,g,1,100.00,,\n1.0,1,,cycles,g,1,100.00,,\n")


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        intervals = parse(text)
    except InvalidInput:
        return
    RecordedCycles(intervals).read(("g",))
