"""What a guest's kernel says of itself: its run queue, waits for a CPU, soft interrupts, stolen time, pressure, and the
interrupts of its virtual devices.

Counters since boot, as read; the host makes rates of them. A counter that this kernel lacks is left out. Standard
library only.

Source: Documentation/scheduler/sched-stats.rst, Documentation/accounting/psi.rst, proc_stat(5), proc_interrupts(5).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

_TICK_US = 10_000  # of /proc/stat: USER_HZ is 100


def counters(proc: Path = Path("/proc")) -> dict[str, Any]:
    """All of them, by name."""
    found: dict[str, Any] = {}
    with suppress(OSError, LookupError, ValueError):
        words = (proc / "stat").read_text().split("\n", 1)[0].split()[1:]
        found["softirqUs"], found["stealUs"] = int(words[6]) * _TICK_US, int(words[7]) * _TICK_US
    with suppress(OSError, LookupError, ValueError):
        found["runnable"] = max(0, int((proc / "loadavg").read_text().split()[3].split("/")[0]) - 1)  # the reader
    with suppress(OSError, LookupError, ValueError):
        waited, slices = 0, 0
        for line in (proc / "schedstat").read_text().splitlines():
            if line.startswith("cpu"):
                fields = line.split()
                waited, slices = waited + int(fields[8]), slices + int(fields[9])
        found["waitUs"], found["slices"] = waited // 1000, slices
    for name in ("cpu", "memory", "io"):
        with suppress(OSError, LookupError, ValueError):
            some = (proc / "pressure" / name).read_text().split("\n", 1)[0]
            found[f"{name}PressureUs"] = int(some.rpartition("total=")[2])
    with suppress(OSError, LookupError, ValueError):
        found["softirqs"] = _soft_interrupts((proc / "softirqs").read_text())
    with suppress(OSError, LookupError, ValueError):
        found["notifications"] = _virtio((proc / "interrupts").read_text())
    return found


def _soft_interrupts(text: str) -> dict[str, int]:
    rows = (line.split() for line in text.splitlines()[1:])
    return {row[0].rstrip(":"): sum(map(int, row[1:])) for row in rows if row}


def _virtio(text: str) -> int:
    """Interrupts that virtual devices raised: their notifications, as far as they were not merged."""
    head, *lines = text.splitlines()
    cpus = len(head.split())
    return sum(sum(map(int, line.split()[1 : 1 + cpus])) for line in lines if "virtio" in line)
