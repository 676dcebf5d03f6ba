"""Optional hardware classes over fake trees, devices and libraries: programs are moved into the existing classes,
and out again.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes.node.fake_resctrl import FakeResctrl
from tests.fakes.node.fake_traffic import FakeTraffic

from cotenant.drivers.resctrl.hardware import read_hardware
from cotenant.drivers.resctrl.members import members
from cotenant.drivers.tc.knobs import HANDLE, MINORS, TcKnobs, priority_of
from cotenant.drivers.tc.netlink import TrafficClass
from cotenant.engine.node.policies import PolicySettings
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import Unsupported
from cotenant.model.machine.knob import Knob, KnobTarget, Vanished
from cotenant.model.machine.node_pod import NodePod
from cotenant.policy.nodeqos.io.network import NetworkConfig
from cotenant.policy.nodeqos.memory.cache import CacheConfig
from cotenant.services.agent.actions.hardware_classes import CacheClasses, Uplink

WEB = NodePod("u1", "shop", "web", "pods/web", qos=QoSClass.LS)
JOB = NodePod("u2", "jobs", "one", "pods/job", qos=QoSClass.BE)
POD = NodePod("u3", "jobs", "two", "pods/two", qos=QoSClass.BE, addresses=("10.0.0.7",))
RATE = KnobTarget("up0/be", Knob.RATE)
SHAPED = PolicySettings(network=NetworkConfig(device="up0", link_bits=1_000_000_000))


class Tasks:
    """Threads by group; meets what is asked of drivers/cgroup/tree.Groups."""

    def __init__(self, **tasks: tuple[int, ...]) -> None:
        self.tasks = {f"pods/{name.replace('_', '/')}": found for name, found in tasks.items()}

    def walk(self, group: str, most: int) -> SimpleNamespace:
        return SimpleNamespace(groups=tuple(name for name in self.tasks if name.startswith(group + "/")))

    def threads(self, group: str) -> tuple[int, ...]:
        if group not in self.tasks:
            raise Vanished(f"/{group}: no such group")
        return self.tasks[group]


class Marks:
    """Meets drivers/tc/priority.PriorityMarks."""

    def __init__(self) -> None:
        self.marked: dict[str, int] = {}

    def groups(self) -> dict[str, int]:
        return dict(self.marked)

    def mark(self, group: str, priority: int) -> None:
        self.marked[group] = priority

    def clear(self, group: str) -> None:
        self.marked.pop(group, None)

    def close(self) -> None:
        self.marked.clear()


@pytest.fixture
def tree(tmp_path: Path) -> FakeResctrl:
    return FakeResctrl(tmp_path / "resctrl")


def classes(tree: FakeResctrl, tasks: Any) -> tuple[CacheClasses, PolicySettings]:
    return CacheClasses(tree, tasks), PolicySettings(cache=CacheConfig(hardware=read_hardware(tree)))


def test_only_best_effort_tasks_are_moved_into_the_existing_class(tree: FakeResctrl) -> None:
    placer, policies = classes(tree, Tasks(web=(100,), job=(101,), job_container=(102, 103)))
    placer.place((WEB, JOB), policies)
    assert 101 in members(tree, "")  # no class stands: the keeper has not made it yet
    tree.make("BE")
    placer.place((WEB, JOB), policies)
    assert members(tree, "BE") == {101, 102, 103}
    assert 100 in members(tree, "")


def test_a_pod_no_longer_best_effort_goes_back_and_foreign_groups_are_left_alone(tree: FakeResctrl) -> None:
    placer, policies = classes(tree, Tasks(web=(100,), job=(101,)))
    tree.make("BE")
    tree.make("somebodys")
    tree.write("somebodys", "tasks", "100\n")
    placer.place((WEB, JOB), policies)
    placer.place((WEB, NodePod("u2", "jobs", "one", "pods/job", qos=QoSClass.LS)), policies)
    assert members(tree, "BE") == frozenset()
    assert 101 in members(tree, "")
    assert members(tree, "somebodys") == {100}


def test_a_vanished_group_does_not_affect_the_others(tree: FakeResctrl) -> None:
    placer, policies = classes(tree, Tasks(job=(101,)))
    tree.make("BE")
    placer.place((POD, JOB), policies)
    assert members(tree, "BE") == {101}


def test_use_of_the_existing_classes(tree: FakeResctrl) -> None:
    placer, _ = classes(tree, Tasks())
    tree.make("BE")
    (tree.root / "BE/mon_data/mon_L3_00/llc_occupancy").write_text("4096\n")
    assert {use.group: use.occupancy_bytes for use in placer.use()} == {"": 0, "BE": 4096}


def uplink() -> tuple[Uplink, TcKnobs, FakeTraffic, Marks]:
    traffic, marks = FakeTraffic("up0"), Marks()
    knobs = TcKnobs(traffic)
    return Uplink(knobs, marks), knobs, traffic, marks  # type: ignore[arg-type]


def test_programs_are_marked_and_pods_are_steered_while_the_class_exists() -> None:
    placer, knobs, traffic, marks = uplink()
    placer.place((WEB, JOB, POD), SHAPED)
    assert marks.marked == {}
    assert placer.best_effort_sent_bytes() is None
    raw = knobs.raw(RATE)
    knobs.write(RATE, "1000000 500000000")
    placer.place((WEB, JOB, POD), SHAPED)
    assert marks.marked == {"pods/job": priority_of("be")}
    assert [str(address) for address in traffic.sources["up0"][MINORS["be"]]] == ["10.0.0.7"]
    stands = traffic.held["up0"][MINORS["be"]]
    traffic.held["up0"][MINORS["be"]] = TrafficClass(stands.minor, HANDLE | 1, 8000, 8000, sent_bytes=777)
    assert placer.best_effort_sent_bytes() == 777
    placer.place((WEB,), SHAPED)
    assert marks.marked == {}
    assert traffic.sources["up0"][MINORS["be"]] == ()
    placer.place((JOB,), SHAPED)
    knobs.restore(RATE, raw)
    placer.place((JOB,), SHAPED)
    assert marks.marked == {}


def test_switched_off_nothing_is_marked() -> None:
    placer, knobs, _, marks = uplink()
    knobs.write(RATE, "1000000 500000000")
    placer.place((JOB,), SHAPED)
    placer.place((JOB,), PolicySettings())
    assert marks.marked == {}
    assert placer.best_effort_sent_bytes() is None


def test_without_a_v2_tree_programs_cannot_be_classified() -> None:
    knobs = TcKnobs(FakeTraffic("up0"))
    knobs.write(RATE, "1000000 500000000")
    placer = Uplink(knobs, None)
    placer.place((POD,), SHAPED)
    with pytest.raises(Unsupported, match="cgroup v2"):
        placer.place((JOB,), SHAPED)
