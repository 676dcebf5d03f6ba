"""An application whose own threads compete, with one row and with rows by name: run inside a guest, one JSON object on
standard output.

A service often has threads that nobody waits for: compaction, garbage collection, indexing. One group, one CPU: a task
that sleeps 10 ms at a time, and two named `compact-1` and `compact-2` that never sleep. Cgroup weights cannot tell them
apart.
Limits: the tasks are processes, whose names the kernel treats as those of threads. One run an arm.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from cotenant.drivers.ebpf.zone_scheduler import ZoneSchedulers
from cotenant.model.errors import Permanent
from cotenant.model.zones.setting import ZoneMode
from cotenant.model.zones.table import ThreadRow, ZoneClass, ZoneRow
from cotenant_lab.experiments.site.task_group import TaskGroup, end

TREE = Path("/sys/fs/cgroup")
SETTLE, SAMPLES = 20, 200
FAIR, ONE_ROW, BY_NAME = "fair", "latency, one row", "latency, rows by name"
COMPACTION = ThreadRow("compact-*", ZoneClass.BATCH)


def measure() -> dict[str, dict[str, object]]:
    """Every arm by name: the sorted delays of wake-ups, and the CPUs of the compaction."""
    (TREE / "cgroup.subtree_control").write_text("+cpu")
    group = TaskGroup(TREE / "service", max(os.sched_getaffinity(0)))
    found: dict[str, dict[str, object]] = {}
    with _compaction(group) as pids:
        found[FAIR] = _arm(group, pids)
        with ZoneSchedulers("threads", [ZoneMode.LATENCY]) as zone:
            for name, threads in ((ONE_ROW, ()), (BY_NAME, (COMPACTION,))):
                zone.maps.put(group.id, ZoneRow(ZoneClass.SERVICE, threads=threads))
                zone.switch(ZoneMode.LATENCY)
                found[name] = _arm(group, pids)
                if not zone.verify():
                    raise Permanent(f"{name} ended during the measurement: {zone.maps.last_exit()}")
            zone.remove()
    return found


@contextmanager
def _compaction(group: TaskGroup) -> Iterator[list[int]]:
    def compact(number: int) -> None:
        Path("/proc/self/comm").write_text(f"compact-{number}")
        while True:
            pass

    pids = [group.start(partial(compact, number)) for number in (1, 2)]
    try:
        yield pids
    finally:
        for pid in pids:
            end(pid)


def _arm(group: TaskGroup, pids: list[int]) -> dict[str, object]:
    before, start_s = sum(map(_ran_s, pids)), time.perf_counter()
    delays = group.delays_ms(SETTLE, SAMPLES)
    used = sum(map(_ran_s, pids)) - before
    return {"delays_ms": delays, "compaction_cpus": used / (time.perf_counter() - start_s)}


def _ran_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


if __name__ == "__main__":
    json.dump({"arms": measure()}, sys.stdout)
