"""CPU topology: core, socket, NUMA node.

Policies choose CPUs by core and node, but sysfs numbers cores per socket, may lack nodes, and CPUs come and go. Online
CPUs only, cores numbered through the machine by (socket, core), sockets and nodes as in sysfs.
Limits: what sysfs does not report is assumed to be the simplest: each CPU a core of its own, one socket, node 0.

Source: Linux, Documentation/admin-guide/cputopology.rst.
"""

from __future__ import annotations

from pathlib import Path

from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.counters import LogicalCpu


def read_topology(sys_root: str = "/sys") -> tuple[LogicalCpu, ...]:
    """The online CPUs, ascending; () where sysfs has none."""
    base = Path(sys_root, "devices/system/cpu")
    cpus = _cpus(base / "online")
    if not cpus:
        # without hot-plugging: every CPU that has a folder
        cpus = tuple(sorted(int(path.name[3:]) for path in base.glob("cpu[0-9]*") if path.name[3:].isdecimal()))
    node_of = {}
    for path in sorted(Path(sys_root, "devices/system/node").glob("node[0-9]*")):
        if path.name[4:].isdecimal():
            node_of.update(dict.fromkeys(_cpus(path / "cpulist"), int(path.name[4:])))
    cores: dict[tuple[int, int, int], int] = {}
    found = []
    for cpu in cpus:
        place = base / f"cpu{cpu}" / "topology"
        socket = _number(place / "physical_package_id")
        core = _number(place / "core_id")
        # a CPU without a core number is its own core; dies number their cores separately
        key = (socket, _number(place / "die_id"), core) if core >= 0 else (-1, -1, -2 - cpu)
        number = cores.setdefault(key, len(cores))
        found.append(LogicalCpu(cpu, number, max(0, socket), node_of.get(cpu, 0)))
    return tuple(found)


def read_last_level_caches(sys_root: str = "/sys") -> dict[int, int]:
    """Of each online CPU the lowest one that shares its cache of the last level; without those that sysfs says nothing
    of.
    """
    base = Path(sys_root, "devices/system/cpu")
    found = {}
    for cpu in _cpus(base / "online"):
        levels = {_number(place / "level"): place for place in (base / f"cpu{cpu}" / "cache").glob("index[0-9]*")}
        shared = _cpus(levels[max(levels)] / "shared_cpu_list") if levels else ()
        if shared:
            found[cpu] = min(shared)
    return found


def _cpus(path: Path) -> tuple[int, ...]:
    try:
        return parse_cpus(path.read_text(encoding="ascii", errors="replace"))
    except (OSError, InvalidInput):
        return ()


def _number(path: Path) -> int:
    """-1 where it is not reported."""
    try:
        return int(path.read_text(encoding="ascii", errors="replace"))
    except (OSError, ValueError):
        return -1


def read_memory_bytes(sys_root: str = "/sys") -> tuple[tuple[int, int], ...]:
    """(NUMA node, bytes of memory), ascending; () where sysfs has none."""
    found = []
    for path in Path(sys_root, "devices/system/node").glob("node[0-9]*"):
        try:
            text = Path(path, "meminfo").read_text(encoding="ascii", errors="replace")
        except OSError:
            continue
        # "Node 0 MemTotal:       16316412 kB"
        words = next((line.split() for line in text.splitlines() if " MemTotal:" in line), [])
        if path.name[4:].isdecimal() and len(words) == 5 and words[3].isdecimal():
            found.append((int(path.name[4:]), int(words[3]) * 1024))
    return tuple(sorted(found))
