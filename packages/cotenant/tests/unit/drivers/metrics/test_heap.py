"""What is in use of the C heap and of Python's blocks is told by every registry."""

from __future__ import annotations

import gc
import platform

import pytest

from cotenant.drivers.metrics.heap import HeapBytes, HeapCollector, heap_bytes

GLIBC = platform.libc_ver()[0] == "glibc" and tuple(map(int, platform.libc_ver()[1].split("."))) >= (2, 33)


@pytest.mark.skipif(not GLIBC, reason="mallinfo2 is of glibc 2.33 and newer")
def test_what_is_allocated_is_in_use_until_it_is_freed() -> None:
    gc.collect()  # what earlier cases left is not to be freed in between; other threads may free a little
    before = heap_bytes()
    held = [bytes(100_000) for _ in range(100)]  # above what CPython keeps in its own arenas
    during = heap_bytes()
    assert before is not None
    assert during is not None
    assert during.in_use - before.in_use >= 90 * 100_000
    held.clear()
    after = heap_bytes()
    assert after is not None
    assert during.in_use - after.in_use >= 90 * 100_000


def test_a_c_library_that_does_not_tell_leaves_the_blocks_alone() -> None:
    names = [family.name for family in HeapCollector(lambda: None).collect()]
    assert names == ["cotenant_python_blocks"]
    told = {family.name: family for family in HeapCollector(lambda: HeapBytes(7, 3)).collect()}
    samples = {sample.labels["state"]: sample.value for sample in told["cotenant_heap_bytes"].samples}
    assert samples == {"in_use": 7, "free": 3}
