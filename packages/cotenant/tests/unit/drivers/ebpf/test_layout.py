"""The binary layout shared with the C side, and its decoding."""

from __future__ import annotations

import re
from pathlib import Path

from cotenant.drivers.ebpf import layout
from cotenant.model.machine.run_queue import BUCKETS

FOLDER = Path(__file__).parents[6] / "bpf"
SOURCE = "".join((FOLDER / name).read_text() for name in ("waits.h", "runqueue.bpf.c"))


def fields(name: str) -> int:
    """Bytes of a structure of plain integers and arrays of them, and of structures of such."""
    (body,) = re.findall(rf"^struct {name} \{{(.*?)^\}}", SOURCE, re.MULTILINE | re.DOTALL)
    total = 0
    for kind, _, length in re.findall(r"(__u64|__u32|struct \w+) (\w+)(?:\[(\w+)\])?;", body):
        size = {"__u64": 8, "__u32": 4}.get(kind) or fields(kind.removeprefix("struct "))
        total += size * (constant(length) if length else 1)
    return total


def constant(name: str) -> int:
    (value,) = re.findall(rf"^#define {name} (\d+)", SOURCE, re.MULTILINE)
    return int(value)


def test_the_sizes_match_the_built_object() -> None:
    assert constant("BUCKETS") == BUCKETS
    assert constant("CHANGES") == layout.CHANGES
    assert fields("watch") == layout.WATCH.size
    assert fields("waits") == layout.WAITS.size
    assert fields("pair") == layout.PAIR.size
    assert fields("late") == layout.LATE.size
    assert "65536" in SOURCE
    assert layout.RING_BYTES == 65536


def test_values_of_all_cpus_are_summed() -> None:
    first = layout.WAITS.pack(2, 3000, 100, 1, 999, 1, 1, *([0] * (BUCKETS - 2)))
    second = layout.WAITS.pack(1, 500, 0, 0, 0, 1, *([0] * (BUCKETS - 1)))
    idle = bytes(layout.WAITS.size)
    total = layout.sum_over_cpus(first + idle + second)
    assert total == layout.RawWaits(3, 3500, 100, 1, (2, 1, *([0] * (BUCKETS - 2))))
    assert layout.sum_over_cpus(idle) == layout.RawWaits()
