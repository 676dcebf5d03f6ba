from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.drivers.ebpf.groups import CgroupIndex
from cotenant.model.machine.knob import Vanished


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Folders as cgroups: their inode numbers are the ids."""
    for path in ("pods/web/one", "pods/web/two/deep", "pods/batch", "system"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "pods/web/cgroup.procs").touch()
    return tmp_path


def ids(tree: Path, *paths: str) -> list[int]:
    return [(tree / path).stat().st_ino for path in paths]


def test_members_are_the_group_first_and_all_below(tree: Path) -> None:
    found = CgroupIndex(str(tree)).members("pods/web")
    assert found[0] == ids(tree, "pods/web")[0]
    assert sorted(found) == sorted(ids(tree, "pods/web", "pods/web/one", "pods/web/two", "pods/web/two/deep"))


def test_members_leave_out_excluded_groups(tree: Path) -> None:
    found = CgroupIndex(str(tree)).members("pods", {"pods", "pods/web/two", "pods/batch"})
    assert sorted(found) == sorted(ids(tree, "pods", "pods/web", "pods/web/one"))


def test_a_missing_group_raises_vanished(tree: Path) -> None:
    with pytest.raises(Vanished):
        CgroupIndex(str(tree)).members("pods/gone")


def test_listed_groups_have_paths(tree: Path) -> None:
    index = CgroupIndex(str(tree))
    (batch,) = ids(tree, "pods/batch")
    assert index.path(batch) is None
    assert index.is_new(batch)
    index.refresh({batch, 1})
    assert index.path(batch) == "pods/batch"
    assert index.path(ids(tree, ".")[0]) == ""


def test_an_id_missing_from_a_listing_is_not_searched_again(tree: Path) -> None:
    index = CgroupIndex(str(tree))
    index.refresh({1})
    assert index.path(1) is None
    assert not index.is_new(1)
