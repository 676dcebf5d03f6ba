"""The traffic classes over an in-memory device."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.fakes.node.fake_traffic import FakeTraffic
from tests.fakes.node.traffic_contract import TrafficContract

from cotenant.drivers.tc.knobs import TcKnobs, priority_of
from cotenant.drivers.tc.netlink import RootQdisc
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.machine.knob import Knob, KnobTarget

BE = KnobTarget("eth0/be", Knob.RATE)


class TestClassesInMemory(TrafficContract):
    @pytest.fixture
    def device(self) -> str:
        return "eth0"

    @pytest.fixture
    def traffic(self, device: str) -> FakeTraffic:
        return FakeTraffic(device)

    @pytest.fixture
    def knobs(self, traffic: FakeTraffic) -> TcKnobs:
        return TcKnobs(traffic)

    @pytest.fixture
    def stands(self, traffic: FakeTraffic, device: str) -> Callable[[], object]:
        return lambda: (traffic.roots[device], dict(traffic.held[device]))


@pytest.mark.parametrize("default", [RootQdisc("mq", 0), RootQdisc("fq_codel", 0), RootQdisc("pfifo_fast", 0)])
def test_the_kernels_default_discipline_is_replaced_and_restored(default: RootQdisc) -> None:
    traffic = FakeTraffic("eth0")
    traffic.roots["eth0"] = traffic.default["eth0"] = default
    knobs = TcKnobs(traffic)
    raw = knobs.raw(BE)
    knobs.write(BE, "10000 20000")
    knobs.restore(BE, raw)
    assert traffic.roots["eth0"] == default


def test_a_configured_root_is_never_replaced() -> None:
    traffic = FakeTraffic("eth0")
    traffic.roots["eth0"] = RootQdisc("htb", 0x80010000)
    knobs = TcKnobs(traffic)
    with pytest.raises(Permanent, match="htb 8001:"):
        knobs.write(BE, "10000 20000")
    assert (knobs.read(BE), knobs.raw(BE)) == ("", "absent")
    knobs.restore(BE, "absent")
    assert traffic.roots["eth0"].handle == 0x80010000


def test_the_class_above_both_has_the_larger_ceiling() -> None:
    traffic = FakeTraffic("eth0")
    knobs = TcKnobs(traffic)
    knobs.write(KnobTarget("eth0/ls", Knob.RATE), "90000 100000")
    knobs.write(BE, "10000 20000")
    assert (traffic.held["eth0"][1].min_bits, traffic.held["eth0"][1].max_bits) == (100_000, 100_000)


def test_a_kernel_without_the_discipline_is_remembered() -> None:
    class Without(FakeTraffic):
        def make_root(self, device: str, handle: int, default_minor: int) -> None:
            raise Unsupported("traffic classes", "sch_htb")

    knobs = TcKnobs(Without("eth0"))
    assert knobs.supported(Knob.RATE) is None
    with pytest.raises(Unsupported):
        knobs.write(BE, "10000 20000")
    gap = knobs.supported(Knob.RATE)
    assert gap is not None
    assert gap.needs == "sch_htb"
    assert knobs.supported(Knob.CPU_MAX) is not None


def test_priorities_are_handles_of_the_classes() -> None:
    assert priority_of("be") == 0xC07E0020
    with pytest.raises(InvalidInput):
        priority_of("batch")
