"""The binary layout shared with bpf/stalls.bpf.c, and names of kernel functions by address."""

from __future__ import annotations

import re
from pathlib import Path

from cotenant.drivers.ebpf import stall_layout as layout
from cotenant.drivers.ebpf.kernel_symbols import symbol
from cotenant.model.machine.run_queue import BUCKETS
from cotenant.model.machine.stalls import StallKind

FOLDER = Path(__file__).parents[6] / "bpf"
SOURCE = "".join((FOLDER / name).read_text() for name in ("waits.h", "stalls.bpf.c"))
SIZES = {"__u64": 8, "__s64": 8, "__u32": 4, "__s32": 4, "char": 1}


def constant(name: str) -> int:
    (value,) = re.findall(rf"^#define {name} (\d+)", SOURCE, re.MULTILINE)
    return int(value)


def fields(name: str) -> int:
    """Bytes of a structure of integers and arrays of them."""
    (body,) = re.findall(rf"^struct {name} \{{(.*?)^\}}", SOURCE, re.MULTILINE | re.DOTALL)
    members = re.findall(r"^\t(__[us]\d+|char) (\w+)(?:\[(\w+)\])?;", body, re.MULTILINE)
    return sum(SIZES[kind] * (constant(length) if length else 1) for kind, _, length in members)


def test_the_sizes_and_kinds_match_the_source() -> None:
    assert constant("BUCKETS") == BUCKETS
    assert constant("FRAMES") == layout.FRAMES
    assert fields("waits") == layout.WAITS.size
    assert fields("wait_key") == layout.KEY.size
    assert fields("counts") == layout.COUNTS.size
    assert fields("long_wait") == layout.LONG_WAIT.size
    assert {kind.name: kind.value for kind in StallKind} == {
        "BLOCKED": constant("KIND_BLOCKED"),
        "RECLAIM": constant("KIND_RECLAIM"),
    }
    assert "65536" in SOURCE
    assert layout.RING_BYTES == 65536


def test_names_of_tasks_end_at_their_first_nought() -> None:
    assert layout.text_of(b"kworker\0left over") == "kworker"


def test_an_address_is_in_the_function_that_begins_before_it(tmp_path: Path) -> None:
    table = tmp_path / "kallsyms"
    lines = (
        "ffffffff81000200 t second",
        "ffffffff81000100 T first [module]",
        "ffffffff81000150 d data",
        "0000000000000000 T hidden",
    )
    table.write_text("\n".join(lines))
    assert symbol(0xFFFFFFFF81000100, table) == "first"
    assert symbol(0xFFFFFFFF810001FF, table) == "first"
    assert symbol(0xFFFFFFFF81000210, table) == "second"
    assert symbol(0x10, table) == "0x10"
    assert symbol(0x10, tmp_path / "none") == "0x10"
