"""CPU time and memory of processes from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds so far and resident MiB of one process, threads included."""

    cpu_s: float
    rss_mib: float


def usage(pid: int) -> Usage:
    """Usage of a process. Raises FileNotFoundError when it has exited."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Usage((int(fields[11]) + int(fields[12])) * _TICK_S, pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


def find(name: str) -> int:
    """The newest process with this command name (e.g. `kube-apiserver`). Raises SystemExit if there is none."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if Path(command[0].decode(errors="replace")).name == name:
            found.append(int(folder.name))
    if not found:
        raise SystemExit(f"bench.kube: no running process is called {name!r}")
    return max(found)
