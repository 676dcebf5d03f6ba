from pathlib import Path

import pytest
from tests.fakes.node.cgroup_trees import PRESSURE

from cotenant.drivers.proc.host import HostReader, network_bytes, used_disks
from cotenant.model.errors import Permanent
from cotenant.model.machine.counters import Pressure, Stall

STAT = """\
cpu  100 10 50 1000 200 5 5 30 7 0
cpu0 50 5 25 500 100 3 2 15 7 0
cpu2 50 5 25 500 100 2 3 15 0 0
intr 5 1 2
ctxt 9
"""
MEMINFO = """\
MemTotal:       24684096 kB
MemFree:         1000 kB
MemAvailable:    2000 kB
Cached:          500 kB
SwapTotal:       64 kB
SwapFree:        32 kB
HugePages_Total:       0
"""
NETWORK = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|\
bytes    packets errs drop fifo colls carrier compressed
    lo:   100     1    0    0    0     0          0         0      100     1    0    0    0     0       0          0
  eth0: 4000 8378    0    0    0     0          0         0   300    4770    0    0    0     0       0          0
ens5:7 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0
veth12ab: 4000 1 0 0 0 0 0 0 300 1 0 0 0 0 0 0
docker0: 50 1 0 0 0 0 0 0 50 1 0 0 0 0 0 0
eth0:1: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0
bond0: 7 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0
eth0.100: 7 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0
"""
DISKS = """\
   7       0 loop0 1 0 8 0 1 0 8 0 0 0 0
 254       0 vda 43754 13357 10 12612 15967 58202 20 15323 0 6204 28363 6001 57 288752 346 2190 80
 254       1 vda1 43754 13357 10 12612 15967 58202 20 15323 0 6204 28363
 259       0 nvme0n1 1 0 2 0 1 0 4 0 0 0 0
 259       1 nvme0n1p1 1 0 2 0 1 0 4 0 0 0 0
   8       0 sda 1 0 1 0 1 0 1 0 0 0 0
   8      17 sdab1 1 0 1 0 1 0 1 0 0 0 0
 253       0 dm-0 1 0 100 0 1 0 100 0 0 0 0
   9       0 md0 1 0 100 0 1 0 100 0 0 0 0
"""


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    for folder in ("net", "pressure"):
        (tmp_path / folder).mkdir()
    for name, text in (("stat", STAT), ("meminfo", MEMINFO), ("net/dev", NETWORK), ("diskstats", DISKS)):
        (tmp_path / name).write_text(text)
    for name in ("cpu", "memory", "io"):
        (tmp_path / "pressure" / name).write_text(PRESSURE[f"{name}.pressure"])
    return tmp_path


def test_the_machine(proc: Path) -> None:
    reader = HostReader(str(proc))
    for _ in range(2):
        host = reader.read()
        assert host.cpus == 2  # one is offline
        tick_us = host.cpu_steal_us // 30
        assert host.cpu_busy_us == 170 * tick_us  # user, nice, system, interrupts; a guest's time is a user's
        assert (host.memory_total_bytes, host.memory_available_bytes) == (24684096 * 1024, 2000 * 1024)
        assert (host.swap_total_bytes, host.swap_free_bytes) == (65536, 32768)
        assert host.pressure == Pressure(Stall(1500, 0), Stall(20, 10), Stall(40, 30))
        assert (host.network_received_bytes, host.network_sent_bytes) == (4008, 310)
        assert (host.disk_read_bytes, host.disk_written_bytes) == (13 * 512, 25 * 512)
        assert host.disk_busy_us == 6_204_000  # of vda; partitions are in their disks
    assert reader.gaps() == ()
    reader.close()


def test_process_1_has_the_hosts_network(proc: Path) -> None:
    (proc / "1/net").mkdir(parents=True)
    (proc / "1/net/dev").write_text(NETWORK.replace("4000", "5000"))
    assert HostReader(str(proc)).read().network_received_bytes == 5008


def test_network_and_disks_count_once() -> None:
    assert network_bytes(NETWORK) == (4008, 310)
    assert network_bytes(NETWORK, every=True) == (8072, 678)
    disks = used_disks(DISKS)
    assert disks is not None
    assert sum(disk.read_bytes for disk in disks) == 13 * 512
    assert sum(disk.written_bytes for disk in disks) == 25 * 512
    assert used_disks("") == ()


def test_disks_are_named_by_number_the_busiest_first_and_one_that_was_never_used_is_left_out() -> None:
    lines = (
        "8 0 sda 9 0 4 1 1 0 4 1",
        "8 16 sdb 9 0 0 1 1 0 0 1",
        "259 0 nvme0n1 9 0 40 1 1 0 9 1",
        "7 0 loop0 9 0 9 1 1 0 9 1",
    )
    disks = used_disks("\n".join(lines))
    assert disks is not None
    assert [disk.number for disk in disks] == ["259:0", "8:0"]


@pytest.mark.parametrize("text", ["", "cpu  1 2\n", "cpu  a b c d\n", "cpu0 1 2 3 4\n", "intr 5\n", "cpu  1 2 3 4\n"])
def test_without_cpu_time_there_is_no_sample(proc: Path, text: str) -> None:
    (proc / "stat").write_text(text)
    with pytest.raises(Permanent):
        HostReader(str(proc)).read()


def test_without_memory_there_is_no_sample(proc: Path) -> None:
    (proc / "meminfo").write_text("MemFree: 5 kB\n")
    with pytest.raises(Permanent):
        HostReader(str(proc)).read()


def test_an_old_kernel(proc: Path) -> None:
    (proc / "stat").write_text("cpu  100 10 50 1000\ncpu0 100 10 50 1000\n")
    (proc / "meminfo").write_text(MEMINFO.replace("MemAvailable:    2000 kB\n", ""))
    host = HostReader(str(proc)).read()
    assert host.memory_available_bytes == 1500 * 1024
    assert host.cpu_steal_us == 0


def test_other_files_may_be_missing_or_garbage(proc: Path) -> None:
    (proc / "net/dev").write_text("a\nb\neth0: many\n")
    (proc / "diskstats").unlink()
    for name in ("cpu", "memory", "io"):
        (proc / "pressure" / name).unlink()
    reader = HostReader(str(proc))
    for _ in range(2):
        host = reader.read()
    assert (host.network_sent_bytes, host.disk_read_bytes, host.pressure) == (0, 0, Pressure())
    assert {gap.what for gap in reader.gaps()} == {
        "network",
        "/proc/diskstats",
        "/proc/pressure/cpu",
        "/proc/pressure/memory",
        "/proc/pressure/io",
    }
