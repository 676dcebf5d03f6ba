"""Performance events of this machine's groups. Missing counters are reported as gaps."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.fakes.node.open_files import descriptors
from tests.fakes.waiting import patience

from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.perf.group_events import GroupCycles, GroupEvents
from cotenant.drivers.perf.opening import PerfEvent
from cotenant.model.errors import Unsupported

EVENTS = (PerfEvent.TASK_CLOCK, PerfEvent.CONTEXT_SWITCHES, PerfEvent.PAGE_FAULTS, PerfEvent.MIGRATIONS)
WORK = """
import sys, time
sys.stdin.readline()
pages = [bytearray(1 << 20) for _ in range(20)]
for _ in range(50):
    time.sleep(0.001)
"""


@pytest.fixture
def root(layout: CgroupLayout) -> str:
    hierarchy = layout.by_controller.get("perf_event") or layout.unified
    if hierarchy is None:
        pytest.skip("no cgroup tree for performance events")
    return hierarchy.path


@pytest.fixture
def work(groups: Groups, group: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", WORK], stdin=subprocess.PIPE) as process:
        groups.move(process.pid, group)
        yield process
        process.kill()


def events(root: str) -> GroupEvents:
    try:
        return GroupEvents(root, EVENTS)
    except Unsupported as error:
        pytest.skip(str(error))


def test_only_the_groups_own_events_are_counted(
    root: str, group: str, groups: Groups, work: subprocess.Popen[bytes]
) -> None:
    other = f"{group}/other"
    groups.make(other)
    with closing(events(root)) as counters:
        assert counters.read((other,)) == {other: (0, 0, 0, 0)}
        counters.read((group, other))
        work.communicate(b"\n", timeout=patience(60))
        found = counters.read((group, other))
        clock_ns, switches, faults, _ = found[group]
        assert clock_ns > 0
        assert switches >= 50
        assert faults >= 20 * (1 << 20) // 4096 // 512  # huge pages at the least
        assert found[other] == (0, 0, 0, 0)
        assert counters.gaps() == ()


def test_counters_of_gone_or_unrequested_groups_are_closed(root: str, group: str, groups: Groups) -> None:
    part = f"{group}/part"
    groups.make(part)
    before = descriptors()
    with closing(events(root)) as counters:
        assert counters.read((part, f"{group}/never")).keys() == {part}
        groups.remove(part)
        assert counters.read((part,)) == {}
        counters.watch((group,))
        assert counters.read((group, "", part)).keys() == {group}
        counters.watch(())
        assert counters.read((group,)) == {}
        assert descriptors() == before


def test_cycles_and_instructions_are_counted_where_there_is_a_pmu(
    root: str, group: str, work: subprocess.Popen[bytes]
) -> None:
    try:
        source = GroupCycles(root)
    except Unsupported as error:
        pytest.skip(str(error))
    with closing(source):
        source.read((group,))
        work.communicate(b"\n", timeout=patience(60))
        cycles, instructions = source.read((group,))[group]
        assert cycles > 0
        assert instructions > 0
