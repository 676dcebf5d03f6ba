from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from tests.fakes.node.cgroup_trees import KINDS, CgroupTrees
from tests.fakes.node.open_files import descriptors

from cotenant.drivers.cgroup.counters import IDLE, RETRY, SELDOM, CgroupReader
from cotenant.model.machine.counters import GroupCounters, Pressure, Stall

PRESSURE = Pressure(Stall(1500, 0), Stall(20, 10), Stall(40, 30))


@pytest.mark.parametrize("kind", KINDS)
def test_one_group_reads_the_same_on_every_layout(tmp_path: Path, kind: str) -> None:
    trees = CgroupTrees(tmp_path, kind)
    trees.add("pod/main")
    with CgroupReader(trees.layout) as reader:
        (counters,) = reader.read(["pod/main"])
        assert counters == GroupCounters(
            "pod/main",
            cpu_us=7000,
            periods=10,
            throttled_periods=4,
            throttled_us=5000,
            memory_bytes=8_192_000,
            working_set_bytes=8_000_000,
            refaults=42,
            oom_kills=2,
            io_read_bytes=4100,
            io_written_bytes=520,
            tasks=3,
            pressure=PRESSURE if kind in ("v2", "hybrid") else Pressure(),
        )
        needed = [gap for gap in reader.gaps() if "pressure" in gap.what]
        assert len(reader.gaps()) == len(needed) == (0 if kind in ("v2", "hybrid") else 3)


@pytest.mark.parametrize("kind", ["v1", "v2"])
def test_a_cpu_limit_is_read_in_milli_cpu(tmp_path: Path, kind: str) -> None:
    trees = CgroupTrees(tmp_path, kind)
    trees.add("pod")
    trees.say(
        "pod", "cpu.max" if kind == "v2" else "cpu.cfs_quota_us", "150000 100000\n" if kind == "v2" else "150000\n"
    )
    with CgroupReader(trees.layout) as reader:
        assert reader.read(["pod"])[0].cpu_m_limit == 1500


def test_a_changed_limit_is_read_after_some_readings_and_cpu_use_at_once(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "v2")
    trees.add("pod")
    with CgroupReader(trees.layout) as reader:
        (first,) = reader.read(["pod"])
        assert reader.read(["pod"])[0] is first  # nothing moved: nothing is read into numbers again
        reads = reader.reads
        reader.read(["pod"])
        assert reader.reads - reads < reads // 2  # what changes seldom rests
        trees.say("pod", "cpu.max", "50000 100000\n")
        trees.say("pod", "memory.current", "9000000\n")
        trees.say("pod", "cpu.stat", "usage_usec 7001\n")
        (second,) = reader.read(["pod"])
        assert second.memory_bytes == 9_000_000
        seen = [reader.read(["pod"])[0].cpu_m_limit for _ in range(SELDOM)]
        assert seen[-1] == 500


@pytest.mark.parametrize("kind", KINDS)
def test_a_dependent_file_is_read_when_the_other_changes_or_some_readings_later(tmp_path: Path, kind: str) -> None:
    trees = CgroupTrees(tmp_path, kind)
    trees.add("pod")
    usage, charged, inactive = (
        ("cpu.stat", "memory.current", "inactive_file 2000\n")
        if kind == "v2"
        else ("cpuacct.usage", "memory.usage_in_bytes", "total_inactive_file 2000\n")
    )
    used = "usage_usec {}\n" if kind == "v2" else "{}000\n"
    with CgroupReader(trees.layout) as reader:
        reader.read(["pod"])
        reader.read(["pod"])
        trees.say("pod", "memory.stat", inactive)
        trees.say("pod", charged, "102000\n")
        trees.say("pod", usage, used.format(7001))
        assert reader.read(["pod"])[0].working_set_bytes == 100_000
        trees.say("pod", "memory.stat", inactive.replace("2000", "1000"))  # pages grew old, the sum stands
        assert [reader.read(["pod"])[0].working_set_bytes for _ in range(SELDOM)][-1] == 101_000


