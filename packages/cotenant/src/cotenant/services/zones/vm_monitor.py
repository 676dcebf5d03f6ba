"""The monitors of a zone's machine: figures of both of its sides, read while the zone runs.

The guest's counters come with each reading of the zone, and the host's threads are read with them. Calls between guest
and devices are traced by QEMU for a fifth of a second in ten, beside the zone's loop: tracing all the time would be
work of its own. Exits are asked for at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict

from cotenant.drivers.qemu.backend import QueueSample, ThreadTimes, read_exits, read_threads, sample_queues
from cotenant.drivers.qemu.machine import VirtualMachine
from cotenant.engine.zones.vm_figures import BackEnd, FrontEnd, front_end, stolen_share
from cotenant.model.errors import CotenantError
from cotenant.model.json_object import JsonObject

EVERY_S, SAMPLE_S = 10.0, 0.2


class VmMonitor:
    """`figures`: the last ones, for the zone's state; changed in place. `clock`: monotonic."""

    def __init__(self, machine: VirtualMachine, clock: Callable[[], float] = time.monotonic) -> None:
        self.figures: JsonObject = {}
        self._machine = machine
        self._clock = clock
        self._before: tuple[float, Mapping[str, object], ThreadTimes] | None = None
        self._exits: tuple[float, int] | None = None
        self._exits_per_s: float | None = None
        self._queues: QueueSample | None = None

    def seen(self, counters: Mapping[str, object]) -> None:
        """The guest's counters came."""
        now_s = self._clock()
        threads = read_threads(self._machine.pid, self._machine.share_pid)
        before, self._before = self._before, (now_s, counters, threads)
        if before is None or now_s <= before[0]:
            return
        seconds = now_s - before[0]
        self.figures.clear()
        front, back = front_end(before[1], counters, seconds), self._back_end(before[2], threads, seconds)
        self.figures.update(shown(front, back))

    @property
    def softirq_cpus(self) -> float:
        """CPUs that the guest's soft interrupts used; 0 before the second reading."""
        return float(self.figures.get("frontEnd", {}).get("softirq_cpus") or 0.0)

    async def run(self) -> None:
        """Sample the queues until cancelled. A QEMU that cannot trace has no such figures."""
        while True:
            try:
                self._queues = await sample_queues(self._machine, SAMPLE_S)
                await self._read_exits()
            except CotenantError:
                self._queues = None
            await asyncio.sleep(EVERY_S)

    async def _read_exits(self) -> None:
        exits, now_s = await read_exits(self._machine), self._clock()
        before, self._exits = self._exits, None if exits is None else (now_s, exits)
        if exits is not None and before is not None and now_s > before[0] and exits >= before[1]:
            self._exits_per_s = (exits - before[1]) / (now_s - before[0])

    def _back_end(self, before: ThreadTimes, now: ThreadTimes, seconds: float) -> BackEnd:
        def cpus(name: str) -> float:
            return max(0, getattr(now, name) - getattr(before, name)) / 1e6 / seconds

        queues = self._queues
        return BackEnd(
            vcpu_cpus=cpus("vcpu_us"),
            stolen=stolen_share(max(0, now.vcpu_us - before.vcpu_us), max(0, now.vcpu_wait_us - before.vcpu_wait_us)),
            device_cpus=cpus("device_us"),
            share_cpus=cpus("share_us"),
            vhost_cpus=cpus("vhost_us"),
            exits_per_s=self._exits_per_s,
            kicks_per_s=None if queues is None else queues.kicks / queues.seconds,
            notifications_per_s=None if queues is None else queues.notifications / queues.seconds,
        )


@contextlib.asynccontextmanager
async def monitored(machine: VirtualMachine) -> AsyncIterator[VmMonitor]:
    """A monitor whose samples are taken meanwhile."""
    monitor = VmMonitor(machine)
    task = asyncio.create_task(monitor.run(), name=f"monitor of {machine.spec.name}")
    try:
        yield monitor
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def shown(front: FrontEnd, back: BackEnd) -> JsonObject:
    """As plain values, rounded."""
    ratio = back.kicks_per_notification

    def rounded(figures: Mapping[str, float | int | None]) -> JsonObject:
        return {name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()}

    return {"frontEnd": rounded(asdict(front)), "backEnd": rounded({**asdict(back), "kicks_per_notification": ratio})}
