"""Parties that exclude one another on cores of two threads, under each scheduler: run inside a guest, one JSON object
on standard output.

Who shares a core is counted at the context switch (drivers/ebpf/smt.py), whatever scheduler runs. Four CPUs, two loads:
*tenants*, two of whom have two tasks each that never sleep; *service*, two that work and sleep 20 ms at a time beside
four batch tasks that never sleep. None is pinned. The rule is that the two parties never run on one core at once.
Limits: as of core_loads.py; a core's two threads do not exchange anything in such a guest, so what an observer could
learn is not measured, only for how long it could look.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cotenant.drivers.ebpf.smt import CoreSharing
from cotenant.drivers.ebpf.zone_scheduler import ZoneSchedulers
from cotenant.drivers.proc.topology import read_topology
from cotenant.model.errors import Permanent
from cotenant.model.zones.apart import ApartRule
from cotenant.model.zones.setting import ZoneMode
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.policy.zone.apart import apart_table
from cotenant.policy.zone.cores import siblings_of
from cotenant_lab.experiments.site.task_group import TaskGroup
from cotenant_lab.experiments.studies.core_loads import arm, working

TREE = Path("/sys/fs/cgroup")
WORK_S = 0.02
TENANTS, SERVICE = "tenants", "service"
FAIR = "fair"
ONE, OTHER = "one", "other"
CPUS = ("one_cpus", "other_cpus")
MODES = {
    TENANTS: (ZoneMode.LATENCY, ZoneMode.APART),
    SERVICE: (ZoneMode.LATENCY, ZoneMode.SIBLINGS, ZoneMode.APART),
}
LOADED = (ZoneMode.LATENCY, ZoneMode.SIBLINGS, ZoneMode.APART)


def measure() -> list[dict[str, object]]:
    """Every arm of both loads; `fair` of the tenants, for the service it is core_loads.py's."""
    topology = read_topology()
    siblings, cpus = siblings_of(topology), {logical_cpu.cpu for logical_cpu in topology}
    rules = apart_table([ApartRule((ONE, OTHER))], topology, {})
    (TREE / "cgroup.subtree_control").write_text("+cpu")
    one, other = TaskGroup(TREE / ONE, cpus), TaskGroup(TREE / OTHER, cpus)
    found: list[dict[str, object]] = []
    with (
        CoreSharing(siblings) as cores,
        ZoneSchedulers("apart", LOADED, siblings=siblings, apart=rules) as zone,
    ):
        # of the counter: one party and the other
        cores.put(one.id, ZoneClass.SERVICE)
        cores.put(other.id, ZoneClass.BATCH)
        for load, modes in MODES.items():
            kind = ZoneClass.BATCH if load == TENANTS else ZoneClass.SERVICE
            zone.maps.put(one.id, ZoneRow(kind, party=ONE))
            zone.maps.put(other.id, ZoneRow(ZoneClass.BATCH, party=OTHER))
            with _running(load, one, other):
                if load == TENANTS:
                    found.append({"load": load, "scheduler": FAIR, **arm(cores, one, CPUS)})
                for mode in modes:
                    zone.switch(mode)
                    found.append({"load": load, "scheduler": mode.value, **arm(cores, one, CPUS)})
                    if not zone.verify():
                        raise Permanent(f"{mode.value} ended during the measurement: {zone.maps.last_exit()}")
                zone.detach()
        zone.remove()
    return found


@contextmanager
def _running(load: str, one: TaskGroup, other: TaskGroup) -> Iterator[None]:
    if load == TENANTS:
        with one.burning(2), other.burning(2):
            yield
    else:
        with other.burning(4), working(one, WORK_S):
            yield


if __name__ == "__main__":
    json.dump({"arms": measure()}, sys.stdout)
