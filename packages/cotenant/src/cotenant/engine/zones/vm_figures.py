"""Figures of a zone's virtual machine from two readings of its counters: the guest's side and the host's.

A guest is not trusted: a counter that is missing, goes back or is no number gives no figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """The guest's own side. Shares are of the guest's time, not of a CPU's: pressure as the kernel defines it,
    `softirq`, `steal` in CPUs. `wait_ms`: a task's mean wait for a CPU in each turn.
    """

    runnable: int | None
    wait_ms: float | None
    softirq_cpus: float | None
    steal_cpus: float | None
    cpu_pressure: float | None
    memory_pressure: float | None
    io_pressure: float | None
    interrupts_per_s: float | None


@dataclass(frozen=True, slots=True)
class BackEnd:
    """The host's side, in CPUs and a second. `stolen`: of the time in which vCPUs wanted to run, the share that the
    host did not give; `exits_per_s`: None without KVM; kicks and notifications: None where QEMU cannot trace.
    """

    vcpu_cpus: float
    stolen: float
    device_cpus: float
    share_cpus: float
    vhost_cpus: float
    exits_per_s: float | None
    kicks_per_s: float | None = None
    notifications_per_s: float | None = None

    @property
    def kicks_per_notification(self) -> float | None:
        """How many calls of the guest came on one of its devices."""
        if self.kicks_per_s is None or not self.notifications_per_s:
            return None
        return self.kicks_per_s / self.notifications_per_s


def front_end(before: Mapping[str, object], after: Mapping[str, object], seconds: float) -> FrontEnd:
    """Between two answers of the guest's `counters`, `seconds` apart."""

    def grown(name: str) -> int | None:
        first, last = _count(before.get(name)), _count(after.get(name))
        return None if first is None or last is None or last < first else last - first

    def share(name: str) -> float | None:
        found = grown(name)
        return None if found is None else found / 1e6 / seconds

    waited, turns, interrupts = grown("waitUs"), grown("slices"), grown("notifications")
    return FrontEnd(
        runnable=_count(after.get("runnable")),
        wait_ms=None if waited is None or not turns else waited / 1000 / turns,
        softirq_cpus=share("softirqUs"),
        steal_cpus=share("stealUs"),
        cpu_pressure=share("cpuPressureUs"),
        memory_pressure=share("memoryPressureUs"),
        io_pressure=share("ioPressureUs"),
        interrupts_per_s=None if interrupts is None else interrupts / seconds,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def stolen_share(ran_us: int, waited_us: int) -> float:
    """Of the time in which threads ran or wanted to, the share in which they waited."""
    return waited_us / (ran_us + waited_us) if ran_us + waited_us > 0 else 0.0
