"""What an allowed root's own knob may be set to, knob by knob: what it was or less, limit by limit."""

from __future__ import annotations

import pytest

from cotenant.model.machine.knob import Knob
from cotenant.services.knobs.border import exceeds


@pytest.mark.parametrize(
    ("knob", "before", "within", "beyond"),
    [
        (
            Knob.CPU_MAX,
            "50000 100000",
            ("50000 100000", "40000 100000", "100000 200000"),
            ("50001 100000", "max 100000"),
        ),
        (Knob.CPU_MAX, "max 100000", ("max 100000", "max 50000", "1000 100000"), ()),
        (Knob.CPU_WEIGHT, "100", ("100", "99", "1"), ("101",)),
        (Knob.MEMORY_MIN, "4096", ("4096", "0"), ("8192", "max")),
        (Knob.MEMORY_LOW, "4096", ("4096", "0"), ("8192", "max")),
        (Knob.MEMORY_HIGH, "max", ("max", "4096"), ()),
        (Knob.MEMORY_MAX, "8192", ("8192", "4096"), ("12288", "max")),
        (Knob.CPU_IDLE, "0", ("0", "1"), ()),
        (Knob.CPU_IDLE, "1", ("1",), ("0",)),
        (Knob.CGROUP_FREEZE, "0", ("0", "1"), ()),
        (Knob.CGROUP_FREEZE, "1", ("1",), ("0",)),
        (Knob.MEMORY_RECLAIM, "", ("4096", "8192"), ()),
        (Knob.CPUSET_CPUS, "0-3", ("0-3", "1,3"), ("0-4", "4", "")),
        (Knob.CPUSET_CPUS, "", ("", "0-3"), ()),  # empty: the parent's
        (Knob.IO_WEIGHT, "default 100", ("default 100", "default 50"), ("default 101",)),
        (
            Knob.IO_MAX,
            "8:0 rbps=1000 wbps=max riops=max wiops=10",
            (
                "8:0 rbps=1000 wbps=max riops=max wiops=10",
                "8:0 rbps=999 wbps=5 riops=7 wiops=1",
                "8:16 rbps=1 wbps=max riops=max wiops=max",
                "8:16 rbps=max wbps=max riops=max wiops=max",  # it had none
            ),
            (
                "8:0 rbps=1001 wbps=max riops=max wiops=10",
                "8:0 rbps=max wbps=max riops=max wiops=10",
                "8:0 rbps=1000 wbps=max riops=max wiops=11",
                "8:0 rbps=1 wbps=1 riops=1 wiops=max",
            ),
        ),
    ],
)
def test_no_more_than_what_stood_before(
    knob: Knob, before: str, within: tuple[str, ...], beyond: tuple[str, ...]
) -> None:
    for value in within:
        assert not exceeds(knob, value, before), value
    for value in beyond:
        assert exceeds(knob, value, before), value


@pytest.mark.parametrize("knob", [Knob.CPU_MAX, Knob.MEMORY_MAX, Knob.CPU_IDLE, Knob.CPU_WEIGHT, Knob.CPUSET_CPUS])
def test_what_cannot_be_read_is_too_much(knob: Knob) -> None:
    assert exceeds(knob, "text", "1")
    assert exceeds(knob, "1", "text")
