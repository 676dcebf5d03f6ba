"""GPUs that are read apart: a driver that hangs, fails or is slow costs nobody else anything."""

from __future__ import annotations

from threading import Event, get_ident
from typing import Any

import pytest
from tests.fakes.node.fake_nvml import FakeNvml, Gpu
from tests.fakes.waiting import eventually, patience

from cotenant.drivers.gpu.apart import ReadApart
from cotenant.drivers.gpu.live import LiveGpus, live_gpus
from cotenant.drivers.gpu.nvml import GpuReader
from cotenant.model.errors import Transient, Unsupported
from cotenant.model.machine.counters import HostCounters, NodeSample

SAMPLE = NodeSample(1, 1.0, HostCounters(4, 0, 1, 1))
LONG_S = 600.0  # more than any test waits


class HangingNvml(FakeNvml):
    """Asks for the memory of a card hang until `goes_on`."""

    def __init__(self, *gpus: Gpu) -> None:
        super().__init__(*gpus)
        self.goes_on = Event()
        self.goes_on.set()

    def nvmlDeviceGetMemoryInfo(self, gpu: Gpu) -> Any:  # noqa: N802
        self.goes_on.wait(patience(30.0))
        return super().nvmlDeviceGetMemoryInfo(gpu)


def test_a_driver_that_hangs_is_a_gap_and_its_cards_come_back() -> None:
    library = HangingNvml(Gpu("GPU-a", percent=10))
    gpus = LiveGpus(GpuReader(library), LONG_S)
    assert [gpu.utilisation_percent for gpu in gpus.collect(SAMPLE).gpus] == [10]
    library.goes_on.clear()
    gpus._apart._patience_s = 0.0
    for _ in range(3):
        with pytest.raises(Transient, match="the GPU driver has not answered"):
            gpus.collect(SAMPLE)
    assert gpus.is_asked
    gpus.close()  # nothing is asked of a driver that hangs
    assert library.running == 1
    library.goes_on.set()
    found = eventually("an answer", lambda: not gpus.is_asked and gpus.collect(SAMPLE).gpus)
    assert [gpu.uuid for gpu in found] == ["GPU-a"]


def test_while_a_reading_is_under_way_nobody_waits_for_it_again() -> None:
    goes_on = Event()
    apart = ReadApart(lambda: goes_on.wait(patience(30.0)), "x", 0.0)
    with pytest.raises(Transient):
        apart.take()
    apart._patience_s = LONG_S  # a second wait would outlast the test
    with pytest.raises(Transient):
        apart.take()
    goes_on.set()
    assert eventually("an answer", lambda: not apart.is_asked)
    assert apart.take()


def test_readings_and_errors_are_those_of_one_thread_of_its_own() -> None:
    answers: list[int | Exception] = [1, ValueError("two"), 3]
    threads: set[int] = set()

    def read() -> int:
        threads.add(get_ident())
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    apart = ReadApart(read, "x", LONG_S)
    assert apart.take() == 1
    with pytest.raises(ValueError, match="two"):
        apart.take()
    assert apart.take() == 3
    assert len(threads) == 1
    assert get_ident() not in threads


def test_a_first_reading_that_fails_leaves_nothing_open() -> None:
    (gpu,) = live_gpus(FakeNvml(Gpu("GPU-1", percent=40)), LONG_S).read(LONG_S)
    assert gpu.utilisation_percent == 40
    with pytest.raises(Unsupported):
        live_gpus(FakeNvml(starts=FakeNvml.NVML_ERROR_DRIVER_NOT_LOADED), LONG_S)
    closed = FakeNvml(Gpu("GPU-1", fails={"HandleByIndex": FakeNvml.NVML_ERROR_UNKNOWN}))
    with pytest.raises(Transient, match="none of its 1 GPUs"):
        live_gpus(closed, LONG_S)
    strange = FakeNvml(Gpu("GPU-1", bus=""))
    strange.nvmlDeviceGetComputeMode = None  # type: ignore[method-assign, assignment]
    with pytest.raises(TypeError):
        live_gpus(strange, LONG_S)
    assert (closed.running, strange.running) == (0, 0)
    with pytest.raises(Transient, match="does not start"):
        live_gpus(FakeNvml(starts=FakeNvml.NVML_ERROR_UNKNOWN), LONG_S)


def test_a_driver_that_hangs_at_the_start_is_read_once_it_answers() -> None:
    library = HangingNvml(Gpu("GPU-a"))
    library.goes_on.clear()
    gpus = live_gpus(library, 0.0)
    assert gpus.is_asked
    library.goes_on.set()
    assert eventually("an answer", lambda: not gpus.is_asked)
    assert [gpu.uuid for gpu in gpus.read(LONG_S)] == ["GPU-a"]
