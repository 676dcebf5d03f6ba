"""Calls to systemd over a bus that answers, refuses, is slow, or is away; and knobs as properties."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fakes.node.fake_systemd import FakeBus
from tests.fakes.node.kept_knobs import KeptKnobs

from cotenant.drivers.systemd.knobs import SystemdKnobs, is_of_systemd
from cotenant.drivers.systemd.manager import RETRY_S, SystemdManager
from cotenant.drivers.systemd.properties import UNSET, UnitProperty, mask_of, properties_of
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.machine.knob import Knob, KnobTarget, Vanished

GROUP = "kubepods.slice/kubepods-besteffort.slice"
UNIT = "kubepods-besteffort.slice"
QUOTA = KnobTarget(GROUP, Knob.CPU_MAX)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def bus() -> FakeBus:
    return FakeBus({UNIT: GROUP})


@pytest.fixture
def knobs(bus: FakeBus) -> SystemdKnobs:
    return SystemdKnobs(SystemdManager(lambda: bus), KeptKnobs([GROUP]))


@pytest.mark.parametrize(
    ("knob", "value", "expected"),
    [
        (Knob.CPU_MAX, "35000 100000", [("CPUQuotaPerSecUSec", 350_000), ("CPUQuotaPeriodUSec", 100_000)]),
        (Knob.CPU_MAX, "max 50000", [("CPUQuotaPerSecUSec", UNSET), ("CPUQuotaPeriodUSec", 50_000)]),
        (Knob.CPU_IDLE, "1", [("CPUWeight", 0)]),
        (Knob.CPU_IDLE, "0", [("CPUWeight", UNSET)]),
        (Knob.CPU_WEIGHT, "250", [("CPUWeight", 250)]),
        (Knob.CPUSET_CPUS, "0-1,9", [("AllowedCPUs", b"\x03\x02")]),
        (Knob.CPUSET_CPUS, "", [("AllowedCPUs", b"")]),
        (Knob.MEMORY_HIGH, "max", [("MemoryHigh", UNSET)]),
        (Knob.MEMORY_MAX, "1048576", [("MemoryMax", 1_048_576)]),
    ],
)
def test_knobs_as_properties(knob: Knob, value: str, expected: list[tuple[str, Any]]) -> None:
    assert [(one.name, one.value) for one in properties_of(knob, value)] == expected


def test_a_knob_without_a_property_is_refused() -> None:
    with pytest.raises(InvalidInput, match="property of systemd"):
        properties_of(Knob.CPU_BURST, "0")


def test_a_mask_has_the_lowest_cpu_first() -> None:
    assert mask_of((8,)) == b"\x00\x01"


def test_the_version(bus: FakeBus) -> None:
    assert SystemdManager(lambda: bus).version() == 252


def test_a_value_is_set_as_property_and_file_and_both_are_restored(bus: FakeBus, knobs: SystemdKnobs) -> None:
    bus.properties[UNIT]["CPUQuotaPerSecUSec"] = 900_000
    raw = knobs.raw(QUOTA)
    assert is_of_systemd(raw)
    knobs.write(QUOTA, "50000 100000")
    assert bus.properties[UNIT]["CPUQuotaPerSecUSec"] == 500_000
    assert knobs._files.read(QUOTA) == "50000 100000"  # type: ignore[attr-defined]
    knobs.restore(QUOTA, raw)
    assert bus.properties[UNIT]["CPUQuotaPerSecUSec"] == 900_000
    assert knobs._files.read(QUOTA) == "max 100000"  # type: ignore[attr-defined]


def test_where_the_kernel_refuses_the_value_the_property_is_as_before(bus: FakeBus, knobs: SystemdKnobs) -> None:
    knobs._files.fail("write", QUOTA, InvalidInput("cpu.max", "1", "more"))  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput):
        knobs.write(QUOTA, "50000 100000")
    assert bus.properties[UNIT]["CPUQuotaPerSecUSec"] == UNSET


def test_a_unit_of_another_group_is_not_taken_for_it(bus: FakeBus, knobs: SystemdKnobs) -> None:
    bus.groups[UNIT] = "user.slice/kubepods-besteffort.slice"
    with pytest.raises(Vanished):
        knobs.raw(QUOTA)


def test_a_unit_that_systemd_does_not_know_is_gone(knobs: SystemdKnobs) -> None:
    with pytest.raises(Vanished):
        knobs.raw(KnobTarget("other.slice", Knob.CPU_MAX))


@pytest.mark.parametrize("raw", ["{}", "x", '{"unit": "a.slice", "properties": {}, "files": ""}', "[1]"])
def test_a_foreign_raw_value_is_refused(raw: str, knobs: SystemdKnobs) -> None:
    with pytest.raises(InvalidInput):
        knobs.restore(QUOTA, raw)


def test_a_bus_that_is_away_is_tried_again_later(bus: FakeBus) -> None:
    clock, tries = Clock(), 0

    def connect() -> FakeBus:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise FileNotFoundError(2, "no such file")
        return bus

    manager = SystemdManager(connect, clock)
    assert manager.version() is None
    assert manager.version() is None
    assert tries == 1
    with pytest.raises(Transient):
        manager.set(UNIT, (UnitProperty("CPUWeight", "t", 1),))
    clock.now_s = RETRY_S
    assert manager.version() == 252


def test_a_call_without_an_answer_ends_the_connection(bus: FakeBus) -> None:
    clock = Clock()
    manager = SystemdManager(lambda: bus, clock)
    assert manager.version() == 252
    bus.silent = True
    with pytest.raises(Transient, match="did not answer"):
        manager.check(UNIT, GROUP)
    assert (bus.closed, manager.errors) == (1, 1)
    bus.silent = False
    clock.now_s = RETRY_S
    manager.check(UNIT, GROUP)


def test_a_refusal_is_told_with_its_text(bus: FakeBus) -> None:
    bus.refuses = "Cannot set property CPUWeight, or unknown property."
    with pytest.raises(Permanent, match="Cannot set property"):
        SystemdManager(lambda: bus).set(UNIT, (UnitProperty("CPUWeight", "t", 99_999),))


def test_without_a_socket_there_is_no_systemd(tmp_path: Path) -> None:
    assert SystemdManager(socket=tmp_path / "bus").version() is None
