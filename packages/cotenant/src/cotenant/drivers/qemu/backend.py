"""What a machine costs and does on its host: time of its threads, exits, kicks and notifications of its queues.

A guest that is slow sees only its own side. The host sees how long vCPU threads waited for a CPU (what the guest calls
stolen time), what QEMU's and virtiofsd's threads use, how often KVM left the guest, and how often guest and device
called each other: a kick is the guest's call for a queue, a notification the device's; many of both for little work is
a device that does not batch. QEMU counts neither, it can trace both, which is switched on for a moment and counted.
Limits: under TCG there are no exits; kicks that a kernel's vhost thread takes are not QEMU's to see.

Source: QEMU 7.2, docs/devel/tracing.rst (log back end), qapi/stats.json; Documentation/scheduler/sched-stats.rst.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.qemu.machine import VirtualMachine
from cotenant.model.errors import CotenantError
from cotenant.model.vms.host_machine import ThreadTime

_KICK, _NOTIFICATION = "virtio_queue_notify", "virtio_notify"
_MAX_TRACE = 8 << 20  # bytes of a sample
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """Counters of a machine's threads since they began, in microseconds. `vcpu_wait_us`: ready and without a CPU;
    `device_us`: QEMU's other threads; `share_us`: virtiofsd's; `vhost_us`: the kernel's for this machine.
    """

    vcpu_us: int
    vcpu_wait_us: int
    vcpu_slices: int
    device_us: int
    share_us: int
    vhost_us: int


@dataclass(frozen=True, slots=True)
class QueueSample:
    """Calls between the guest and its devices during a moment."""

    kicks: int
    notifications: int
    seconds: float


def read_threads(qemu: int, share: int, proc: Path = _PROC) -> ThreadTimes:
    """Of QEMU's and virtiofsd's processes. A thread that ends meanwhile is left out."""
    vcpu, wait, slices, device, vhost = 0, 0, 0, 0, 0
    for _, name, times in thread_times(proc / str(qemu)):
        if name.startswith("CPU "):
            vcpu, wait, slices = vcpu + times.run_us, wait + times.wait_us, slices + times.slices
        elif name.startswith("vhost-"):
            vhost += times.run_us
        else:
            device += times.run_us
    shared = sum(times.run_us for _, _, times in thread_times(proc / str(share)))
    return ThreadTimes(vcpu, wait, slices, device, shared, vhost)


def thread_times(process: Path) -> Iterator[tuple[int, str, ThreadTime]]:
    """Number, name and times of each thread of a process, its folder in /proc."""
    for task in (process / "task").glob("*"):
        try:
            name = (task / "comm").read_text().strip()
            ran, waited, turns = (task / "schedstat").read_text().split()
        except (OSError, ValueError):
            continue
        yield int(task.name), name, ThreadTime(int(ran) // 1000, int(waited) // 1000, int(turns))


async def read_exits(machine: VirtualMachine) -> int | None:
    """How often KVM left the guest, of all vCPUs; None without KVM. Raises `Transient`."""
    answer = await machine.control("query-stats", target="vcpu", providers=[{"provider": "kvm", "names": ["exits"]}])
    found = [
        stat["value"]
        for vcpu in (answer if isinstance(answer, list) else ())
        for stat in vcpu.get("stats", ())
        if stat.get("name") == "exits" and isinstance(stat.get("value"), int)
    ]
    return sum(found) if found else None


async def sample_queues(
    machine: VirtualMachine, seconds: float, wait: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> QueueSample:
    """Trace the calls of all virtual devices for so long. Raises `Transient`, also where this QEMU cannot trace."""
    log = machine.trace_log
    loop = asyncio.get_running_loop()
    begin = log.stat().st_size if log.exists() else 0
    started_s = loop.time()
    try:
        for event in (_KICK, _NOTIFICATION):
            await machine.control("trace-event-set-state", name=event, enable=True)
        await wait(seconds)
    except BaseException:
        with contextlib.suppress(CotenantError):  # a machine that is gone must not turn a cancellation into its error
            await _end_tracing(machine)
        raise
    await _end_tracing(machine)
    length_s = max(loop.time() - started_s, 1e-6)
    return _counted(log, begin, length_s)


async def _end_tracing(machine: VirtualMachine) -> None:
    for event in (_KICK, _NOTIFICATION):
        await machine.control("trace-event-set-state", name=event, enable=False)


def _counted(log: Path, begin: int, length_s: float) -> QueueSample:
    """The events after `begin`. What was read gives its blocks back: QEMU goes on at its own place in the file."""
    if not log.exists():
        return QueueSample(0, 0, length_s)
    with log.open("r+b") as file:
        file.seek(begin)
        lines = file.read(_MAX_TRACE).split(b"\n")
        if file.tell() > _MAX_TRACE:
            file.truncate(0)
    kicks = sum(line.lstrip(b"\0").startswith(_KICK.encode() + b" ") for line in lines)
    notifications = sum(line.lstrip(b"\0").startswith(_NOTIFICATION.encode() + b" ") for line in lines)
    return QueueSample(kicks, notifications, length_s)
