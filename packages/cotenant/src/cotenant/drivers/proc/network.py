"""Network traffic of a container, and the speed of the machine's uplink.

Cgroups do not count packets; a network namespace does. /proc/PID/net/dev of any of its processes, every device but the
loopback.
Limits: a process in the host's own network namespace has no figures of its own: None.
"""

from __future__ import annotations

import os
from pathlib import Path

from cotenant.drivers.proc.host import network_bytes
from cotenant.model.whole_number import whole_number


def container_network(pid: int, proc_root: str = "/proc") -> tuple[int, int] | None:
    """Bytes received and sent in the process's network namespace; None where it has none of its own, or has exited."""
    try:
        own = os.stat(os.path.join(proc_root, str(pid), "ns/net")).st_ino
        if own == os.stat(os.path.join(proc_root, "1/ns/net")).st_ino:
            return None
        text = Path(proc_root, str(pid), "net/dev").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return network_bytes(text, every=True)


def uplink_bps(sys_root: str = "/sys") -> int | None:
    """Bytes per second, in one direction, over the physical devices that are up; None where no driver says it, as in
    many virtual machines.
    """
    total = 0
    try:
        devices = sorted(Path(sys_root, "class/net").iterdir())
    except OSError:
        return None
    for device in devices:
        try:
            if not (device / "device").exists():  # a bridge, a tunnel, the loopback
                continue
            megabits = whole_number((device / "speed").read_text(encoding="ascii", errors="replace").strip())
        except OSError:  # it is down
            continue
        total += (megabits or 0) * 125_000
    return total or None