@pytest.mark.parametrize("kind", ["v1", "hybrid"])
def test_throttling_is_read_at_once_where_there_is_a_limit(tmp_path: Path, kind: str) -> None:
    trees = CgroupTrees(tmp_path, kind)
    for group, quota in (("limited", "50000\n"), ("free", "-1\n")):
        trees.add(group)
        trees.say(group, "cpu.cfs_quota_us", quota)
    with CgroupReader(trees.layout) as reader:
        for _ in range(2):
            reader.read(["limited", "free"])
        for group in ("limited", "free"):
            trees.say(group, "cpu.stat", "nr_periods 20\nnr_throttled 9\nthrottled_time 7000000\n")
            trees.say(group, "cpuacct.usage", "8000000\n")
        found = {entry.group: entry.throttled_periods for entry in reader.read(["limited", "free"])}
        assert found == {"limited": 9, "free": 4}
        for _ in range(SELDOM):
            found = {entry.group: entry.throttled_periods for entry in reader.read(["limited", "free"])}
        assert found == {"limited": 9, "free": 9}


def test_io_of_an_idle_group_reports_over_how_many_readings_it_grew(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "v2")
    trees.add("pod")
    trees.path("pod", "io.pressure").unlink()  # so that the files are looked for again meanwhile
    written, seen = 0, []
    with CgroupReader(trees.layout) as reader:
        for turn in range(5 * SELDOM):
            written += 100 if turn < 3 * SELDOM else 0
            trees.say("pod", "io.stat", f"8:0 rbytes=0 wbytes={written} rios=0 wios=1\n")
            (counters,) = reader.read(["pod"])
            seen.append((counters.io_written_bytes, counters.io_span))
    grown = [(later[0] - last[0], later[1]) for last, later in pairwise(seen) if later[0] != last[0]]  # type: ignore[operator]
    assert len(grown) >= 3
    assert all(growth == 100 * span for growth, span in grown[:-1])
    assert seen[-1] == (2400, 1)  # stands still, as far as was read


def test_memory_reclaimed_from_a_sleeping_group_is_seen_at_once(tmp_path: Path) -> None:
    """Whoever reclaims would else reclaim again."""
    trees = CgroupTrees(tmp_path, "v2")
    trees.add("pod")
    with CgroupReader(trees.layout) as reader:
        for _ in range(2):
            reader.read(["pod"])
        trees.say("pod", "memory.current", "4000\n")
        assert reader.read(["pod"])[0].memory_bytes == 4000


def test_pressure_is_not_read_again_while_the_machine_has_none(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "v2")
    trees.add("pod")
    with CgroupReader(trees.layout) as reader:
        reader.read(["pod"], ["memory"])  # never read before, so it is read
        trees.say("pod", "memory.pressure", "some total=21\nfull total=11\n")
        assert reader.read(["pod"], ["memory"])[0].pressure == PRESSURE
        assert reader.read(["pod"], ["io"])[0].pressure.memory == Stall(21, 11)
        trees.say("pod", "memory.pressure", "some total=22\nfull total=12\n")
        reader.read([], [])
        # it was left out once: what the machine had since then is not known
        assert reader.read(["pod"], ["memory"])[0].pressure.memory == Stall(22, 12)


def test_every_change_of_every_file_is_eventually_read(tmp_path: Path) -> None:
    """What is taken from the last counters is what the texts would say."""
    trees = CgroupTrees(tmp_path, "hybrid")
    trees.add("pod")
    changes = {
        "cpuacct.usage": "9000000\n",
        "cpu.stat": "nr_periods 11\nnr_throttled 5\nthrottled_time 6000000\n",
        "cpu.cfs_quota_us": "50000\n",
        "memory.usage_in_bytes": "9000000\n",
        "memory.stat": "total_inactive_file 7\ntotal_workingset_refault_file 50\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        "blkio.throttle.io_service_bytes_recursive": "254:0 Read 5\n254:0 Write 6\nTotal 11\n",
        "pids.current": "4\n",
        "cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1600\n",
        "memory.pressure": "some total=21\nfull total=11\n",
        "io.pressure": "some total=41\nfull total=31\n",
    }
    with CgroupReader(trees.layout) as reader:
        for file, text in changes.items():
            trees.say("pod", file, text)
            for _ in range(SELDOM):
                (counters,) = reader.read(["pod"])
            with CgroupReader(trees.layout) as fresh:
                assert fresh.read(["pod"]) == (replace(counters, io_span=1),), file


