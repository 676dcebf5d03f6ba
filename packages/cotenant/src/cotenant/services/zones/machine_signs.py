"""Signs of this machine between two readings of a zone: soft interrupts, and cores whose two threads are busy at once.

How long both threads of a core were busy together is not counted by the kernel; of shares a and b that each was busy,
at least a + b - 1 was together, and a * b where neither knows of the other. The latter is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from cotenant.drivers.proc.topology import read_topology
from cotenant.model.cpus.topology import CpuTopology
from cotenant.model.errors import CotenantError
from cotenant.model.machine.counters import LogicalCpu
from cotenant.model.zones.zone_reading import MachineSigns

_SOFTIRQ, _IDLE, _IO_WAIT, _FIELDS = 6, 3, 4, 8


class SignReader:
    """`read`: since the last call; None at the first, and where this machine's counters cannot be read."""

    def __init__(
        self, proc: Path = Path("/proc"), topology: Callable[[], Iterable[LogicalCpu]] = read_topology
    ) -> None:
        self._proc = proc
        try:
            cores = CpuTopology.of(topology()).cores
        except CotenantError:
            cores = ()
        self._pairs = [
            tuple(cpu for cpu in range(core.mask.bit_length()) if core.mask >> cpu & 1)
            for core in cores
            if core.mask.bit_count() > 1
        ]
        self._before: Mapping[int, tuple[int, ...]] | None = None

    def read(self) -> MachineSigns | None:
        """As the class says."""
        try:
            now = _by_cpu((self._proc / "stat").read_text())
        except (OSError, ValueError):
            return None
        before, self._before = self._before, now
        if before is None:
            return None
        grown = {
            cpu: [max(0, last - first) for first, last in zip(before[cpu], ticks, strict=False)]
            for cpu, ticks in now.items()
            if cpu in before
        }
        total = max((sum(ticks) for ticks in grown.values()), default=0)
        if not total:
            return None
        busy = {cpu: 1 - (ticks[_IDLE] + ticks[_IO_WAIT]) / max(1, sum(ticks)) for cpu, ticks in grown.items()}
        shares = [busy.get(pair[0], 0.0) * busy.get(pair[1], 0.0) for pair in self._pairs]
        softirq = sum(ticks[_SOFTIRQ] for ticks in grown.values()) / total
        return MachineSigns(len(now), softirq, sum(shares) / len(shares) if shares else None)


def _by_cpu(text: str) -> dict[int, tuple[int, ...]]:
    rows = (line.split() for line in text.splitlines() if line.startswith("cpu") and not line.startswith("cpu "))
    return {int(row[0][3:]): tuple(map(int, row[1 : 1 + _FIELDS])) for row in rows}
