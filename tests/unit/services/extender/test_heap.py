"""Unused heap pages go back to the kernel."""

from __future__ import annotations

import asyncio
import ctypes
import platform
from pathlib import Path

import pytest

from cotenant.services.extender.heap import PERIOD_S, keep_trimmed, trim


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
