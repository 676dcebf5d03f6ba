"""CPUs that only services use, and cores on which batch does not run beside them: of the machine, and of one cgroup.
The guest's second CPU is online for these cases; the latter take both for the threads of one core.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.fakes.waiting import eventually
from tests.node.guest.zones.conftest import ROOT, Group, burn

from cotenant.drivers.ebpf import sched_ext
from cotenant.drivers.ebpf.libbpf import objects_folder
from cotenant.drivers.ebpf.sub_scheduler import SubSchedulers
from cotenant.drivers.ebpf.zone_scheduler import ZoneSchedulers
from cotenant.drivers.proc.topology import read_topology
from cotenant.model.zones.setting import ExclusiveCpus, ZoneMode
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.policy.zone.cores import own_cpus

pytestmark = pytest.mark.skipif(
    not (objects_folder() / "zone_siblings.bpf.o").is_file(), reason="the schedulers are not built: make bpf"
)
SHARED, OWN = 0, 1
CORE = {0: 1, 1: 0}  # as if the CPUs were its threads


def cpu_of(pid: int) -> int:
    """The CPU that a process ran on last (proc_pid_stat(5), field 39)."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[36])


def ran_s(pid: int) -> float:
    """CPU seconds of a process (proc_pid_schedstat: time on the CPU in ns)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def pinned() -> None:
    os.sched_setaffinity(0, {OWN})
    burn()


def used(groups: tuple[Group, Group], seconds: float) -> tuple[float, float]:
    """CPUs used by both groups. With two CPUs the guest's clocks are uneven: the sum can be a fifth above or below
    what there is.
    """
    before, start = [group.used_s() for group in groups], time.perf_counter()
    time.sleep(seconds)
    took = time.perf_counter() - start
    service, batch = ((group.used_s() - then) / took for group, then in zip(groups, before, strict=True))
    return service, batch


def check_sides(zone: ZoneSchedulers, service: Group, batch: Group) -> None:
    """Batch has the shared CPU and never the other one; services have that, and the shared one while no batch wants
    it.
    """
    zone.maps.put(service.id, ZoneRow(ZoneClass.SERVICE))
    zone.maps.put(batch.id, ZoneRow(ZoneClass.BATCH))
    zone.attach(ZoneMode.EXCLUSIVE)
    with batch.run(burn) as first, batch.run(burn) as second:
        time.sleep(0.1)  # until both are in their group
        seen = set()
        for _ in range(10):
            time.sleep(0.02)
            seen |= {cpu_of(first), cpu_of(second)}
        assert seen == {SHARED}, "also while services are idle"
        with service.burning(2):
            got = used((service, batch), 0.4)
            assert 0.2 < got[0] / sum(got) < 0.8, got  # a CPU each, of which the host may take away more from one
    with service.run(burn) as first, service.run(burn) as second:
        check_side_by_side(first, second)
    assert zone.verify(), zone.maps.last_exit()


def check_side_by_side(first: int, second: int) -> None:
    """Each of two processes has a CPU and runs there, in 16 looks of as many as it takes: a CPU that the host takes
    away sends its process to the other, and one that both must share never shows them apart.
    """
    before, apart = (ran_s(first), ran_s(second)), 0

    def often_apart() -> bool:
        nonlocal apart
        apart += {cpu_of(first), cpu_of(second)} == {SHARED, OWN}
        return apart >= 16

    eventually("two processes run side by side", often_apart, within_s=10, interval_s=0.02)
    ran = ran_s(first) - before[0], ran_s(second) - before[1]
    assert min(ran) > 0.05, ran


def test_batch_never_runs_on_the_services_cpus(groups, second_cpu):
    service, batch = groups
    own = own_cpus(read_topology(), ExclusiveCpus())
    assert own == (OWN,)
    with ZoneSchedulers("exclusive", [ZoneMode.EXCLUSIVE], own_cpus=own, starved_ms=200) as zone:
        check_sides(zone, service, batch)
        before = zone.maps.counts()["overdue"]
        with service.burning(), batch.run(pinned):
            got = used(groups, 0.8)
        # batch that may run nowhere else is not stalled: a slice of 4 ms each 0.2 s
        assert 0.005 < got[1] < 0.1, got
        assert 2 <= zone.maps.counts()["overdue"] - before <= 16
        zone.remove()


def test_the_same_within_one_cgroup(groups, second_cpu):
    if not sched_ext.has_sub_schedulers():
        pytest.skip("Linux 7.3 or later")
    home = Group("own")
    home.set("cgroup.subtree_control", "+cpu")
    with SubSchedulers("own", home.id, [ZoneMode.EXCLUSIVE], own_cpus=(OWN,)) as zone:
        check_sides(zone, Group("own/service"), Group("own/batch"))
        zone.remove()
    (ROOT / "own" / "cgroup.subtree_control").write_text("-cpu")


def check_cores(zone: ZoneSchedulers, service: Group, batch: Group) -> None:
    """While a service runs batch has no thread of its core but for a slice in each bound of its wait, and both when it
    ends.
    """
    zone.maps.put(service.id, ZoneRow(ZoneClass.SERVICE))
    zone.maps.put(batch.id, ZoneRow(ZoneClass.BATCH))
    zone.attach(ZoneMode.SIBLINGS)
    with batch.run(burn) as first, batch.run(burn) as second:
        check_side_by_side(first, second)
        before = zone.maps.counts()["overdue"]
        with service.burning():
            time.sleep(0.1)
            # beyond the watchdog's limit of 5 s
            got = used((service, batch), 6)
        assert got[0] > 0.4, got
        assert 0.0005 < got[1] < 0.25 * got[0], got
        assert zone.maps.counts()["overdue"] - before >= 2
        check_side_by_side(first, second)
    assert zone.verify(), zone.maps.last_exit()


def test_batch_never_runs_beside_a_service_on_its_core(groups, second_cpu):
    with ZoneSchedulers("cores", [ZoneMode.SIBLINGS], siblings=CORE) as zone:
        check_cores(zone, *groups)
        zone.remove()


def test_beside_no_service_of_the_same_cgroup(groups, second_cpu):
    if not sched_ext.has_sub_schedulers():
        pytest.skip("Linux 7.3 or later")
    home = Group("core")
    home.set("cgroup.subtree_control", "+cpu")
    with SubSchedulers("cores", home.id, [ZoneMode.SIBLINGS], siblings=CORE) as zone:
        check_cores(zone, Group("core/service"), Group("core/batch"))
        zone.remove()
    (ROOT / "core" / "cgroup.subtree_control").write_text("-cpu")
