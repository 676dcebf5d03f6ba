from __future__ import annotations

import re
from pathlib import Path

import pytest

from cotenant.drivers.ebpf import zone_layout as layout
from cotenant.drivers.ebpf.sched_ext import read_state, supported
from cotenant.drivers.ebpf.zone_scheduler import check_version
from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.model.zones.setting import MAX_CPUS
from cotenant.model.zones.table import LateDispatch, ZoneClass, ZoneRow

HEADER = (Path(__file__).parents[6] / "bpf" / "zone.h").read_text()


def size(name: str) -> int:
    """Bytes of a structure of the header, whose members need no padding."""
    body = re.search(rf"struct {name} {{[^\n]*\n(.*?)}};", HEADER, re.DOTALL)
    assert body is not None, name
    total = 0
    for kind, names in re.findall(r"^\t(__u64|__u32|char) ([^;]+);", body[1], re.MULTILINE):
        for entry in names.split(","):
            length = re.search(r"\[(\d+)\]", entry)
            total += {"__u64": 8, "__u32": 4, "char": 1}[kind] * (int(length[1]) if length else 1)
    return total


def test_sizes_match_the_header() -> None:
    assert size("zone_row") == layout.ROW.size
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


@pytest.mark.parametrize(("cpus", "own"), [(1, (0,)), (2, ()), (2, (0, 1)), (2, (2,)), (1025, (3,))])
def test_services_and_batch_both_need_a_cpu(cpus: int, own: tuple[int, ...]) -> None:
    with pytest.raises(Unsupported, match="some of them left to batch"):
        layout.pack_exclusive(7, cpus, own)


def test_rows_and_events_come_back() -> None:
    row = ZoneRow(ZoneClass.BATCH, 300, 10_000, 5)
    assert layout.unpack_row(layout.pack_row(row)) == row
    event = layout.unpack_late(layout.LATE.pack(5_000_000, 77, 20_000_000, 12, 1) + b"rest")
    assert event == LateDispatch(5000, 77, 20_000, 12, ZoneClass.SERVICE)
    assert layout.unpack_exit(bytes(layout.EXIT.size)) is None
    found = layout.unpack_exit(layout.EXIT.pack(1000, 1026, b"runnable task stall", b"batch[7] failed to run for 5.0s"))
    assert found is not None
    assert found.ejected
    assert (found.reason, found.message) == ("runnable task stall", "batch[7] failed to run for 5.0s")


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
