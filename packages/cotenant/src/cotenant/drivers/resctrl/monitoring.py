"""Cache occupancy and memory traffic of a class.

Bandwidth counters are narrow and wrap, and the kernel returns `Unavailable` where hardware has no spare counter, or
none yet. The files' numbers summed over domains, with what could not be read as a gap; counters grow until the group is
recreated.
Limits: one class, all of its tasks together. Where one domain cannot be read, the sum is not known.

Source: Linux, Documentation/filesystems/resctrl.rst.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.resctrl.tree import NEEDS, ResctrlTree
from cotenant.model.errors import Permanent, Transient, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Vanished
from cotenant.model.whole_number import whole_number

_FILES = ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes")


@dataclass(frozen=True, slots=True)
class CacheUse:
    """Use of one class, over all domains; None = not known."""

    group: str
    occupancy_bytes: int | None  # level: cache held now
    total_bytes: int | None  # counter: moved to and from memory
    local_bytes: int | None  # counter: of that, within its own socket
    gaps: tuple[Gap, ...] = ()


def cache_use(tree: ResctrlTree, group: str) -> CacheUse:
    """Read the use of a class. Raises `Vanished` where there is none, `Unsupported` where this machine does not
    monitor.
    """
    folder = tree.path(group)
    if not folder.is_dir():
        raise Vanished(f"resctrl /{group}: no such group")
    domains = sorted(folder.glob("mon_data/mon_L3_*"))
    if not domains:
        raise Unsupported("cache monitoring", f"{NEEDS}, on a CPU that monitors")
    gaps: list[Gap] = []
    sums = [_sum(tree, group, domains, name, gaps) for name in _FILES]
    return CacheUse(group, sums[0], sums[1], sums[2], tuple(gaps))


def _sum(tree: ResctrlTree, group: str, domains: list[Path], name: str, gaps: list[Gap]) -> int | None:
    total = 0
    for domain in domains:
        try:
            text = tree.read(group, f"mon_data/{domain.name}/{name}").strip()
        except (Vanished, Permanent, Transient):
            text = "absent"
        count = whole_number(text)
        if count is None:
            gaps.append(Gap(f"{name} of {domain.name}", f"hardware that counts it; it reads {text[:40]!r}"))
            return None
        total += count
    return total
