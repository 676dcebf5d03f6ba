from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant.drivers.ebpf import smt
from cotenant.drivers.ebpf import zone_layout as layout
from cotenant.drivers.ebpf.sched_ext import read_state, supported
from cotenant.drivers.ebpf.zone_scheduler import check_version
from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.model.zones.apart import MOST_PARTIES, ApartTable, Within
from cotenant.model.zones.setting import MAX_CPUS
from cotenant.model.zones.table import LateDispatch, ThreadRow, ZoneClass, ZoneRow

HEADER = (Path(__file__).parents[6] / "bpf" / "zone.h").read_text()


def size(name: str) -> int:
    """Bytes of a structure of the header, whose members need no padding."""
    body = re.search(rf"struct {name} {{[^\n]*\n(.*?)}};", HEADER, re.DOTALL)
    assert body is not None, name
    total = 0
    for kind, names in re.findall(r"^\t(__u64|__u32|__u16|__u8|char) ([^;]+);", body[1], re.MULTILINE):
        for entry in names.split(","):
            length = re.search(r"\[(\d+)\]", entry.replace("NAME_BYTES", "16"))
            total += {"__u64": 8, "__u32": 4, "__u16": 2, "__u8": 1, "char": 1}[kind] * (
                int(length[1]) if length else 1
            )
    return total


def test_sizes_match_the_header() -> None:
    assert size("zone_row") == layout.ROW.size
    assert size("zone_thread") == layout.THREAD.size
    assert size("zone_late") == layout.LATE.size
    assert size("zone_exit") == layout.EXIT.size


def test_classes_and_counters_match_the_header() -> None:
    classes = re.search(r"enum zone_class {([^}]*)}", HEADER)
    assert classes is not None
    assert [name.strip() for name in classes[1].split(",")] == [f"CLASS_{zone_class.name}" for zone_class in ZoneClass]
    counts = re.search(r"enum zone_count {([^}]*)}", HEADER)
    assert counts is not None
    names = [name.strip().removeprefix("COUNT_").lower() for name in counts[1].split(",")]
    assert names == [*layout.COUNTS, "counts"]


def test_constants_of_the_exclusive_scheduler_match_its_source() -> None:
    source = (Path(__file__).parents[6] / "bpf" / "zone_exclusive.bpf.c").read_text()
    assert f"#define MAX_CPUS {MAX_CPUS}\n" in source
    members = re.search(r"const volatile struct {\n(.*?)} exclusive", source, re.DOTALL)
    assert members is not None
    assert re.findall(r"__u64 (\w+)", members[1]) == ["starved_ns", "cpus", "own"]
    starved, cpus, first, second, *rest = layout.EXCLUSIVE.unpack(layout.pack_exclusive(7, 72, (3, 64, 71)))
    assert (starved, cpus, first, second) == (7, 72, 1 << 3, 1 | 1 << 7)
    assert not any(rest)
    assert len(rest) == MAX_CPUS // 64 - 2


def test_constants_of_the_siblings_scheduler_match_its_source() -> None:
    source = (Path(__file__).parents[6] / "bpf" / "zone_siblings.bpf.c").read_text()
    assert f"#define MAX_CPUS {MAX_CPUS}\n" in source
    members = re.search(r"const volatile struct {\n(.*?)} siblings", source, re.DOTALL)
    assert members is not None
    assert re.findall(r"(__u\d+) (\w+)", members[1]) == [
        ("__u64", "starved_ns"),
        ("__u64", "cpus"),
        ("__u16", "sibling"),
    ]
    starved, cpus, *others = layout.SIBLINGS.unpack(layout.pack_siblings(7, 4, {0: 2, 2: 0}))
    assert (starved, cpus, others[:4], len(others)) == (7, 4, [2, 1, 0, 3], MAX_CPUS)
    with pytest.raises(Unsupported, match="at most 1024 CPUs"):
        layout.pack_siblings(7, 1025, {})


def test_rules_of_the_apart_scheduler_match_its_source() -> None:
    source = (Path(__file__).parents[6] / "bpf" / "zone_apart.h").read_text()
    assert f"#define MAX_CPUS {MAX_CPUS}\n" in source
    assert f"#define PARTIES {MOST_PARTIES} " in source
    assert f"#define LEVELS {len(Within)} " in source
    members = re.search(r"\nvolatile struct {\n(.*?)} apart", source, re.DOTALL)
    assert members is not None
    assert re.findall(r"(__u\d+) (\w+)(\S*);", members[1]) == [
        ("__u64", "starved_ns", ""),
        ("__u64", "cpus", ""),
        ("__u64", "always", "[LEVELS][PARTIES]"),
        ("__u64", "late", "[LEVELS][PARTIES]"),
        ("__u16", "place", "[2][MAX_CPUS]"),
    ]
    always, late = ((tuple(range(at, at + 8)), (0,) * 8, (at,) * 8) for at in (1, 100))
    table = ApartTable(("a", "b"), always, late, {3: 1}, {3: 0, 2: 0})
    starved, cpus, *rest = layout.APART.unpack(layout.pack_apart(7, 4, table))
    assert (starved, cpus) == (7, 4)
    assert rest[:48] == [word for words in (always, late) for level in words for word in level]
    cores, caches = rest[48 : 48 + MAX_CPUS], rest[48 + MAX_CPUS :]
    assert (cores[:4], caches[:4], len(caches)) == ([0, 1, 2, 1], [0, 1, 0, 0], MAX_CPUS)
    with pytest.raises(Unsupported, match="at most 1024 CPUs"):
        layout.pack_apart(7, 1025, table)


