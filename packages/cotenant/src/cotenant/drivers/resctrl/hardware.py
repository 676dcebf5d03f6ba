"""The machine's partitioning capabilities, from resctrl's info folder.

The number of ways, the smallest mask and the unit of bandwidth differ by processor, and a wrong mask is refused. Read
once into `CacheHardware`. AMD's bandwidth is distinguished from Intel's by the root's own value: a percentage never is
above 100.
Limits: a tree mounted with `mba_MBps` has a third unit, and then bandwidth counts as not divisible; so does a cache
with separate code and data partitions.

Source: Linux, Documentation/filesystems/resctrl.rst.
"""

from __future__ import annotations

from cotenant.drivers.resctrl.schemata import parse_schemata
from cotenant.drivers.resctrl.tree import NEEDS, ResctrlTree
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.machine.cache_partition import Bandwidth, CacheHardware

_MAX_ABSOLUTE = 1 << 16  # eighths of GB/s: more is megabytes, another unit


def read_hardware(tree: ResctrlTree) -> CacheHardware:
    """Read the capabilities. Raises `Unsupported` where it has no cache allocation, `Permanent` where its files are
    malformed.
    """
    if not tree.present or not (tree.root / "info/L3/cbm_mask").is_file():
        raise Unsupported("cache partitions", NEEDS)
    try:
        ways = int(tree.read("", "info/L3/cbm_mask").strip(), 16).bit_count()
        least = int(tree.read("", "info/L3/min_cbm_bits"))
        most = int(tree.read("", "info/L3/num_closids"))
        root = parse_schemata(tree.read("", "schemata"))
        caches, memory = root.line("L3"), root.line("MB")
        if caches is None:
            raise Unsupported(
                "cache partitions", "a tree mounted without cdp, which partitions code and data separately"
            )
        kind, step, floor = Bandwidth.NONE, 10, 10
        if memory is not None and (tree.root / "info/MB").is_dir():
            max_granted = max(value for _, value in memory.domains)
            if max_granted <= 100:
                kind = Bandwidth.PERCENT
                step = max(1, int(tree.read("", "info/MB/bandwidth_gran")))
                floor = max(1, int(tree.read("", "info/MB/min_bandwidth")))
            elif max_granted <= _MAX_ABSOLUTE:
                kind = Bandwidth.ABSOLUTE
        return CacheHardware(
            ways=ways,
            cache_domains=tuple(domain for domain, _ in caches.domains),
            min_ways=least,
            bandwidth=kind,
            bandwidth_domains=tuple(domain for domain, _ in memory.domains)
            if memory and kind is not Bandwidth.NONE
            else (),
            step_percent=step,
            min_percent=floor,
            max_groups=most,
        )
    except (ValueError, InvalidInput) as error:
        raise Permanent(f"resctrl's info folder is malformed: {error}") from error
