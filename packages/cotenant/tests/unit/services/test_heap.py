"""Unused heap pages go back to the kernel, and large blocks stay out of the heap."""

from __future__ import annotations

import asyncio
import ctypes
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.services.heap import PERIOD_S, keep_trimmed, trim


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc_trim is glibc's")
def test_free_pages_between_objects_that_live_are_returned() -> None:
    assert ctypes.sizeof(ctypes.c_size_t) == 8
    some = [bytes([i % 251]) * 4_000 for i in range(10_000)]
    kept = some[::500] + some[-1:]  # the heap's top stays in use, so that free() alone returns nothing
    del some
    before = resident_bytes()
    assert trim()
    assert before - resident_bytes() > 20 << 20
    assert len(kept) == 21


_BLOCKS = """
import ctypes, sys
from cotenant.drivers.metrics.heap import _Mallinfo2
from cotenant.services.heap import map_large_blocks
if sys.argv[1] == "fixed":
    assert map_large_blocks()
read = ctypes.CDLL(None).mallinfo2
read.restype = _Mallinfo2
large = bytes(8 << 20)
del large  # glibc raises its threshold to this size
before = read().hblks
kept = [bytes(256 << 10) for _ in range(10)]
print(read().hblks - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt's threshold is glibc's")
@pytest.mark.parametrize(("how", "mapped"), [("as it is", "0"), ("fixed", "10")])
def test_large_blocks_are_mapped_also_after_larger_ones(how: str, mapped: str) -> None:
    # a process of its own: the setting is for good
    said = subprocess.run([sys.executable, "-c", _BLOCKS, how], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == mapped


def test_it_is_repeated_until_cancelled() -> None:
    slept, trims = [], []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) > 3:
            raise asyncio.CancelledError

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            await keep_trimmed(lambda: trims.append(1) is None, sleep)

    asyncio.run(main())
    assert slept == [PERIOD_S] * 4
    assert len(trims) == 3


def test_what_is_there_is_left_out_of_later_collections() -> None:
    code = """
import gc
from cotenant.services.heap import freeze_heap
kept = [[i] for i in range(100_000)]
before = len(gc.get_objects())
freeze_heap()
left = len(gc.get_objects())
assert before > 100_000 and left < 1_000, (before, left)
assert gc.get_freeze_count() >= before - left - 1_000
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_full_collections_are_spared_until_the_heap_is_filled() -> None:
    code = """
import gc
from cotenant.services.heap import freeze_heap, spare_filling
usual, begun = gc.get_threshold(), []
gc.callbacks.append(lambda phase, info: begun.append(info["generation"]) if phase == "start" else None)
spare_filling()
kept = [[i] for i in range(500_000)]
assert set(begun) == {0}, begun
freeze_heap()
assert set(begun) == {0, 2}, begun
assert gc.get_threshold() == usual
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_old_garbage_is_collected_once_a_period_while_the_heap_is_filled_and_not_after() -> None:
    code = """
import asyncio, gc
from cotenant.services.heap import PERIOD_S, collect_while_filling, freeze_heap, spare_filling
slept, full = [], []
gc.callbacks.append(lambda phase, info: full.append(info["generation"]) if phase == "start" else None)

async def sleep(seconds):
    slept.append(seconds)
    if len(slept) == 3:
        assert full == [2, 2], full  # those of the first two periods
        freeze_heap()
        full.clear()
    if len(slept) > 4:
        raise asyncio.CancelledError

async def main():
    spare_filling()
    try:
        await collect_while_filling(sleep)
    except asyncio.CancelledError:
        pass

gc.disable()
asyncio.run(main())
assert slept == [PERIOD_S] * 5, slept
assert full == [], full
"""
    subprocess.run([sys.executable, "-c", code], check=True)
