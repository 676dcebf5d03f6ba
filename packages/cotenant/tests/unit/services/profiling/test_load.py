"""A load's pieces, each on its own resource, and how much of the time a load works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cotenant.services.profiling import load
from cotenant.services.profiling.load import (
    PERIOD_S,
    WAKE_S,
    WAKERS,
    CacheLoad,
    DiskLoad,
    MemoryLoad,
    NetworkLoad,
    StreamLoad,
)

MIB = 1 << 20


class Clock:
    """Time passes by work and by rest only."""

    def __init__(self, work_s: float) -> None:
        self.now_s, self.worked_s, self.rests = 0.0, 0.0, list[float]()
        self._work_s = work_s

    def now(self) -> float:
        return self.now_s

    def work(self) -> None:
        self.now_s += self._work_s
        self.worked_s += self._work_s

    def rest(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now_s += seconds


@pytest.mark.parametrize("level", [0.25, 0.5, 1.0])
def test_it_works_for_the_levels_share_of_each_period(level: float) -> None:
    clock = Clock(PERIOD_S / 1000)
    load.press(clock.work, level, 100 * PERIOD_S, clock.now, clock.rest)
    assert clock.worked_s == pytest.approx(level * 100 * PERIOD_S, rel=0.02)
    assert clock.now_s == pytest.approx(100 * PERIOD_S, rel=0.02)
    assert max(clock.rests) <= (1 - level) * PERIOD_S + 1e-9


def test_what_took_longer_than_its_period_is_followed_by_no_rest() -> None:
    clock = Clock(3 * PERIOD_S)
    load.press(clock.work, 0.5, 8 * PERIOD_S, clock.now, clock.rest)
    assert clock.worked_s == pytest.approx(9 * PERIOD_S)
    assert clock.rests == [0.0, 0.0, 0.0]


def test_at_level_0_nothing_is_done() -> None:
    for pressing in (load.press, load.wake):
        clock = Clock(1.0)
        pressing(clock.work, 0.0, 10 * PERIOD_S, clock.now, clock.rest)
        assert clock.worked_s == 0


def test_those_that_wake_share_the_level() -> None:
    clock = Clock(WAKE_S / WAKERS / 64)
    load.wake(clock.work, 0.5, 1.0, clock.now, clock.rest)
    assert set(clock.rests) == {WAKE_S}
    assert clock.worked_s / len(clock.rests) == pytest.approx(0.5 * WAKE_S / WAKERS, rel=0.05)
    assert len(clock.rests) == pytest.approx(1.0 / (WAKE_S * (1 + 0.5 / WAKERS)), rel=0.01)


@pytest.mark.parametrize(
    ("axis", "count", "share"), [("cpu", 4, 64), ("memory", 4, 64), ("runQueue", 4 * WAKERS, 8), ("disk", 4, 64)]
)
def test_processes_and_memory_are_divided_among_the_cpus(axis: str, count: int, share: int) -> None:
    assert load.divided(axis, 4, 256) == (count, share * MIB)


@pytest.mark.parametrize(("max_bytes", "held"), [(0, 1), (MIB, 1), (3 * MIB, 3), (3 * MIB + MIB // 2, 3)])
def test_memory_is_touched_up_to_what_is_allowed(max_bytes: int, held: int) -> None:
    work = MemoryLoad(max_bytes)
    work()
    first = work.held[0]
    for _ in range(5):
        work()
        assert len(work.held) <= held
    assert len(work.held) == held
    assert first.closed  # the oldest goes
    for chunk in work.held:
        assert len(chunk) == MIB
        assert set(chunk[::4096]) == {1}


def test_a_stream_copies_all_of_it_and_begins_again() -> None:
    work, chunks = StreamLoad(4 * MIB), 4
    for _ in range(chunks - 1):
        work()
    assert np.all(work.to[: (chunks - 1) * MIB // 8] == 1)
    assert not work.to[-MIB // 8 :].any()
    work()
    assert np.all(work.to == 1)
    work.to[:] = 0
    work()
    assert np.all(work.to[: MIB // 8] == 1)
    assert work.to.sum() == MIB // 8


def test_a_file_is_written_to_its_end_and_from_its_begin_again(tmp_path: Path) -> None:
    work = DiskLoad(tmp_path, 3, MIB)
    for _ in range(16):
        work()
    file = tmp_path / "load-3"
    whole = file.read_bytes()
    assert len(whole) == MIB
    assert len({whole[i << 16 : (i + 1) << 16] for i in range(16)}) == 1  # no hole
    file.write_bytes(bytes(MIB))
    work()
    again = file.read_bytes()
    assert again[: 1 << 16] == whole[: 1 << 16]
    assert not any(again[1 << 16 :])


def test_datagrams_arrive() -> None:
    work = NetworkLoad()
    work()
    work()
    assert work.received_bytes == 2 * 20 * 1400


def kind(axis: str, folder: Path) -> Callable[[], object]:
    return load.piece(axis, 2 * MIB, folder, 0)


def test_each_axis_has_its_own_work(tmp_path: Path) -> None:
    kinds: dict[str, type[object]] = {
        "cache": CacheLoad, "memoryBandwidth": StreamLoad, "memory": MemoryLoad, "disk": DiskLoad,
        "network": NetworkLoad,
    }  # fmt: skip
    for axis in load.AXES:
        work = kind(axis, tmp_path)
        work()
        assert work is load.spin if axis in ("cpu", "runQueue") else type(work) is kinds[axis]
    memory = kind("memory", tmp_path)
    assert isinstance(memory, MemoryLoad)
    for _ in range(5):
        memory()
    assert len(memory.held) == 2


@pytest.mark.slow  # in the kernel's idle class: as long as others use the CPU
def test_the_process_ends_by_itself_and_has_written(tmp_path: Path) -> None:
    load.main(["disk", "0.5", "--seconds", "0.05", "--folder", str(tmp_path)])
    assert list(tmp_path.glob("load-*"))
