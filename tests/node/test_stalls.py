"""The probe of waits in this kernel: a task that waits for its disk is found with who ended its wait, a group at its
memory limit by its reclaim, and the kernel says what the probe costs. Skipped where the object is not built or not
accepted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Set
from pathlib import Path

import pytest
from tests.fakes.waiting import eventually

from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.ebpf.cost import costs, timed
from cotenant.drivers.ebpf.stalls import StallTracer
from cotenant.model.errors import Unsupported
from cotenant.model.machine.stalls import GroupStalls, LongWait, StallKind

pytestmark = pytest.mark.slow

# Joins the groups, then writes past the page cache until it is killed.
WRITER = """
import mmap, os, sys
for procs in sys.argv[2:]:
    open(procs, "w").write(str(os.getpid()))
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
page = mmap.mmap(-1, 1 << 20)
print("ready", flush=True)
while True:
    os.lseek(file, 0, os.SEEK_SET)
    os.write(file, page)
    os.fsync(file)
"""


@pytest.fixture
def probe() -> Iterator[StallTracer]:
    try:
        tree = detect().by_controller["cpu"]
        stalls = StallTracer(tree.path, tree.version, long_us=1)
    except (Unsupported, KeyError) as error:
        pytest.skip(f"no probe of waits here: {error}")
    with stalls:
        yield stalls


@pytest.fixture
def group() -> Iterator[tuple[str, Path]]:
    """A group of the CPU controller's tree: its name and its cgroup.procs."""
    folder = Path(detect().by_controller["cpu"].path, f"cotenant-test-stalls-{os.getpid()}")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no group can be made: {error}")
    yield folder.name, folder / "cgroup.procs"
    remove(folder)


def remove(folder: Path) -> None:
    """Once its tasks are gone: a kernel may count one that is not listed any more."""

    def removed() -> bool:
        folder.rmdir()
        return True

    eventually("its tasks are gone", removed, tolerated=(OSError,))


def of_group(probe: StallTracer, name: str) -> GroupStalls:
    """The group in a reading; empty where it has no wait and no task that counts."""
    return next((group for group in probe.read().groups if group.group == name), GroupStalls(name))


def long_waits(probe: StallTracer, name: str, kind: StallKind, functions: Set[str] = frozenset()) -> list[LongWait]:
    """Those of the group, at least one, one of them in one of the `functions`. What the rest of the machine waited
    meanwhile may have filled the ring, so it is read until a wait was written into the room that reading made.
    """
    kept: list[LongWait] = []

    def found() -> bool:
        kept.extend(wait for wait in probe.long_waits() if wait.group == name and wait.kind is kind)
        return any(not functions or functions & set(wait.stack) for wait in kept)

    eventually("its long waits are written", found)
    return kept


def test_a_writer_is_found_with_its_waits_and_where_it_waited(
    probe: StallTracer, group: tuple[str, Path], tmp_path: Path
) -> None:
    name, procs = group
    target = tmp_path / "written"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(target), str(procs)], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        if first != b"ready\n":
            pytest.skip("this file system has no direct I/O")
        eventually("its waits are counted", lambda: of_group(probe, name).blocked.count > 20)
        eventually(
            "its task is seen", lambda: of_group(probe, name).uninterruptible + of_group(probe, name).runnable > 0
        )
        found = of_group(probe, name)
        assert found.blocked.sum_us > 0
        # the kernel leaves the scheduler's own frames out of a sleeper's stack
        waits = long_waits(probe, name, StallKind.BLOCKED, {"vfs_write", "do_fsync"})
        assert all(wait.pid == writer.pid or wait.command for wait in waits)
        assert all(wait.waker for wait in waits)
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()  # type: ignore[union-attr]
    later = of_group(probe, name)
    assert later.blocked.count >= found.blocked.count
    assert sum(later.blocked.buckets) == later.blocked.count  # the kernel counts one after the other


# Joins the groups, then writes and reads a file that is larger than its memory: pages are those of who had them first.
READER = """
import os, sys
for procs in sys.argv[2:]:
    open(procs, "w").write(str(os.getpid()))
print("ready", flush=True)
with open(sys.argv[1], "wb", buffering=0) as file:
    for _ in range(64):
        file.write(bytes(1 << 20))
while True:
    with open(sys.argv[1], "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
"""


def test_a_group_at_its_memory_limit_is_found_by_its_reclaim(
    probe: StallTracer, group: tuple[str, Path], tmp_path: Path
) -> None:
    name, procs = group
    tree = detect().by_controller.get("memory")
    if tree is None:
        pytest.skip("no memory controller")
    folder = Path(tree.path, name)
    made = not folder.exists()
    try:
        folder.mkdir(exist_ok=True)
        limit = folder / ("memory.max" if tree.version == 2 else "memory.limit_in_bytes")
        limit.write_text(str(32 << 20))
    except OSError as error:
        pytest.skip(f"no memory limit can be set: {error}")
    target = tmp_path / "read"
    command = [sys.executable, "-c", READER, str(target), str(procs), str(folder / "cgroup.procs")]
    reader = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert reader.stdout is not None
        reader.stdout.readline()
        eventually("its reclaim is counted", lambda: of_group(probe, name).reclaim.count > 5)
        assert of_group(probe, name).reclaim.sum_us > 0
        waits = long_waits(probe, name, StallKind.RECLAIM)
        assert {wait.pid for wait in waits} == {wait.waker_pid for wait in waits} == {reader.pid}
    finally:
        reader.kill()
        reader.wait()
        reader.stdout.close()  # type: ignore[union-attr]
        found = of_group(probe, name).reclaim
        if made:
            remove(folder)
    assert sum(found.buckets) == found.count  # the kernel counts one after the other


# Two processes wake each other 10,000 times: one writes only what the other has answered, so that each must sleep.
SWITCHER = """
import os
here, there = os.pipe(), os.pipe()
asks = os.fork()
reads, writes = (here[0], there[1]) if asks else (there[0], here[1])
for _ in range(10_000):
    if asks:
        os.write(writes, b"x")
    os.read(reads, 1)
    if not asks:
        os.write(writes, b"x")
"""


def test_the_kernel_says_what_the_probe_costs(probe: StallTracer) -> None:
    with timed():
        before = {cost.name: cost for cost in costs(probe)}
        begun_s = time.monotonic()
        # A machine with nothing to do may switch less than a hundred times a second.
        subprocess.run([sys.executable, "-c", SWITCHER], check=True)
        after = {cost.name: cost for cost in costs(probe)}
        length_s = time.monotonic() - begun_s
    spent_ns = sum(after[name].run_ns - before[name].run_ns for name in after)
    runs = sum(after[name].runs - before[name].runs for name in after)
    assert after["on_switch"].runs - before["on_switch"].runs > 10_000
    assert after["on_waking"].runs - before["on_waking"].runs > 1_000  # a write may find the other awake
    assert spent_ns > 0
    share = spent_ns / 1e7 / length_s
    print(f"{spent_ns / runs:.0f} ns a run, {runs / length_s:.0f} runs a second: {share:.3f} % of a core")


def test_a_probe_is_gone_after_its_end(probe: StallTracer) -> None:
    descriptors = [descriptor for _, descriptor in probe.programs()]
    probe.close()
    probe.close()
    for descriptor in descriptors:
        with pytest.raises(OSError, match="fdinfo"):
            Path(f"/proc/self/fdinfo/{descriptor}").read_text()
