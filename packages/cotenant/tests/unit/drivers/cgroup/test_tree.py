from pathlib import Path

import pytest
from tests.fakes.node.cgroup_trees import KINDS, CgroupTrees

from cotenant.drivers.cgroup.tree import DEEPEST, Groups
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Vanished


def test_listing_and_walking(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "hybrid")
    for name in ("pods/a/x", "pods/b", "system\nslice"):
        trees.add(name)
    with Groups(trees.layout) as groups:
        assert groups.children("") == ("pods", "system\nslice")
        assert groups.walk().groups == ("pods", "system\nslice", "pods/a", "pods/b", "pods/a/x")
        assert groups.walk("pods", most=2) == groups.walk("pods", most=2)
        assert (groups.walk("pods", most=2).groups, groups.walk("pods", most=2).cut) == (("pods/a", "pods/b"), True)
        assert (groups.walk("pods", most=3).groups, groups.walk("pods", most=3).cut) == (
            ("pods/a", "pods/b", "pods/a/x"),
            False,
        )
        assert groups.walk("gone").groups == ()
        for act in (groups.children, groups.pids, groups.threads):
            with pytest.raises(Vanished, match="gone"):
                act("gone")


@pytest.mark.parametrize("above", ["", "top", "top/mid"])
def test_the_depth_of_nested_groups_is_bounded(tmp_path: Path, above: str) -> None:
    trees = CgroupTrees(tmp_path, "v2")
    start = f"{above}/" if above else ""
    trees.add(start + "/".join("g" * DEEPEST))
    with Groups(trees.layout) as groups:
        assert not groups.walk(above).cut
        assert len(groups.walk(above).groups) == DEEPEST
        trees.add(start + "/".join("g" * (DEEPEST + 1)))
        assert groups.walk(above).cut
        assert len(groups.walk(above).groups) == DEEPEST


def test_processes_of_a_group(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "v2")
    trees.add("pod")
    trees.say("pod", "cgroup.procs", "12\n7\n")
    trees.say("pod", "cgroup.threads", "12\n13\n7\n")
    with Groups(trees.layout) as groups:
        assert groups.pids("pod") == (12, 7)
        assert groups.threads("pod") == (12, 13, 7)


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_is_created_in_every_tree(tmp_path: Path, kind: str) -> None:
    """Plain folders get no files by themselves, so v1's cpuset cannot be filled: that undoes what was made."""
    trees = CgroupTrees(tmp_path, kind)
    with Groups(trees.layout) as groups:
        if kind == "v2":
            groups.make("pod/a")
            assert groups.missing("pod/a") == ()
            assert (tmp_path / "cgroup.subtree_control").read_text() == "+pids"
        else:
            with pytest.raises(InvalidInput):
                groups.make("pod/a")
            assert len(groups.missing("pod")) == len(groups.missing("pod/a")) == len(trees.files)


def test_the_trees_that_lack_a_group_are_listed(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "hybrid")
    (tmp_path / "memory/pod").mkdir()
    (tmp_path / "cpu/pod").mkdir()
    with Groups(trees.layout) as groups:
        assert groups.exists("pod")
        missing = {Path(path).name for path in groups.missing("pod")}
        assert missing == {"cpuacct", "cpuset", "blkio", "pids", "freezer", "unified"}
        groups.remove("pod")
        assert not (tmp_path / "memory/pod").exists()
        groups.remove("pod")


@pytest.mark.parametrize("group", ["", "..", "a/../b", "a//b", "x" * 300])
def test_malformed_names_are_refused(tmp_path: Path, group: str) -> None:
    with Groups(CgroupTrees(tmp_path, "v2").layout) as groups, pytest.raises(InvalidInput, match="group"):
        groups.make(group)


def test_the_root_is_neither_killed_nor_removed(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "v2")
    trees.add("pod")
    with Groups(trees.layout) as groups:
        for act in (groups.kill, groups.remove):
            with pytest.raises(InvalidInput, match="shared by all"):
                act("")
        assert groups.exists("pod")
