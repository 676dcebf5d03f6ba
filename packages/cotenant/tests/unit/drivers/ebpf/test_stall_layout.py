"""The binary layout shared with bpf/stalls.bpf.c, and names of kernel functions by address."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cotenant.drivers.ebpf import run_history as history
from cotenant.drivers.ebpf import stall_layout as layout
from cotenant.drivers.ebpf.kernel_symbols import symbol
from cotenant.model.machine.run_queue import BUCKETS
from cotenant.model.machine.stalls import StallKind

FOLDER = Path(__file__).parents[6] / "bpf"
SOURCE = "".join((FOLDER / name).read_text() for name in ("waits.h", "run_history.h", "stalls.bpf.c"))
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
    assert constant("FRAMES") == history.FRAMES
    assert fields("waits") == layout.WAITS.size
    assert fields("wait_key") == layout.KEY.size
    assert fields("counts") == layout.COUNTS.size
    assert fields("long_wait") == layout.LONG_WAIT.size
    assert fields("share") == layout.SHARE.size
    assert (constant("SLOTS"), constant("RUNNERS")) == (history.SLOTS, history.RUNNERS)
    assert fields("runner") == history.RUNNER.size
    assert fields("slot") == history.SLOT.size
    assert fields("long_run") == history.LONG_RUN.size
    assert fields("timeline") == history.HEAD.size
    assert constant("RING_BYTES") == layout.RING_BYTES
    assert {kind.name: kind.value for kind in StallKind} == {
        "BLOCKED": constant("KIND_BLOCKED"),
        "RECLAIM": constant("KIND_RECLAIM"),
        "RUNNABLE": constant("KIND_RUNNABLE"),
    }


@pytest.fixture(scope="module")
def kernels_slot(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], int]:
    """The kernel side's own function, compiled for this machine."""
    compiler = shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    (body,) = re.findall(r"^static __always_inline __u32 slot_of\(.*?^\}", SOURCE, re.MULTILINE | re.DOTALL)
    folder = tmp_path_factory.mktemp("slot")
    (folder / "slot.c").write_text(
        "typedef unsigned long long __u64;\ntypedef unsigned int __u32;\n"
        f"#define BUCKETS {BUCKETS}\n{body.replace('static __always_inline ', '')}\n"
    )
    built = folder / "slot.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", built, folder / "slot.c"], check=True)
    function = ctypes.CDLL(str(built)).slot_of
    function.argtypes, function.restype = [ctypes.c_uint64], ctypes.c_uint32
    return function


def test_a_wait_at_a_bound_is_in_the_bucket_above_it(kernels_slot: Callable[[int], int]) -> None:
    def by_definition(ns: int) -> int:
        us = ns // 1000
        return next((slot for slot in range(BUCKETS - 1) if us < 2 << slot), BUCKETS - 1)

    bounds = [(2 << slot) * 1000 for slot in range(40)]
    waits = [0, 1, 999, 1000, *(bound + by for bound in bounds for by in (-1000, -1, 0, 1, 999, 1000)), 2**64 - 1]
    assert [kernels_slot(ns) for ns in waits] == [by_definition(ns) for ns in waits]
    assert [kernels_slot(bound) for bound in bounds[:3]] == [1, 2, 3]


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
