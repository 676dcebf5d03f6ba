"""Slices of tasks in real groups: set, inherited, given back; tasks with a slice or a class of their own are left
alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.slices import TaskSlices
from cotenant.drivers.cgroup.tree import Groups

SLICE_US = 50_000
# A process that has a child whenever it is asked to, and says its number.
_PARENT = (
    "import os, sys\nfor _ in sys.stdin:\n    pid = os.fork()\n    if pid == 0:\n        import time; "
    "time.sleep(60)\n    print(pid, flush=True)\n"
)
Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def slices(layout: CgroupLayout) -> Iterator[TaskSlices]:
    found = TaskSlices(layout, SLICE_US)
    if found.gap is not None:
        found.close()
        pytest.skip(f"needs {found.gap.needs}")
    yield found
    found.close()


@pytest.fixture
def start(layout: CgroupLayout, groups: Groups, group: str) -> Iterator[Start]:
    """Starts a process in a group below `group`."""
    started: list[subprocess.Popen[str]] = []

    def begin(name: str) -> subprocess.Popen[str]:
        if not groups.exists(f"{group}/{name}"):
            groups.make(f"{group}/{name}")
        process = subprocess.Popen(
            [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        tree = Path(layout.by_controller["cpu"].path)
        (tree / group / name / "cgroup.procs").write_text(str(process.pid))
        return process

    yield begin
    groups.kill(group)
    for process in started:
        process.kill()
        process.communicate()


def fork(process: subprocess.Popen[str]) -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def test_tasks_at_and_below_a_group_follow_their_forks_inherit_and_all_is_given_back(
    slices: TaskSlices, start: Start, group: str
) -> None:
    usual = slices.slice_us(0)
    process = start("container")
    assert slices.follow([group]) == 1
    child = fork(process)
    assert [slices.slice_us(pid) for pid in (process.pid, child)] == [SLICE_US, SLICE_US]
    assert slices.follow([group]) == 0  # nothing is left to do
    later = start("later")
    assert slices.slice_us(later.pid) == usual
    assert slices.follow([group]) == 1
    assert slices.follow([]) == 3
    assert {slices.slice_us(pid) for pid in (process.pid, child, later.pid)} == {usual}


def test_a_slice_or_a_class_of_its_own_is_left_alone(
    layout: CgroupLayout, slices: TaskSlices, start: Start, group: str
) -> None:
    own, idle = start("own"), start("idle")
    other = TaskSlices(layout, 3_000)
    assert other.follow([f"{group}/own"]) == 1
    os.sched_setscheduler(idle.pid, os.SCHED_IDLE, os.sched_param(0))
    assert slices.follow([group]) == 0
    assert (slices.slice_us(own.pid), slices.slice_us(idle.pid)) == (3_000, None)
    other.close()


def test_groups_that_do_not_exist_have_no_tasks(slices: TaskSlices, group: str) -> None:
    assert slices.follow([f"{group}/gone"]) == 0
    assert slices.follow([]) == 0