def test_missing_groups_are_left_out_and_the_others_keep_their_order(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "hybrid")
    for name in ("b", "a"):
        trees.add(name)
    with CgroupReader(trees.layout) as reader:
        found = reader.read(["b", "gone", "../b", "a", "a\0", "\ud800"])
        assert [entry.group for entry in found] == ["b", "a"]
        assert reader.gaps() == ()


@pytest.mark.parametrize(
    ("file", "text", "field"),
    [
        ("cpu.stat", "usage_usec 70", "cpu_us"),
        ("cpu.stat", "", "cpu_us"),
        ("cpu.stat", "usage_usec -5\n", "cpu_us"),
        ("memory.current", "81920", "memory_bytes"),
        ("memory.current", "eight\n", "memory_bytes"),
        ("memory.stat", "file 9\n", "working_set_bytes"),
        ("memory.stat", "inactive_file 19", "working_set_bytes"),
        ("io.stat", "254:0 rbytes=40x6 wbytes=5\n", "io_read_bytes"),
        ("io.stat", "254:0 rbytes=40", "io_read_bytes"),
        ("pids.current", "\x00\n", "tasks"),
        ("cpu.max", "0 0\n", "cpu_m_limit"),
        ("memory.stat", "\xff" * 9000, "refaults"),
    ],
)
def test_garbage_is_unknown_and_reported_once(tmp_path: Path, file: str, text: str, field: str) -> None:
    trees = CgroupTrees(tmp_path, "v2")
    trees.add("pod")
    trees.add("other")
    trees.say("pod", file, text)
    with CgroupReader(trees.layout) as reader:
        for _ in range(3):
            broken, whole = reader.read(["pod", "other"])
        assert getattr(broken, field) is None
        assert broken != whole
        assert whole.cpu_us == 7000
        assert len(reader.gaps()) == 1
        assert file in reader.gaps()[0].needs


@pytest.mark.parametrize("text", ["Total\n", "254:0 Read x\nTotal 5\n", "254:0 Read 5", "??\n"])
def test_garbage_in_v1s_io_file(tmp_path: Path, text: str) -> None:
    trees = CgroupTrees(tmp_path, "v1")
    trees.add("pod")
    trees.say("pod", "blkio.throttle.io_service_bytes_recursive", text)
    with CgroupReader(trees.layout) as reader:
        assert reader.read(["pod"])[0].io_read_bytes is None
        assert "I/O" in {gap.what for gap in reader.gaps()}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "some avg10=0.00 total=5",
        "some total=x\nfull total=1\n",
        "full total=1\n",
        "some\n",
        "some total=5\nfull avg10\n",
    ],
)
def test_garbage_in_a_pressure_file(tmp_path: Path, text: str) -> None:
    trees = CgroupTrees(tmp_path, "v2")
    trees.add("pod")
    trees.say("pod", "memory.pressure", text)
    with CgroupReader(trees.layout) as reader:
        pressure = reader.read(["pod"])[0].pressure
        assert (pressure.memory, pressure.cpu) == (None, PRESSURE.cpu)
        assert [gap.what for gap in reader.gaps()] == ["memory pressure"]


