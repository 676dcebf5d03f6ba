"""Behaviour that needs a kernel with every controller on cgroup v2."""

from __future__ import annotations

import mmap
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fakes.waiting import eventually
from tests.node.burning import burning

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout, LayoutKind
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.psi.triggers import PressureFiles, PressureResource, TriggerEvent
from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.model.machine.counters import GroupCounters
from cotenant.model.machine.knob import Knob, KnobTarget

MIB = 1 << 20
ROOT = Path("/sys/fs/cgroup")
_HOLD = """
import sys
held = bytearray(int(sys.argv[1]))
for at in range(0, len(held), 4096):
    held[at] = 1
print("on", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def knobs(layout: CgroupLayout) -> Iterator[CgroupKnobs]:
    with CgroupKnobs(layout) as knobs:
        yield knobs


@pytest.fixture
def reader(layout: CgroupLayout) -> Iterator[CgroupReader]:
    with CgroupReader(layout) as reader:
        yield reader


def after(reader: CgroupReader, seconds: float, *names: str) -> list[int]:
    """CPU microseconds that each used in so many seconds of the guest's time."""
    first = reader.read(names)
    time.sleep(seconds)
    last = reader.read(names)
    return [(b.cpu_us or 0) - (a.cpu_us or 0) for a, b in zip(first, last)]


def now(reader: CgroupReader, group: str) -> GroupCounters:
    (counters,) = reader.read([group])
    return counters


def pair(groups: Groups, group: str) -> tuple[str, str]:
    for name in ("a", "b"):
        groups.make(f"{group}/{name}")
    return f"{group}/a", f"{group}/b"


def test_every_controller_is_on_v2(layout: CgroupLayout, knobs: CgroupKnobs, group: str) -> None:
    assert layout.kind is LayoutKind.V2
    assert {layout.version(name) for name in ("cpu", "cpuset", "memory", "io", "pids")} == {2}
    missing = [knobs.supported(knob) for knob in Knob if knob.scope == "cgroup"]
    assert [gap for gap in missing if gap is not None] == []


def test_every_counter_of_a_group_is_known(reader: CgroupReader, group: str) -> None:
    counters = now(reader, group)
    untold = {name for name in counters.__slots__ if getattr(counters, name) is None}
    assert untold == {"run_delay_us", "cycles", "instructions", "cpu_m_limit"}
    assert None not in (counters.pressure.cpu, counters.pressure.memory, counters.pressure.io)
    assert reader.gaps() == ()


def test_the_root_is_read_without_a_gap(reader: CgroupReader) -> None:
    root = now(reader, "")
    assert (root.cpu_us or 0) > 0
    assert root.memory_bytes is None
    assert reader.gaps() == ()


def test_a_quota_bounds_what_a_group_uses(knobs: CgroupKnobs, reader: CgroupReader, groups: Groups, group: str) -> None:
    """How much it gets in how long; an idle guest's clock leaps while its host is busy with others."""
    knobs.write(KnobTarget(group, Knob.CPU_MAX), "20000 100000")
    with burning(groups, group):
        before_us, begin_s = now(reader, group).cpu_us or 0, time.monotonic()

        def used_us() -> int:
            return (now(reader, group).cpu_us or 0) - before_us

        eventually("it has used what ten periods permit", lambda: used_us() > 200_000, 60)
        used, periods = used_us(), 10 * (time.monotonic() - begin_s)
    assert used < 20_000 * (periods + 2), periods
    counters = now(reader, group)
    assert (counters.throttled_periods or 0) >= 8
    assert counters.cpu_m_limit == 200


def test_weights_divide_a_contended_cpu(knobs: CgroupKnobs, reader: CgroupReader, groups: Groups, group: str) -> None:
    light, heavy = pair(groups, group)
    knobs.write(KnobTarget(heavy, Knob.CPU_WEIGHT), "300")
    with burning(groups, light), burning(groups, heavy):
        few, many = after(reader, 1, light, heavy)
    assert 2.5 < many / few < 3.5


def test_an_idle_group_leaves_the_cpu_to_the_other(
    knobs: CgroupKnobs, reader: CgroupReader, groups: Groups, group: str
) -> None:
    idle, busy = pair(groups, group)
    knobs.write(KnobTarget(idle, Knob.CPU_IDLE), "1")
    assert (ROOT / idle / "cpu.weight").read_text() == "0\n"  # below what may be written
    with burning(groups, idle), burning(groups, busy):
        little, most = after(reader, 1, idle, busy)
    assert little < 0.05 * most


def test_a_child_may_have_a_larger_quota_than_its_parent(knobs: CgroupKnobs, groups: Groups, group: str) -> None:
    """v1 refuses that."""
    child, _ = pair(groups, group)
    knobs.write(KnobTarget(group, Knob.CPU_MAX), "20000 100000")
    knobs.write(KnobTarget(child, Knob.CPU_MAX), "50000 100000")
    knobs.write(KnobTarget(group, Knob.CPU_MAX), "10000 100000")
    assert knobs.read(KnobTarget(child, Knob.CPU_MAX)) == "50000 100000"


