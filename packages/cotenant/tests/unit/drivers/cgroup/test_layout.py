from pathlib import Path

import pytest
from tests.fakes.node.cgroup_trees import CgroupTrees

from cotenant.drivers.cgroup.layout import LayoutKind, arrange, detect, parse_mountinfo
from cotenant.model.errors import Unsupported

HYBRID = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:5 master:2 - cgroup cgroup rw,memory
38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
CENTOS = """\
25 18 0:22 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:8 - tmpfs tmpfs ro,mode=755
29 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:12 - cgroup cgroup rw,cpuacct,cpu
30 25 0:27 / /sys/fs/cgroup/net_cls,net_prio rw shared:13 - cgroup cgroup rw,net_prio,net_cls
31 25 0:28 / /sys/fs/cgroup/memory rw shared:14 - cgroup cgroup rw,memory
"""
IN_A_CONTAINER = """\
700 600 0:26 /kubepods/pod1 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct
701 600 0:26 / /host/sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
702 600 0:26 / /host/sys/fs/cgroup2/elsewhere/cpu rw - cgroup cgroup rw,cpu,cpuacct
703 600 0:28 / /host/sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
"""


def test_controllers_on_v1_with_a_v2_tree_beside_them() -> None:
    layout = arrange(parse_mountinfo(HYBRID))
    assert layout.kind is LayoutKind.HYBRID
    assert layout.by_controller["io"].path == "/sys/fs/cgroup/blkio"
    assert {layout.version(name) for name in ("cpu", "cpuacct", "memory", "io")} == {1}
    assert layout.version("pids") is None
    assert layout.unified is not None
    assert layout.unified.path == "/sys/fs/cgroup/unified"
    assert len(layout.hierarchies) == 5  # systemd's has no controller


def test_controllers_that_are_mounted_together() -> None:
    layout = arrange(parse_mountinfo(CENTOS))
    assert layout.kind is LayoutKind.V1
    assert layout.by_controller["cpu"] is layout.by_controller["cpuacct"]
    assert layout.by_controller["cpu"].path == "/sys/fs/cgroup/cpu,cpuacct"
    assert layout.unified is None
    # "rw" is an option and no controller
    assert set(layout.by_controller) == {"cpu", "cpuacct", "memory", "net_cls", "net_prio"}


def test_a_container_that_sees_the_hosts_trees_elsewhere() -> None:
    found = parse_mountinfo(IN_A_CONTAINER, "/host/sys/fs/cgroup")
    assert {tree.path for tree in found} == {"/host/sys/fs/cgroup/cpu,cpuacct", "/host/sys/fs/cgroup/memory"}
    # nor is the container's own part taken for the whole where nobody says where to look
    assert parse_mountinfo(IN_A_CONTAINER) == found


def test_v2_alone_has_the_controllers_that_it_lists(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b/cgroup.controllers").write_text("cpuset cpu io memory\n")
    escaped = str(tmp_path / "a b").replace(" ", "\\040")
    layout = arrange(
        parse_mountinfo(f"30 25 0:27 / {escaped} rw - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n")
    )
    assert layout.kind is LayoutKind.V2
    assert layout.version("io") == 2
    assert layout.unified is layout.by_controller["cpu"]


def test_a_controller_mounted_on_v1_is_not_on_v2(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    text = f"30 25 0:27 / {tmp_path} rw - cgroup2 c rw\n31 25 0:28 / /cg/cpu rw - cgroup c rw,cpu\n"
    layout = arrange(parse_mountinfo(text))
    assert (layout.version("cpu"), layout.version("memory")) == (1, 2)


@pytest.mark.parametrize(
    "text", ["", "no mounts here\n", "1 2 0:1 / /x rw - cgroup\n", "1 2 3 - cgroup2 x rw\n", " - \n", "\0\n"]
)
def test_a_machine_without_cgroups_is_unsupported(text: str) -> None:
    with pytest.raises(Unsupported, match="a cgroup file system mounted"):
        arrange(parse_mountinfo(text))


@pytest.mark.parametrize("kind", ["v1", "joined", "v2", "hybrid"])
def test_unmounted_trees_are_recognized_by_their_folders(tmp_path: Path, kind: str) -> None:
    layout = CgroupTrees(tmp_path, kind).layout
    assert layout.kind == ("v1" if kind == "joined" else kind)
    assert {"cpu", "memory", "cpuset", "io", "pids"} <= set(layout.by_controller)
    assert (layout.unified is None) == (kind in ("v1", "joined"))
    if kind == "joined":
        assert layout.by_controller["cpu"].path.endswith("cpu,cpuacct")


def test_a_root_with_nothing_in_it(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=str(tmp_path)):
        detect(str(tmp_path))
    with pytest.raises(Unsupported):
        detect(str(tmp_path / "absent"))