def test_an_empty_io_file_means_no_io(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "v2")
    trees.add("pod")
    trees.say("pod", "io.stat", "")
    with CgroupReader(trees.layout) as reader:
        assert reader.read(["pod"])[0].io_read_bytes == 0
        trees.say("pod", "io.stat", "8:0\n8:16 rbytes=7 wbytes=9\n")
        trees.say("pod", "cpu.stat", "usage_usec 7001\n")
        assert reader.read(["pod"])[0].io_written_bytes == 9
        assert reader.gaps() == ()


def test_an_unreadable_file_affects_only_its_own_field(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "v2")
    trees.add("pod")
    path = trees.path("pod", "memory.stat")
    path.unlink()
    path.mkdir()  # reading it fails, as a file without rights does for others
    with CgroupReader(trees.layout) as reader:
        (counters,) = reader.read(["pod"])
        assert (counters.working_set_bytes, counters.memory_bytes) == (None, 8_192_000)
        assert [gap.what for gap in reader.gaps()] == ["working set"]


def test_a_missing_file_is_looked_for_again(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "v2")
    trees.add("pod")
    trees.path("pod", "memory.current").unlink()
    with CgroupReader(trees.layout) as reader:
        assert reader.read(["pod"])[0].memory_bytes is None
        trees.say("pod", "memory.current", "5\n")
        for _ in range(RETRY):
            found = reader.read(["pod"])
        assert found[0].memory_bytes == 5


def test_counters_that_go_back_are_read_as_they_are(tmp_path: Path) -> None:
    """A reset is the engine's to recognise."""
    trees = CgroupTrees(tmp_path, "v2")
    trees.add("pod")
    with CgroupReader(trees.layout) as reader:
        reader.read(["pod"])
        trees.say("pod", "cpu.stat", "usage_usec 3\n")
        assert reader.read(["pod"])[0].cpu_us == 3


def test_files_that_the_root_lacks_are_no_gap(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "v2")
    for name in ("memory.current", "cpu.max", "pids.current", "io.stat"):
        (tmp_path / name).unlink()
    with CgroupReader(trees.layout) as reader:
        (root,) = reader.read([""])
        assert (root.cpu_us, root.memory_bytes) == (7000, None)
        assert reader.gaps() == ()


def test_a_hybrid_group_that_is_missing_in_the_pressure_tree_is_read_without(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "hybrid")
    trees.add("pod")
    for file in (tmp_path / "unified/pod").iterdir():
        file.unlink()
    (tmp_path / "unified/pod").rmdir()
    with CgroupReader(trees.layout) as reader:
        (counters,) = reader.read(["pod"])
        assert (counters.cpu_us, counters.pressure) == (7000, Pressure())


@pytest.mark.slow
def test_two_hundred_groups_at_once_with_fewer_descriptors(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "v2")
    names = [f"kubepods/pod{i}" for i in range(200)]
    for name in names:
        trees.add(name)
    before = descriptors()
    with CgroupReader(trees.layout, max_open=100) as reader:
        for _ in range(3):
            assert [entry.group for entry in reader.read(names)] == names
            assert descriptors() <= before + 101
        # held ones are not opened again
        opens = reader.opens
        reader.read(names[:10])
        assert reader.opens == opens
    assert descriptors() == before


def test_descriptors_of_groups_no_longer_requested_are_closed(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "v2")
    trees.add("a")
    trees.add("b")
    with CgroupReader(trees.layout) as reader:
        reader.read(["a"])
        alone = descriptors()
        reader.read(["a", "b"])
        assert descriptors() > alone
        for _ in range(IDLE):
            reader.read(["a"])
        assert descriptors() == alone
        # room is made for those that are asked for
        reader.max_open = 12
        assert [entry.group for entry in reader.read(["b"])] == ["b"]
        assert descriptors() == alone


@pytest.mark.parametrize("name", ["a b", "a\nb", "é", "%n%s", "..x", "usage_usec 5", "🐄"])
def test_hostile_names(tmp_path: Path, name: str) -> None:
    trees = CgroupTrees(tmp_path, "hybrid")
    trees.add(name)
    with CgroupReader(trees.layout) as reader:
        assert reader.read([name])[0].cpu_us == 7000
