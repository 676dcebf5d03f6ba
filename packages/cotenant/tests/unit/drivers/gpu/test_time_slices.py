"""Time-slices of a card through a stand-in for nvidia-smi, as a knob and as a lease."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.node.fake_nvml import FakeNvml, Gpu
from tests.fakes.node.smi_slices import FakeSmi

from cotenant.drivers.gpu.knobs import GpuKnobs
from cotenant.drivers.gpu.time_slices import TimeSlices
from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.machine.knob import Knob, KnobScope, KnobTarget, LeaseState, SetKnob, Vanished
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.rules import KnobRules

SLICE = KnobTarget("GPU-a", Knob.GPU_TIMESLICE)
WHY = Reason("test", "because")


class Time:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize("form", ["table", "line", "number"])
def test_a_slice_is_read_set_and_put_back(tmp_path: Path, form: str) -> None:
    smi = FakeSmi(tmp_path, form)
    slices = TimeSlices(str(smi.program))
    raw = slices.raw(SLICE)
    slices.write(SLICE, "short")
    assert (raw, smi.slice, slices.read(SLICE)) == ("default", 1, "short")
    slices.write(SLICE, "long")
    assert slices.read(SLICE) == "long"
    slices.restore(SLICE, raw)
    assert smi.slice == 0


def test_a_list_that_is_not_understood_is_quoted_and_nothing_is_set(tmp_path: Path) -> None:
    smi = FakeSmi(tmp_path, "other")
    with pytest.raises(Unsupported, match="nothing that is understood"):
        TimeSlices(str(smi.program)).raw(SLICE)
    assert smi.slice == 0


def test_a_reading_counts_for_some_seconds_and_not_beyond_a_write(tmp_path: Path) -> None:
    smi, time = FakeSmi(tmp_path), Time()
    slices = TimeSlices(str(smi.program), time)
    assert [slices.read(SLICE) for _ in range(3)] == ["default"] * 3
    assert smi.asked == 1
    time.now_s = 11.0
    smi.set(slices={"GPU-a": 2})
    assert slices.read(SLICE) == "medium"
    slices.write(SLICE, "short")
    assert slices.read(SLICE) == "short"


@pytest.mark.parametrize(
    ("says", "status", "kind"),
    [
        ("Failed to set timeslice policy with value Short for GPU 0 : Not Supported", 3, Unsupported),
        ("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.", 2, Unsupported),
        ("Unable to set timeslice: Insufficient Permissions", 4, Permanent),
        ("Unable to determine the device handle for GPU: GPU is lost", 15, Vanished),
        ("NVIDIA-SMI has failed", 9, Transient),
    ],
)
def test_what_the_program_refuses(tmp_path: Path, says: str, status: int, kind: type[Exception]) -> None:
    smi = FakeSmi(tmp_path)
    smi.set(says=says, status=status)
    with pytest.raises(kind):
        TimeSlices(str(smi.program)).write(SLICE, "short")


def test_without_the_program_and_for_a_card_that_is_gone(tmp_path: Path) -> None:
    gap = TimeSlices(str(tmp_path / "no-such-program")).supported(Knob.GPU_TIMESLICE)
    assert gap is not None
    assert gap.needs == "nvidia-smi, of NVIDIA's driver"
    slices = TimeSlices(str(FakeSmi(tmp_path).program))
    assert slices.supported(Knob.GPU_TIMESLICE) is None
    with pytest.raises(Vanished):
        slices.read(KnobTarget("GPU-z", Knob.GPU_TIMESLICE))
    with pytest.raises(InvalidInput, match="one of default, short, medium, long"):
        slices.write(SLICE, "tiny")


def keeper(smi: FakeSmi, folder: Path, *, timeslices: bool = False) -> tuple[LeaseExecutor, LeaseFile]:
    file = LeaseFile(folder / "state", "this boot")
    rules = KnobRules((), gpus=frozenset({"GPU-a"}), timeslices=timeslices)
    port = GpuKnobs(FakeNvml(Gpu("GPU-a")), folder / "locks", slices=TimeSlices(str(smi.program)))
    clock = Clock(lambda: 1_000_000, lambda: 1.0)
    return LeaseExecutor({KnobScope.GPU: port}, file, AuditTrail(folder / "state"), clock, rules), file


def test_a_later_keeper_gives_back_what_one_that_was_killed_held(tmp_path: Path) -> None:
    smi = FakeSmi(tmp_path)
    first, file = keeper(smi, tmp_path, timeslices=True)
    (answer,) = first.hold([SetKnob(SLICE, "short", WHY)])
    assert (answer.state, smi.slice) == (LeaseState.HELD, 1)
    file.close()
    second, file = keeper(smi, tmp_path)  # without the right to set it anew
    (answer,) = second.restart(file.found.leases)
    assert (answer.state, smi.slice) == (LeaseState.RESTORED, 0)
    (answer,) = second.hold([SetKnob(SLICE, "short", WHY)])
    assert answer.detail == "no time-slice of a GPU is set here (--gpu-timeslices): it is everybody's on the card"
    file.close()


def test_a_slice_that_somebody_set_is_left_to_them(tmp_path: Path) -> None:
    smi = FakeSmi(tmp_path)
    smi.set(slices={"GPU-a": 3})
    executor, file = keeper(smi, tmp_path, timeslices=True)
    (answer,) = executor.hold([SetKnob(SLICE, "short", WHY)])
    assert answer.state is LeaseState.REFUSED
    assert answer.detail == "left to who set it to long, such as the DRA driver for a claim that shares the card"
    assert smi.slice == 3
    file.close()
