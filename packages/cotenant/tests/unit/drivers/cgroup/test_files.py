import os
from pathlib import Path

import pytest
from tests.fakes.node.open_files import descriptors

from cotenant.drivers.cgroup.files import CgroupTree


@pytest.fixture
def tree(tmp_path: Path) -> CgroupTree:
    (tmp_path / "root/a/b").mkdir(parents=True)
    (tmp_path / "root/a/file").write_text(" told\n")
    (tmp_path / "secret").write_text("x\n")
    return CgroupTree(str(tmp_path / "root"))


@pytest.mark.parametrize(
    "group",
    ["..", "a/..", "../secret", "a/../..", ".", "a//b", "/", "/a", "a/", "a\0", "\ud800", "x" * 300, "a/" * 3000],
)
def test_a_malformed_path_is_not_a_group(tree: CgroupTree, group: str) -> None:
    assert not tree.exists(group)
    with pytest.raises(OSError, match="Errno"):
        tree.read(group, "file")


def test_links_are_not_followed(tree: CgroupTree, tmp_path: Path) -> None:
    os.symlink(tmp_path, tmp_path / "root/out")
    os.symlink(tmp_path / "root/a", tmp_path / "root/within")
    os.symlink(tmp_path / "secret", tmp_path / "root/a/linked")
    for group in ("out", "within", "out/root"):
        assert not tree.exists(group)
    with pytest.raises(OSError, match="symbolic link"):
        tree.read("a", "linked")
    with pytest.raises(OSError, match="symbolic link"):
        tree.write("a", "linked", "y")
    assert (tmp_path / "secret").read_text() == "x\n"
    assert tree.children("") == ["a"]


def test_reading_writing_and_folders(tree: CgroupTree) -> None:
    assert tree.read("a", "file") == "told"
    tree.write("a", "file", "")
    assert tree.read_all("a", "file") == "\n"
    tree.make("a/c d\n")
    assert tree.children("a") == ["b", "c d\n"]
    tree.remove("a/c d\n")
    assert tree.children("a") == ["b"]
    assert tree.has("a", "file")
    assert not tree.has("a", "nothing")


def test_no_descriptor_is_left_open(tree: CgroupTree) -> None:
    before = descriptors()
    for group in ("a", "a/b", "nothing", ".."):
        tree.exists(group)
        tree.has(group, "file")
    with pytest.raises(FileNotFoundError):
        tree.read("a/b", "file")
    assert descriptors() == before
    tree.close()
    tree.close()
    assert descriptors() == before - 1
