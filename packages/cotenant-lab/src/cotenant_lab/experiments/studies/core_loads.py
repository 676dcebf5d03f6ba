"""Services beside batch on cores of two threads, under each scheduler: run inside a guest, one JSON object on standard
output.

What shares a core is counted at the context switch (drivers/ebpf/smt.py), whatever scheduler runs. Four CPUs: two
services that work and sleep as long, once for 20 and once for 100 ms, and batch tasks that never sleep, one a CPU, none
pinned.
Limits: a guest that counts instructions runs one CPU at a time and has no caches: who runs beside whom is shown, and
what that costs is not; an interrupt to another CPU waits for that CPU's turn, up to some milliseconds after each start
of a service. One run an arm.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cotenant.drivers.ebpf.smt import CoreSharing
from cotenant.drivers.ebpf.zone_scheduler import ZoneSchedulers
from cotenant.drivers.proc.topology import read_topology
from cotenant.model.errors import Permanent
from cotenant.model.zones.setting import ExclusiveCpus, ZoneMode
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.policy.zone.cores import own_cpus, siblings_of
from cotenant_lab.experiments.site.task_group import TaskGroup, end

TREE = Path("/sys/fs/cgroup")
WORKS_S = (0.02, 0.1)
SERVICES = 2
SETTLE_S, SECONDS = 0.3, 1.5
FAIR, WEIGHTS = "fair", "weights"
MODES = (ZoneMode.LATENCY, ZoneMode.SIBLINGS, ZoneMode.EXCLUSIVE)


def measure() -> list[dict[str, object]]:
    """Every arm: `fair`, `weights` (`cpu.idle` for batch), and our schedulers, for services of each kind."""
    topology = read_topology()
    siblings, cpus = siblings_of(topology), {logical_cpu.cpu for logical_cpu in topology}
    (TREE / "cgroup.subtree_control").write_text("+cpu")
    service, batch = TaskGroup(TREE / "service", cpus), TaskGroup(TREE / "batch", cpus)
    found: list[dict[str, object]] = []
    own = own_cpus(topology, ExclusiveCpus())
    with CoreSharing(siblings) as cores, batch.burning(len(cpus)):
        cores.put(service.id, ZoneClass.SERVICE)
        cores.put(batch.id, ZoneClass.BATCH)
        with ZoneSchedulers("cores", MODES, own_cpus=own, siblings=siblings) as zone:
            zone.maps.put(service.id, ZoneRow(ZoneClass.SERVICE))
            zone.maps.put(batch.id, ZoneRow(ZoneClass.BATCH))
            for work_s in WORKS_S:
                with working(service, work_s):
                    for name, scheduler in _arms(zone, batch):
                        found.append({"work_ms": work_s * 1e3, "scheduler": name, **arm(cores, service)})
                        if scheduler is not None and not zone.verify():
                            raise Permanent(f"{name} ended during the measurement: {zone.maps.last_exit()}")
                    zone.detach()
            zone.remove()
    return found


def _arms(zone: ZoneSchedulers, batch: TaskGroup) -> Iterator[tuple[str, ZoneMode | None]]:
    yield FAIR, None
    batch.set("cpu.idle", "1")
    yield WEIGHTS, None
    batch.set("cpu.idle", "0")
    for mode in MODES:
        zone.switch(mode)
        yield mode.value, mode


@contextmanager
def working(service: TaskGroup, work_s: float) -> Iterator[None]:
    """Services that work and sleep as long, until the block ends."""

    def work() -> None:
        while True:
            end_s = time.thread_time() + work_s
            while time.thread_time() < end_s:
                pass
            time.sleep(work_s)

    pids = [service.start(work) for _ in range(SERVICES)]
    try:
        yield
    finally:
        for pid in pids:
            end(pid)


def arm(
    cores: CoreSharing, one: TaskGroup, names: tuple[str, str] = ("service_cpus", "batch_cpus")
) -> dict[str, float]:
    """For how long the group whose class is the service's ran beside the other, and the CPUs of both, by these
    names.
    """
    time.sleep(SETTLE_S)
    before, used, start_s = cores.read(), one.used_us(), time.perf_counter()
    time.sleep(SECONDS)
    shared, took_s = cores.read().since(before), time.perf_counter() - start_s
    return {
        "beside_share": shared.beside_ns / max(1, shared.service_ns),
        names[0]: (one.used_us() - used) / 1e6 / took_s,
        names[1]: shared.batch_ns / 1e9 / took_s,
    }


if __name__ == "__main__":
    json.dump({"arms": measure()}, sys.stdout)
