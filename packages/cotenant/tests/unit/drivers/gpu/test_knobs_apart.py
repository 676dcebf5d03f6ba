"""Knobs of a card whose driver hangs: everything else goes on, the lease says so, and what was begun is undone."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest
from tests.fakes.node.fake_nvml import FakeNvml, Gpu
from tests.fakes.waiting import eventually, patience

from cotenant.drivers.gpu.knobs import GpuKnobs
from cotenant.drivers.gpu.knobs_apart import KnobsApart
from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.model.errors import InvalidInput, Transient, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Knob, KnobScope, KnobTarget, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.host import knobs_of_cards
from cotenant.services.knobs.rules import KnobRules

POWER, OTHER = KnobTarget("GPU-a", Knob.GPU_POWER), KnobTarget("GPU-b", Knob.GPU_POWER)
CLOCKS = KnobTarget("GPU-a", Knob.GPU_CLOCKS)
WHY = Reason("test", "because")
LONG_S = 600.0  # more than any test waits


class HangingNvml(FakeNvml):
    """Setting the power of the first card hangs until `goes_on`."""

    def __init__(self, *gpus: Gpu) -> None:
        super().__init__(*gpus)
        self.goes_on, self.began = Event(), Event()
        self.goes_on.set()

    def nvmlDeviceSetPowerManagementLimit(self, gpu: Gpu, limit_mw: int) -> None:  # noqa: N802
        if gpu is self.gpus[0]:
            self.began.set()
            self.goes_on.wait(patience(30.0))
        super().nvmlDeviceSetPowerManagementLimit(gpu, limit_mw)


def apart(library: FakeNvml, folder: Path, write_s: float = LONG_S) -> KnobsApart:
    port = GpuKnobs(library, folder / "locks")
    return KnobsApart(port, lambda target: f"the driver of {target.group}", read_s=LONG_S, write_s=write_s)


def test_what_the_driver_says_and_refuses_comes_through(tmp_path: Path) -> None:
    library = FakeNvml(Gpu("GPU-a"), Gpu("GPU-b"))
    knobs = apart(library, tmp_path)
    raw = knobs.raw(POWER)
    knobs.write(POWER, "350000")
    assert (knobs.read(POWER), knobs.identity(POWER), library.gpus[1].power_mw) == ("350000", "GPU-a", 700_000)
    knobs.restore(POWER, raw)
    assert library.gpus[0].power_mw == 700_000
    with pytest.raises(InvalidInput, match="200000 to 700000 milliwatts"):
        knobs.write(POWER, "100000")
    library.gpus[0].fails["SetPowerManagementLimit"] = 3
    with pytest.raises(Unsupported):
        knobs.write(POWER, "350000")
    assert knobs.supported(Knob.GPU_POWER) is None
    assert isinstance(apart(FakeNvml(starts=12), tmp_path).supported(Knob.GPU_POWER), Gap)


def test_a_card_that_hangs_keeps_nobody_else_and_is_asked_again_when_it_answers(tmp_path: Path) -> None:
    library = HangingNvml(Gpu("GPU-a"), Gpu("GPU-b"))
    knobs = apart(library, tmp_path, write_s=0.0)
    library.goes_on.clear()
    with pytest.raises(Transient, match=r"the driver of GPU-a has not answered setting /GPU-a:gpu.power within 0 s"):
        knobs.write(POWER, "350000")
    for ask in (knobs.read, knobs.raw, knobs.identity):
        with pytest.raises(Transient, match=r"GPU-a:gpu.clocks waits: the driver of GPU-a has not answered setting"):
            ask(CLOCKS)
    knobs._write_s = LONG_S
    knobs.write(OTHER, "400000")  # another card has a thread of its own
    assert (library.gpus[1].power_mw, knobs.is_stuck) == (400_000, True)
    library.goes_on.set()
    eventually("an answer", lambda: not knobs.is_stuck)
    assert (knobs.read(POWER), knobs.read(CLOCKS)) == ("350000", "max")


def test_what_was_read_too_late_is_handed_on_once_and_not_after_a_write(tmp_path: Path) -> None:
    asked: list[str] = []

    class Slow(GpuKnobs):
        def read(self, target: KnobTarget) -> str:
            asked.append(target.group)
            return super().read(target)

    knobs = KnobsApart(
        Slow(FakeNvml(Gpu("GPU-a")), tmp_path / "locks"), lambda target: target.group, read_s=0.0, write_s=LONG_S
    )

    def late() -> str:
        try:
            return knobs.read(POWER)
        except Transient:
            return ""

    assert eventually("what was read too late", late) == "700000"
    eventually("quiet", lambda: not knobs.is_stuck)
    knobs.write(POWER, "350000")
    assert eventually("a new reading", late) == "350000"
    assert len(asked) >= 2


@pytest.mark.parametrize("returns", ["before the restore", "after three restores"])
def test_a_setter_that_hangs_is_a_lease_that_says_so_and_is_undone_when_it_returns(
    tmp_path: Path, returns: str
) -> None:
    library = HangingNvml(Gpu("GPU-a"), Gpu("GPU-b"))
    file = LeaseFile(tmp_path / "state", "this boot")
    knobs = apart(library, tmp_path, write_s=0.0)
    now = [1_000_000]
    rules = KnobRules((), gpus=frozenset({"GPU-a", "GPU-b"}))
    clock = Clock(lambda: now[0], lambda: 1.0)
    executor = LeaseExecutor({KnobScope.GPU: knobs}, file, AuditTrail(tmp_path / "state"), clock, rules)
    library.goes_on.clear()
    (hung,) = executor.hold([SetKnob(POWER, "350000", WHY)])
    knobs._write_s = LONG_S  # a setter that waits would outlast the test
    (held,) = executor.hold([SetKnob(OTHER, "400000", WHY)])
    assert (hung.state, held.state) == (LeaseState.REFUSED, LeaseState.HELD)
    assert "has not answered" in hung.detail
    for _ in range(5 if returns == "after three restores" else 0):
        now[0] += 20_000_000
        executor.hold([SetKnob(OTHER, "400000", WHY)])
        executor.tick()
        (marked,) = (lease for lease in executor.leases() if lease.target == POWER)
        assert marked.state is LeaseState.RESTORING
        assert "has not answered" in marked.detail
    library.goes_on.set()
    eventually("an answer", lambda: not knobs.is_stuck)
    now[0] += 20_000_000
    executor.hold([SetKnob(OTHER, "400000", WHY)])
    executor.tick()
    assert [lease.target for lease in executor.leases()] == [OTHER]
    assert [gpu.power_mw for gpu in library.gpus] == [700_000, 400_000]
    file.close()


def test_the_host_s_port_asks_each_card_apart_and_shuts_a_driver_that_answers_down(tmp_path: Path) -> None:
    library = HangingNvml(Gpu("GPU-a"), Gpu("GPU-b"))
    with knobs_of_cards(tmp_path / "no-kubelet", library) as knobs:
        assert knobs.read(POWER) == "700000"
        assert library.running == 1
    assert library.running == 0
    with knobs_of_cards(tmp_path / "no-kubelet", library) as knobs:
        knobs._write_s = 0.0
        library.goes_on.clear()
        with pytest.raises(Transient):
            knobs.write(POWER, "350000")
        eventually("a driver that is asked", library.began.is_set)
    assert library.running == 1  # nothing is asked of a driver that hangs
    library.goes_on.set()
