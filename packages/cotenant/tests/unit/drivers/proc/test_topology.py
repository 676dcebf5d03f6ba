from pathlib import Path

from cotenant.drivers.proc.topology import read_last_level_caches, read_topology
from cotenant.model.machine.counters import LogicalCpu


def cpu(root: Path, number: int, **said: int) -> None:
    folder = root / f"devices/system/cpu/cpu{number}/topology"
    folder.mkdir(parents=True)
    for name, value in said.items():
        (folder / name).write_text(f"{value}\n")


def test_siblings_sockets_and_nodes(tmp_path: Path) -> None:
    """Two sockets that both number their cores from 0; CPU 3 is offline."""
    for number, socket, core in ((0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1), (4, 0, 0), (6, 1, 0)):
        cpu(tmp_path, number, physical_package_id=socket, die_id=0, core_id=core)
    (tmp_path / "devices/system/cpu/online").write_text("0-2,4,6\n")
    for node, cpus in ((0, "0-1,4"), (1, "2-3,6")):
        folder = tmp_path / f"devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cpus}\n")
    assert read_topology(str(tmp_path)) == (
        LogicalCpu(0, 0, 0, 0),
        LogicalCpu(1, 1, 0, 0),
        LogicalCpu(2, 2, 1, 1),
        LogicalCpu(4, 0, 0, 0),
        LogicalCpu(6, 2, 1, 1),
    )


def test_dies_number_their_cores_separately(tmp_path: Path) -> None:
    cpu(tmp_path, 0, physical_package_id=0, die_id=0, core_id=0)
    cpu(tmp_path, 1, physical_package_id=0, die_id=1, core_id=0)
    assert [entry.core for entry in read_topology(str(tmp_path))] == [0, 1]


def test_missing_topology_defaults_to_the_simplest(tmp_path: Path) -> None:
    for number in (0, 1, 10):
        cpu(tmp_path, number)
    (tmp_path / "devices/system/cpu/cpufreq").mkdir()
    (tmp_path / "devices/system/cpu/online").write_text("garbage\n")
    assert read_topology(str(tmp_path)) == (LogicalCpu(0, 0, 0, 0), LogicalCpu(1, 1, 0, 0), LogicalCpu(10, 2, 0, 0))


def test_without_sysfs_there_are_none(tmp_path: Path) -> None:
    assert read_topology(str(tmp_path)) == ()


def test_the_cache_of_the_last_level_and_cpus_without_one(tmp_path: Path) -> None:
    for number, shared in ((0, "0,2"), (1, "1,3"), (2, "0,2")):
        cpu(tmp_path, number)
        for index, level, cpus in ((0, 1, str(number)), (10, 3, shared), (2, 2, str(number))):
            folder = tmp_path / f"devices/system/cpu/cpu{number}/cache/index{index}"
            folder.mkdir(parents=True)
            (folder / "level").write_text(f"{level}\n")
            (folder / "shared_cpu_list").write_text(f"{cpus}\n")
    cpu(tmp_path, 4)
    (tmp_path / "devices/system/cpu/online").write_text("0-2,4\n")
    assert read_last_level_caches(str(tmp_path)) == {0: 0, 1: 1, 2: 0}
    assert read_last_level_caches(str(tmp_path / "none")) == {}