def test_a_cpuset_that_was_empty_follows_its_parent_again(
    knobs: CgroupKnobs, reader: CgroupReader, groups: Groups, group: str
) -> None:
    """The kernel takes no "" while tasks are in it; every CPU means the same."""
    cpus = KnobTarget(group, Knob.CPUSET_CPUS)
    raw = knobs.raw(cpus)
    with burning(groups, group):
        knobs.write(cpus, "0")
        with pytest.raises(OSError, match="No space"):
            (ROOT / group / "cpuset.cpus").write_text("\n")
        knobs.restore(cpus, raw)
        assert (ROOT / group / "cpuset.cpus").read_text() == Path("/sys/devices/system/cpu/possible").read_text()
        (used_us,) = after(reader, 0.1, group)
    assert used_us > 50_000
    knobs.restore(cpus, raw)
    assert knobs.raw(cpus) == raw
    with pytest.raises(InvalidInput, match="CPUs that this machine has"):
        knobs.write(cpus, "0-8000")


def test_a_controller_that_the_parent_does_not_delegate_is_named(
    knobs: CgroupKnobs, groups: Groups, group: str
) -> None:
    inner = f"{group}/kept"
    (ROOT / inner).mkdir()
    with pytest.raises(Unsupported, match=r"memory in cgroup\.subtree_control"):
        knobs.write(KnobTarget(inner, Knob.MEMORY_HIGH), "max")
    # made again by us, it has them all
    groups.make(inner)
    assert knobs.read(KnobTarget(inner, Knob.MEMORY_HIGH)) == "max"


def test_a_parent_with_processes_does_not_delegate_memory(knobs: CgroupKnobs, groups: Groups, group: str) -> None:
    with burning(groups, group):
        groups.make(f"{group}/in")
        with pytest.raises(Unsupported, match=r"cgroup\.subtree_control"):
            knobs.read(KnobTarget(f"{group}/in", Knob.MEMORY_MAX))


