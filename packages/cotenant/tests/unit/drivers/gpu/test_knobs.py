"""Limits of cards through a fake NVML, as knobs and as leases that a later keeper gives back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.node.fake_nvml import FakeNvml, Gpu

from cotenant.drivers.gpu.knobs import GpuKnobs
from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.machine.knob import Knob, KnobScope, KnobTarget, LeaseState, SetKnob, Vanished
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.rules import KnobRules

POWER, CLOCKS = KnobTarget("GPU-a", Knob.GPU_POWER), KnobTarget("GPU-a", Knob.GPU_CLOCKS)
WHY = Reason("test", "because")


def knobs(library: FakeNvml, folder: Path) -> GpuKnobs:
    return GpuKnobs(library, folder / "locks")


def test_power_is_read_set_and_put_back(tmp_path: Path) -> None:
    gpu = Gpu("GPU-a")
    port = knobs(FakeNvml(gpu, Gpu("GPU-b")), tmp_path)
    raw = port.raw(POWER)
    port.write(POWER, "350000")
    assert (gpu.power_mw, port.read(POWER)) == (350_000, "350000")
    port.restore(POWER, raw)
    assert gpu.power_mw == 700_000


def test_what_a_card_does_not_allow_is_refused_with_what_it_does(tmp_path: Path) -> None:
    gpu = Gpu("GPU-a")
    with pytest.raises(InvalidInput, match="200000 to 700000 milliwatts"):
        knobs(FakeNvml(gpu), tmp_path).write(POWER, "100000")
    assert gpu.power_mw == 700_000


def test_clocks_are_locked_and_the_lock_is_removed(tmp_path: Path) -> None:
    gpu = Gpu("GPU-a")
    port = knobs(FakeNvml(gpu), tmp_path)
    raw = port.raw(CLOCKS)
    port.write(CLOCKS, "210 1200")
    assert (gpu.clocks_mhz, port.read(CLOCKS), raw) == ((210, 1200), "210 1200", "max")
    port.restore(CLOCKS, raw)
    assert (gpu.clocks_mhz, port.read(CLOCKS)) == (None, "max")


def test_a_refused_lock_leaves_the_earlier_one(tmp_path: Path) -> None:
    gpu = Gpu("GPU-a")
    port = knobs(FakeNvml(gpu), tmp_path)
    port.write(CLOCKS, "210 1200")
    gpu.fails["SetGpuLockedClocks"] = 2
    with pytest.raises(InvalidInput, match="SUPPORTED_CLOCKS"):
        port.write(CLOCKS, "210 19000")
    assert port.read(CLOCKS) == "210 1200"


@pytest.mark.parametrize(
    ("code", "kind"), [(3, Unsupported), (4, Permanent), (6, Vanished), (13, Unsupported), (15, Vanished)]
)
def test_what_nvml_refuses(tmp_path: Path, code: int, kind: type[Exception]) -> None:
    port = knobs(FakeNvml(Gpu("GPU-a", fails={"SetPowerManagementLimit": code})), tmp_path)
    with pytest.raises(kind):
        port.write(POWER, "350000")


def test_without_a_driver_it_is_said_and_another_card_is_gone(tmp_path: Path) -> None:
    gap = knobs(FakeNvml(starts=12), tmp_path).supported(Knob.GPU_POWER)
    assert gap is not None
    assert "an NVIDIA GPU with its driver" in gap.needs
    port = knobs(FakeNvml(Gpu("GPU-a")), tmp_path)
    assert port.supported(Knob.GPU_CLOCKS) is None
    with pytest.raises(Vanished):
        port.read(KnobTarget("GPU-z", Knob.GPU_POWER))


def test_a_later_keeper_gives_back_what_one_that_was_killed_held(tmp_path: Path) -> None:
    gpu = Gpu("GPU-a")

    def keeper() -> tuple[LeaseExecutor, LeaseFile]:
        file = LeaseFile(tmp_path / "state", "this boot")
        clock = Clock(lambda: 1_000_000, lambda: 1.0)
        rules = KnobRules((), gpus=frozenset({"GPU-a"}))
        port = knobs(FakeNvml(gpu), tmp_path)
        return LeaseExecutor({KnobScope.GPU: port}, file, AuditTrail(tmp_path / "state"), clock, rules), file

    first, file = keeper()
    answers = first.hold([SetKnob(POWER, "350000", WHY), SetKnob(CLOCKS, "210 1200", WHY)])
    assert [answer.state for answer in answers] == [LeaseState.HELD] * 2, answers
    file.close()
    second, file = keeper()
    answers = second.restart(file.found.leases)
    assert [answer.state for answer in answers] == [LeaseState.RESTORED] * 2, answers
    assert (gpu.power_mw, gpu.clocks_mhz) == (700_000, None)
    file.close()


@pytest.mark.parametrize(
    ("target", "value", "why"),
    [
        (KnobTarget("GPU-b", Knob.GPU_POWER), "350000", "GPU-b is not an allowed GPU (--gpu)"),
        (POWER, "0", "milliwatts"),
        (CLOCKS, "1200 210", "MIN not above MAX"),
        (CLOCKS, "0210 1200", "is not canonical"),
    ],
)
def test_what_the_keeper_refuses(target: KnobTarget, value: str, why: str) -> None:
    rules = KnobRules((), gpus=frozenset({"GPU-a"}))
    assert why in (rules.refusal(SetKnob(target, value, WHY)) or "")
