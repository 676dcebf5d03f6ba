"""The contract of an uplink's two classes, for a fake device and a real one.

A subclass named `Test...` gives the fixtures `knobs`, `device` and `stands`, which says what queues at the device's
root.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from cotenant.drivers.tc.knobs import TcKnobs
from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.model.machine.knob import Knob, KnobTarget, Vanished

MBIT = 10**6


class TrafficContract:
    @pytest.fixture
    def ls(self, device: str) -> KnobTarget:
        return KnobTarget(f"{device}/ls", Knob.RATE)

    @pytest.fixture
    def be(self, device: str) -> KnobTarget:
        return KnobTarget(f"{device}/be", Knob.RATE)

    def test_written_rates_read_back(self, knobs: TcKnobs, ls: KnobTarget, be: KnobTarget) -> None:
        assert (knobs.read(ls), knobs.read(be)) == ("", "")
        knobs.write(ls, f"{90 * MBIT} {100 * MBIT}")
        knobs.write(be, f"{10 * MBIT} {20 * MBIT}")
        assert knobs.read(ls) == f"{90 * MBIT} {100 * MBIT}"
        knobs.write(be, f"{MBIT} {5 * MBIT}")
        assert knobs.read(be) == f"{MBIT} {5 * MBIT}"
        assert knobs.sent_bytes(be) == 0

    def test_rates_above_32_bits_and_below_what_the_kernel_can(self, knobs: TcKnobs, be: KnobTarget) -> None:
        knobs.write(be, f"8000 {100_000 * MBIT}")
        assert knobs.read(be) == f"8000 {100_000 * MBIT}"
        knobs.write(be, "1 8007")
        assert knobs.read(be) == "8000 8000"

    @pytest.mark.parametrize("order", list(itertools.permutations(("ls", "be"))))
    def test_removing_the_last_class_removes_the_root(
        self, knobs: TcKnobs, device: str, stands: Callable[[], object], order: tuple[str, ...]
    ) -> None:
        before = stands()
        targets = [KnobTarget(f"{device}/{name}", Knob.RATE) for name in ("ls", "be")]
        raws = {target: knobs.raw(target) for target in targets}
        for target in targets:
            knobs.write(target, f"{MBIT} {10 * MBIT}")
        assert stands() != before
        for name in order:
            target = KnobTarget(f"{device}/{name}", Knob.RATE)
            knobs.restore(target, raws[target])
            knobs.restore(target, raws[target])
            assert knobs.read(target) == ""
        assert stands() == before

    def test_existing_rates_are_restored(self, knobs: TcKnobs, be: KnobTarget, stands: Callable[[], object]) -> None:
        knobs.write(be, f"{MBIT} {2 * MBIT}")
        raw = knobs.raw(be)
        knobs.write(be, f"{3 * MBIT} {4 * MBIT}")
        knobs.restore(be, raw)
        assert knobs.read(be) == f"{MBIT} {2 * MBIT}"

    @pytest.mark.parametrize("value", ["", "1", "1 2 3", "a b", "-1 5", "20000 10000", "1  2", "²00 300"])
    def test_malformed_rates_are_refused(
        self, knobs: TcKnobs, be: KnobTarget, stands: Callable[[], object], value: str
    ) -> None:
        before = stands()
        with pytest.raises(InvalidInput):
            knobs.write(be, value)
        assert stands() == before

    @pytest.mark.parametrize("raw", ["", "1000 2000", "stood ", "stood x"])
    def test_a_foreign_raw_value_is_refused(self, knobs: TcKnobs, be: KnobTarget, raw: str) -> None:
        with pytest.raises(InvalidInput):
            knobs.restore(be, raw)

    def test_a_missing_device(self, knobs: TcKnobs) -> None:
        gone = KnobTarget("gone0/be", Knob.RATE)
        for act in (
            lambda: knobs.read(gone),
            lambda: knobs.raw(gone),
            lambda: knobs.write(gone, "9000 9000"),
            lambda: knobs.restore(gone, "absent"),
        ):
            with pytest.raises(Vanished, match="gone0"):
                act()

    def test_unknown_class_names_are_refused(self, knobs: TcKnobs, device: str) -> None:
        for group in (device, f"{device}/x", f"{device}/be/x", "a-name-that-is-too-long/be"):
            with pytest.raises(InvalidInput):
                knobs.read(KnobTarget(group, Knob.RATE))
        with pytest.raises(Unsupported):
            knobs.read(KnobTarget(f"{device}/be", Knob.CPU_MAX))

    def test_steering_needs_a_class_and_valid_addresses(self, knobs: TcKnobs, be: KnobTarget) -> None:
        with pytest.raises(InvalidInput, match="existing class"):
            knobs.steer(be, ["10.0.0.1"])
        knobs.write(be, "9000 9000")
        knobs.steer(be, ["10.0.0.1", "fd00::1", "10.0.0.2"])
        knobs.steer(be, ["10.0.0.2"])
        knobs.steer(be, [])
        with pytest.raises(InvalidInput, match="IPv4"):
            knobs.steer(be, ["10.0.0"])
