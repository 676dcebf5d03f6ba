from pathlib import Path

import pytest
from tests.fakes.node.cgroup_trees import CgroupTrees

from cotenant.drivers.cgroup.schedstat import DEEPEST, RunDelayReader
from cotenant.model.errors import Unsupported

SECOND = 1_000_000


class World:
    """Tasks of groups, and how long each has waited."""

    def __init__(self, root: Path, kind: str) -> None:
        self.trees = CgroupTrees(root / "cg", kind)
        self.proc = root / "proc"
        self.waits(0, "self")
        self.list = "cgroup.threads" if kind == "v2" else "tasks"
        self.now_us = 0

    def holds(self, group: str, *tasks: int) -> None:
        self.trees.add(group)
        self.trees.say(group, self.list, "".join(f"{task}\n" for task in tasks))

    def waits(self, us: int, *tasks: int | str) -> None:
        for task in tasks:
            (self.proc / str(task)).mkdir(parents=True, exist_ok=True)
            (self.proc / str(task) / "schedstat").write_text(f"900 {us * 1000} 3\n")

    def reader(self, **more: int) -> RunDelayReader:
        return RunDelayReader(self.trees.layout, str(self.proc), **more)

    def read(self, reader: RunDelayReader, *groups: str) -> dict[str, int]:
        self.now_us += SECOND
        return dict(reader.read(groups, self.now_us))


@pytest.fixture(params=["v1", "v2"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(tmp_path, request.param)


def test_a_group_waits_as_long_as_its_tasks_and_those_below_it(world: World) -> None:
    world.holds("pod", 1)
    world.holds("pod/main", 2, 3)
    world.waits(5000, 1, 2, 3)
    reader = world.reader()
    assert world.read(reader, "pod", "pod/main") == {"pod": 0, "pod/main": 0}
    world.waits(5100, 1)
    world.waits(5020, 2)
    world.waits(5003, 3)
    assert world.read(reader, "pod", "pod/main") == {"pod": 123, "pod/main": 23}
    assert world.read(reader, "pod/main", "pod") == {"pod": 123, "pod/main": 23}
    assert reader.gaps() == ()


def test_the_sum_does_not_fall_when_tasks_end(world: World) -> None:
    world.holds("pod", 1, 2)
    world.waits(10, 1, 2)
    reader = world.reader()
    world.read(reader, "pod")
    world.waits(60, 1, 2)
    assert world.read(reader, "pod") == {"pod": 100}
    world.holds("pod", 2)
    assert world.read(reader, "pod") == {"pod": 100}
    world.waits(61, 2)
    assert world.read(reader, "pod") == {"pod": 101}


def test_a_container_that_ends_leaves_its_pods_sum(world: World) -> None:
    world.holds("pod/main", 2)
    world.waits(10, 2)
    reader = world.reader()
    world.read(reader, "pod")
    world.waits(60, 2)
    assert world.read(reader, "pod") == {"pod": 50}
    world.trees.remove("pod/main")
    assert world.read(reader, "pod", "pod/main") == {"pod": 50}


def test_a_new_task_counts_from_its_start(world: World) -> None:
    world.holds("pod", 1)
    world.waits(0, 1)
    reader = world.reader()
    world.read(reader, "pod")
    world.holds("pod", 1, 2)
    world.waits(700, 2)
    assert world.read(reader, "pod") == {"pod": 700}


def test_a_task_that_moved_in_counts_from_its_move(world: World) -> None:
    world.holds("a", 1)
    world.holds("b", 2)
    world.waits(100, 1, 2)
    reader = world.reader()
    world.read(reader, "a", "b")
    world.holds("a")
    world.holds("b", 1, 2, 3)
    world.waits(130, 1)
    world.waits(60 * SECOND, 3)  # older than the last reading: it was somewhere else
    assert world.read(reader, "a", "b") == {"a": 0, "b": 30}


def test_a_reused_task_number_is_another_task(world: World) -> None:
    world.holds("pod", 1)
    world.waits(5000, 1)
    reader = world.reader()
    world.read(reader, "pod")
    world.waits(20, 1)
    assert world.read(reader, "pod") == {"pod": 20}


@pytest.mark.parametrize("text", ["", "garbage\n", "1 x 3\n", "1 2\n", "1 -2 3\n"])
def test_garbage_is_ignored(world: World, text: str) -> None:
    world.holds("pod", 1, 2)
    world.trees.path("pod", world.list).write_text("1\n2\nnone\n-4\n99\n")
    world.waits(10, 1, 2)
    reader = world.reader()
    world.read(reader, "pod")
    world.waits(30, 2)
    (world.proc / "1/schedstat").write_text(text)
    assert world.read(reader, "pod") == {"pod": 20}


def test_more_tasks_than_the_limit_is_a_gap(world: World) -> None:
    world.holds("pod", 1, 2, 3)
    world.waits(10, 1, 2, 3)
    reader = world.reader(max_tasks=3)
    world.read(reader, "pod")
    world.waits(15, 1, 2, 3)
    assert world.read(reader, "pod") == {"pod": 10}
    assert "more than 3 tasks" in reader.gaps()[0].needs


def test_groups_that_are_gone_are_left_out_and_forgotten(world: World) -> None:
    world.holds("pod", 1)
    world.waits(10, 1)
    reader = world.reader()
    world.read(reader, "pod")
    world.waits(20, 1)
    world.read(reader, "pod")
    world.trees.remove("pod")
    assert world.read(reader, "pod", "never", "..") == {}


def test_a_kernel_without_schedstat(world: World) -> None:
    (world.proc / "self/schedstat").unlink()
    assert "CONFIG_SCHED_INFO" in world.reader().gaps()[0].needs
    with pytest.raises(Unsupported):
        RunDelayReader(world.trees.layout, str(world.proc / "absent"))


def test_the_depth_of_nested_groups_is_bounded(world: World) -> None:
    world.holds("/".join("g" * (DEEPEST + 1)), 1)
    world.holds("/".join("g" * (DEEPEST + 2)), 2)
    world.waits(5, 1, 2)
    reader = world.reader()
    world.read(reader, "g")
    world.waits(9, 1, 2)
    assert world.read(reader, "g") == {"g": 4}