def test_constants_of_the_program_that_counts_shared_cores_match_its_source() -> None:
    source = (Path(__file__).parents[6] / "bpf" / "smt.bpf.c").read_text()
    assert f"#define MAX_CPUS {MAX_CPUS}\n" in source
    assert re.findall(r"#define (SERVICE|BATCH) (\d)", source) == [
        (zone_class.name, str(zone_class.value)) for zone_class in (ZoneClass.SERVICE, ZoneClass.BATCH)
    ]
    core = re.search(r"struct core {\n(.*?)};", source, re.DOTALL)
    assert core is not None
    assert re.findall(r"__u64 (\w+)", core[1]) == ["changed_ns", "service_ns", "beside_ns", "batch_ns"]
    assert smt.CORE.size == 4 * 8 + 2 * 4 + 4 + 4  # the lock, and its padding
    shared = smt.SharedCores(10, 4, 20).since(smt.SharedCores(3, 1, 5))
    assert shared == smt.SharedCores(7, 3, 15)


@pytest.mark.parametrize(("cpus", "own"), [(1, (0,)), (2, ()), (2, (0, 1)), (2, (2,)), (1025, (3,))])
def test_services_and_batch_both_need_a_cpu(cpus: int, own: tuple[int, ...]) -> None:
    with pytest.raises(Unsupported, match="some of them left to batch"):
        layout.pack_exclusive(7, cpus, own)


def test_rows_and_events_come_back() -> None:
    row = ZoneRow(ZoneClass.BATCH, 300, 10_000, 5)
    assert layout.unpack_row(layout.pack_row(row)) == row
    assert layout.pack_row(row, 3)[:4] == b"\2\3\0\0"
    assert layout.pack_row(replace(row, threads=(ThreadRow("gc*", ZoneClass.BATCH),)))[:4] == b"\2\0\1\0"
    event = layout.unpack_late(layout.LATE.pack(5_000_000, 77, 20_000_000, 12, 1) + b"rest")
    assert event == LateDispatch(5000, 77, 20_000, 12, ZoneClass.SERVICE)
    assert layout.unpack_exit(bytes(layout.EXIT.size)) is None
    found = layout.unpack_exit(layout.EXIT.pack(1000, 1026, b"runnable task stall", b"batch[7] failed to run for 5.0s"))
    assert found is not None
    assert found.ejected
    assert (found.reason, found.message) == ("runnable task stall", "batch[7] failed to run for 5.0s")


def test_threads_are_compared_by_the_beginning_of_their_name_or_the_whole() -> None:
    threads = (ThreadRow("gc*", ZoneClass.BATCH, slice_us=7), ThreadRow("main", ZoneClass.SERVICE))
    found = layout.pack_threads(5, ZoneRow(ZoneClass.SERVICE, weight=300, late_us=9, threads=threads))
    keys = [layout.THREAD.unpack(key) for key in found]
    assert keys == [(8 * (8 + 2), 5, b"gc".ljust(16, b"\0")), (8 * (8 + 16), 5, b"main".ljust(16, b"\0"))]
    assert list(map(layout.unpack_row, found.values())) == [
        ZoneRow(ZoneClass.BATCH, 300, 7),  # a batch thread is never late
        ZoneRow(ZoneClass.SERVICE, 300, 0, 9),
    ]
    of_party = layout.pack_threads(5, ZoneRow(ZoneClass.SERVICE, threads=threads), 4)
    assert {value[1] for value in of_party.values()} == {4}


@pytest.mark.parametrize("name", ["", "*", "a*b", "sixteen-letters-", "a\n"])
def test_a_name_that_no_thread_can_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="threads: name"):
        ThreadRow(name, ZoneClass.BATCH)


def test_a_name_twice_and_too_many_names_are_refused() -> None:
    for names in (["a", "a"], [f"a{number}" for number in range(17)]):
        with pytest.raises(InvalidInput, match="at most 16 names, each once"):
            ZoneRow(ZoneClass.SERVICE, threads=tuple(ThreadRow(name, ZoneClass.BATCH) for name in names))


@pytest.mark.parametrize(("field", "value"), [("weight", -1), ("weight", 10_001), ("slice_us", 10**6), ("late_us", -5)])
def test_a_row_out_of_bounds_is_refused(field: str, value: int) -> None:
    with pytest.raises(InvalidInput, match=field):
        ZoneRow(ZoneClass.SERVICE, **{field: value})


def test_a_libbpf_that_is_too_old_is_refused_with_what_to_do() -> None:
    check_version((1, 2))
    check_version((1, 6))
    with pytest.raises(Unsupported, match=r"libbpf 1\.2 or later \(found 1\.1\): pip install pylibbpf"):
        check_version((1, 1))


def test_the_state_of_a_kernel_without_schedulers_in_bpf(tmp_path: Path) -> None:
    assert not supported(tmp_path)
    with pytest.raises(Unsupported, match="CONFIG_SCHED_CLASS_EXT"):
        read_state(tmp_path)
    (tmp_path / "state").write_text("disabled\n")
    (tmp_path / "enable_seq").write_text("3\n")
    state = read_state(tmp_path)  # `root/ops` may vanish at any time
    assert (state.state, state.name, state.sequence) == ("disabled", None, 3)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "ops").write_text("cotenant_latency\n")
    assert not read_state(tmp_path).runs("cotenant_latency")
    (tmp_path / "state").write_text("enabled\n")
    assert read_state(tmp_path).runs("cotenant_latency")