def hold(groups: Groups, group: str, size: int) -> subprocess.Popen[bytes]:
    """A process in the group that touches so much memory and keeps it."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys\nsys.stdin.readline()\n{_HOLD}", str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    groups.move(process.pid, group)
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    return process


def over(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for end in (process.stdin, process.stdout):
        if end is not None:
            end.close()


def test_exceeding_memory_max_is_killed_and_counted(
    knobs: CgroupKnobs, reader: CgroupReader, groups: Groups, group: str
) -> None:
    knobs.write(KnobTarget(group, Knob.MEMORY_MAX), str(24 * MIB))
    process = hold(groups, group, 64 * MIB)
    try:
        assert process.wait(60) == -9
    finally:
        over(process)
    assert now(reader, group).oom_kills == 1


@pytest.fixture
def cached(groups: Groups, group: str) -> Iterator[str]:
    """The group has 16 MiB of the disk in its page cache."""
    reading = (
        "import sys\nsys.stdin.readline()\nf = open('/dev/vda', 'rb')\n"
        "for _ in range(16):\n    f.read(1 << 20)\nprint('on', flush=True)\nsys.stdin.readline()"
    )
    process = subprocess.Popen([sys.executable, "-c", reading], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        groups.move(process.pid, group)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        yield group
    finally:
        over(process)


def test_reclaim_takes_page_cache_back(knobs: CgroupKnobs, reader: CgroupReader, cached: str) -> None:
    before = now(reader, cached)
    assert before.memory_bytes is not None
    assert before.memory_bytes > 15 * MIB
    # what was read once is inactive, so it is not part of the working set
    assert before.working_set_bytes is not None
    assert before.working_set_bytes < before.memory_bytes - 12 * MIB
    knobs.write(KnobTarget(cached, Knob.MEMORY_RECLAIM), str(8 * MIB))
    left = now(reader, cached).memory_bytes
    assert left is not None
    assert left < before.memory_bytes - 7 * MIB
    # more than there is: done as far as it goes
    knobs.write(KnobTarget(cached, Knob.MEMORY_RECLAIM), str(1 << 30))


def test_memory_high_throttles_a_group(knobs: CgroupKnobs, reader: CgroupReader, cached: str) -> None:
    before = now(reader, cached).memory_bytes
    assert before is not None
    knobs.write(KnobTarget(cached, Knob.MEMORY_HIGH), str(8 * MIB))
    after_it = now(reader, cached).memory_bytes
    assert after_it is not None
    assert after_it < before - 4 * MIB


def test_memory_min_protects_from_reclaim(knobs: CgroupKnobs, reader: CgroupReader, cached: str) -> None:
    """Protection counts for reclaim from above; the parents must grant it too."""
    parent = cached.split("/")[0]
    for name in (parent, cached):
        knobs.write(KnobTarget(name, Knob.MEMORY_MIN), str(256 * MIB))
    before = now(reader, cached).memory_bytes
    knobs.write(KnobTarget(parent, Knob.MEMORY_RECLAIM), str(8 * MIB))
    kept = now(reader, cached).memory_bytes
    assert before is not None
    assert kept is not None
    assert kept > before - MIB
    for name in (parent, cached):
        knobs.write(KnobTarget(name, Knob.MEMORY_MIN), "0")
    knobs.write(KnobTarget(parent, Knob.MEMORY_RECLAIM), str(8 * MIB))
    freed = now(reader, cached).memory_bytes
    assert freed is not None
    assert freed < before - 4 * MIB


def seconds_of(act: Callable[[], object]) -> float:
    begin_s = time.monotonic()
    act()
    return time.monotonic() - begin_s


def test_io_max_bounds_reading_and_io_is_counted(
    knobs: CgroupKnobs, reader: CgroupReader, groups: Groups, group: str, disk: int
) -> None:
    device = Path("/sys/block/vda/dev").read_text().strip()
    buffer = mmap.mmap(-1, 256 << 10)
    home = "cotenant-test-home"
    groups.make(home)
    try:
        groups.move(0, group)
        free_s = min(seconds_of(lambda: os.preadv(disk, [buffer], 0)) for _ in range(5))  # the host may be late
        knobs.write(KnobTarget(group, Knob.IO_MAX), f"{device} rbps={256 << 10}")
        before, begin = now(reader, group), time.monotonic()
        for number in range(3):
            os.preadv(disk, [buffer], number * (256 << 10))
        bound_s = time.monotonic() - begin
        counters = now(reader, group)
    finally:
        (ROOT / "cgroup.procs").write_text(str(os.getpid()))
        groups.remove(home)
    assert counters.io_read_bytes is not None
    assert before.io_read_bytes is not None
    assert counters.io_read_bytes - before.io_read_bytes == 768 << 10
    assert bound_s > 1.8
    assert free_s < bound_s / 8
    assert counters.pressure.io is not None
    assert counters.pressure.io.some_us > 1_000_000


def test_a_trigger_of_one_second_fires_within_half_a_second(layout: CgroupLayout, groups: Groups, group: str) -> None:
    """With CAP_SYS_RESOURCE the kernel looks ten times a window, not every two seconds."""
    files = PressureFiles(layout)
    with files.trigger(group, PressureResource.CPU, 50_000, 1_000_000) as trigger, select.epoll() as loop:
        assert trigger.window_us == 1_000_000
        loop.register(trigger.fileno(), select.EPOLLIN)
        with burning(groups, group, 2):
            begin = time.monotonic()
            assert loop.poll(20)
            waited_s = time.monotonic() - begin
            assert trigger.take() is TriggerEvent.STALLED
    files.close()
    assert waited_s < 0.5


def test_a_memory_trigger_fires_under_memory_pressure(
    layout: CgroupLayout, knobs: CgroupKnobs, groups: Groups, group: str
) -> None:
    files = PressureFiles(layout)
    knobs.write(KnobTarget(group, Knob.MEMORY_HIGH), str(16 * MIB))
    with files.trigger(group, PressureResource.MEMORY, 20_000, 1_000_000, full=True) as trigger, select.epoll() as loop:
        loop.register(trigger.fileno(), select.EPOLLIN)
        process = hold(groups, group, 40 * MIB)
        try:
            assert loop.poll(60)
            assert trigger.take() is TriggerEvent.STALLED
        finally:
            over(process)
    files.close()


@pytest.mark.parametrize("name", ["a b", "é/ü", "%s%n", "..x", "-rf", "🐄", "'\"\\", " "])
def test_hostile_names(knobs: CgroupKnobs, reader: CgroupReader, groups: Groups, group: str, name: str) -> None:
    inside = f"{group}/{name}"
    groups.make(inside)
    knobs.write(KnobTarget(inside, Knob.CPU_MAX), "20000 100000")
    assert now(reader, inside).cpu_m_limit == 200
    with burning(groups, inside) as pids:
        assert groups.pids(inside) == pids
        groups.kill(inside)


def test_the_kernel_refuses_a_line_feed_in_a_name(groups: Groups, group: str) -> None:
    with pytest.raises(InvalidInput, match="group"):
        groups.make(f"{group}/a\nb")
    assert groups.children(group) == ()


def test_hundreds_of_groups_at_once(groups: Groups, reader: CgroupReader, group: str) -> None:
    names = [f"{group}/pod{number}" for number in range(200)]
    groups.make(names[0])
    for name in names[1:]:
        (ROOT / name).mkdir()
    found = reader.read(names)
    assert [entry.group for entry in found] == names
    assert all(entry.cpu_us == 0 for entry in found)
    assert len(groups.walk(group).groups) == 200
    groups.remove(group)
    assert reader.read(names) == ()
