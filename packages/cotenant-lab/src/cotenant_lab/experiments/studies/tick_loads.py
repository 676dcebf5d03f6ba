"""What ticks and turns take from batch that nobody waits for: run inside a guest, one JSON object on standard output.

A scheduler in which one CPU decides for all others, which then run without ticks, can gain at most what the ticks take.
One CPU, one task that reads the clock without end: every gap longer than ten usual ones is time in which something else
ran there. Under the fair class, and under our schedulers with their turns of 4 and of 20 ms.
Limits: a guest that counts instructions: 4 ns each, without caches, so that what a tick costs beyond its own
instructions is not in it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from cotenant.drivers.ebpf.zone_scheduler import ZoneSchedulers
from cotenant.model.errors import Permanent
from cotenant.model.zones.setting import ZoneMode
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant_lab.experiments.site.task_group import TaskGroup, end

TREE = Path("/sys/fs/cgroup")
MODES = (ZoneMode.LATENCY, ZoneMode.THROUGHPUT)
FAIR = "fair"
SECONDS = 2.0
_USUAL = 10  # times the usual reading: a gap


def measure() -> dict[str, dict[str, float]]:
    """Of each arm: the share of time that was not the task's, and its gaps a second."""
    (TREE / "cgroup.subtree_control").write_text("+cpu")
    group = TaskGroup(TREE / "batch", max(os.sched_getaffinity(0)))
    found = {FAIR: _arm(group)}
    with ZoneSchedulers("ticks", MODES) as zone:
        zone.maps.put(group.id, ZoneRow(ZoneClass.BATCH))
        for mode in MODES:
            zone.switch(mode)
            found[mode.value] = _arm(group)
            if not zone.verify():
                raise Permanent(f"{mode.value} ended during the measurement: {zone.maps.last_exit()}")
        zone.remove()
    return found


def _arm(group: TaskGroup) -> dict[str, float]:
    reading, writing = os.pipe()

    def body() -> None:
        os.write(writing, json.dumps(gaps(SECONDS)).encode())

    pid = group.start(body)
    os.close(writing)
    with open(reading) as told:
        found: dict[str, float] = json.loads(told.read())
    end(pid)
    return found


def gaps(seconds: float) -> dict[str, float]:
    """Read the clock for so long."""
    read = time.perf_counter_ns
    steps = sorted(_steps(read, 2000))
    usual = steps[len(steps) // 2]
    lost, number = 0, 0
    start = before = read()
    until = start + round(seconds * 1e9)
    while before < until:
        now = read()
        if now - before > _USUAL * usual:
            lost += now - before - usual
            number += 1
        before = now
    return {"lost_share": lost / (before - start), "gaps_per_s": number / (before - start) * 1e9}


def _steps(read: Callable[[], int], number: int) -> list[int]:
    return [after - before for before, after in pairwise([read() for _ in range(number)])]


if __name__ == "__main__":
    json.dump({"arms": measure()}, sys.stdout)
