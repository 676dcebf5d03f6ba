"""CPU time of groups as the sampler reads it, through one open descriptor a group."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from tests.fakes.node.cgroup_trees import KINDS, CgroupTrees
from tests.fakes.node.open_files import descriptors

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.cpu_time import CpuTimes
from cotenant.drivers.cgroup.layout import CgroupLayout, LayoutKind
from cotenant.model.errors import Unsupported


@pytest.mark.parametrize("kind", KINDS)
def test_it_reads_what_the_sampler_reads_on_every_layout(tmp_path: Path, kind: str) -> None:
    trees = CgroupTrees(tmp_path, kind)
    trees.add("pod/main")
    with closing(CpuTimes(trees.layout)) as times, CgroupReader(trees.layout) as reader:
        (counters,) = reader.read(["pod/main"])

        assert times.read(["pod/main", "gone"]) == {"pod/main": counters.cpu_us}


def test_groups_that_are_no_longer_asked_for_are_closed(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "v1")
    trees.add("one")
    trees.add("two")
    before = descriptors()
    with closing(CpuTimes(trees.layout)) as times:
        times.read(["one", "two"])
        both = descriptors()
        times.read(["two"])

        assert descriptors() == both - 1
    assert descriptors() == before


def test_a_group_that_was_made_again_is_read_anew(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "v1")
    with closing(CpuTimes(trees.layout)) as times:
        assert times.read(["pod"]) == {}
        trees.add("pod")
        assert times.read(["pod"]) == {"pod": 7000}
        shutil.rmtree(tmp_path / "cpuacct/pod")
        assert times.read([]) == {}
        assert times.read(["pod"]) == {}


def test_a_machine_without_such_a_tree_has_none() -> None:
    with pytest.raises(Unsupported, match="cpuacct"):
        CpuTimes(CgroupLayout(LayoutKind.V1, (), {}, None))
