"""The loop from label to scheduler and back, on a kernel: late dispatches of a service change the scheduler, and
end.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from math import inf
from pathlib import Path

import pytest
from tests.node.guest.zones.conftest import burn

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.ebpf.libbpf import objects_folder
from cotenant.engine.zones.zone import ZoneLimits
from cotenant.model.zones.setting import Backend, ZoneMode
from cotenant.model.zones.state import ZoneState
from cotenant.policy.zone.deciding import ZoneConfig
from cotenant.services.zones.backends import RootBackend, can_load
from cotenant.services.zones.definition import BackendChoice, ZoneDefinition
from cotenant.services.zones.groups import GroupClass, ZoneGroup
from cotenant.services.zones.runner import ZoneRunner

pytestmark = pytest.mark.skipif(
    not (objects_folder() / "zone_latency.bpf.o").is_file(), reason="the schedulers are not built: make bpf"
)


def sleeper() -> None:
    while True:
        time.sleep(0.01)


class Gate:
    """A body of processes that wait until it is opened."""

    def __init__(self, body: Callable[[], None]) -> None:
        self._body = body
        self._reading, self._writing = os.pipe()

    def __call__(self) -> None:
        os.read(self._reading, 1)
        self._body()

    def open(self) -> Gate:
        os.write(self._writing, b"12")
        return self


def test_late_dispatches_change_rows_at_once_and_the_scheduler_within_the_dwell_time(groups):
    service, batch = groups
    assert can_load()
    definition = ZoneDefinition(
        "shop",
        (
            ZoneGroup("service", GroupClass.SERVICE, late_ms=3),
            ZoneGroup("batch", GroupClass.BATCH),
        ),
        backend=BackendChoice.ROOT,
        start=ZoneMode.WEIGHTED,
        modes=(ZoneMode.WEIGHTED, ZoneMode.LATENCY),
        period_ms=1000,  # long beside what an emulated machine takes to act: the event comes first, not the reading
        policy=ZoneConfig(heaviest=400),  # one step, and rows can do no more
        limits=ZoneLimits(canary_s=0.5, dwell_s=0.75),
    )

    log: list[str] = []
    backend = RootBackend("shop", definition.modes, Path("/sys/fs/cgroup"))
    stop, load = asyncio.Event(), ExitStack()
    reader = load.enter_context(CgroupReader(detect()))

    def used() -> dict[str, int]:
        return {entry.group: entry.cpu_us or 0 for entry in reader.read(["service", "batch"])}

    runner = ZoneRunner(definition.machine(root=True), {Backend.ROOT: backend}, used, log=log.append)
    begun: list[Gate] = []

    def look() -> None:
        if not begun:  # loaded, on a quiet CPU
            begun.append(busy.open())
        elif len(begun) == 1 and runner.zone.acts_on(runner.clock(), inf):
            begun.append(sleeping.open())
        if runner.zone.setting.mode is ZoneMode.LATENCY and runner.zone.state is ZoneState.ACTIVE:
            stop.set()

    # forked beforehand: a process that has just forked copies each page that it writes
    busy, sleeping = Gate(burn), Gate(sleeper)
    load.enter_context(batch.run(busy))
    load.enter_context(batch.run(busy))
    load.enter_context(service.run(sleeping))
    with load:
        asyncio.run(runner.run(stop, definition.period_ms / 1000, 60, look))
    assert len(runner.zone.history) >= 3, (runner.zone.history, runner.last, log)
    first, second, third = list(runner.zone.history)[:3]
    assert [entry.what for entry in (first, second, third)] == [
        "setting root/weighted",
        "rows of service",
        "setting root/latency",
    ]
    # 1.8 to 6.1 ms by what the process does for the first time then (the goal is 5). A host that holds the guest up for
    # a whole period lets the reading come first: then no line says it (that the event comes first where it can is
    # tests/unit/services/zones/test_runner.py's)
    acted = [float(line.split()[1]) for line in log if line.startswith("acted ")]
    assert all(ms <= 25 for ms in acted), f"{acted} ms from a late dispatch to the changed row"
    assert third.kept
    assert third.before is not None
    assert third.after is not None
    assert third.before.late_per_s > 5, third
    assert third.after.late_per_s <= third.before.late_per_s / 10, third
    assert not Path("/sys/fs/bpf/cotenant-zone-shop").exists()
