"""Processes of a group."""

from __future__ import annotations

from cotenant.drivers.cgroup.files import CgroupTree
from cotenant.drivers.cgroup.layout import CgroupLayout

_MAX_BELOW = 64  # groups that are looked through


def first_process(layout: CgroupLayout, group: str) -> int | None:
    """Some process of the group or of one below it; None where there is none."""
    hierarchy = layout.by_controller.get("cpu") or layout.unified
    if hierarchy is None:
        return None
    try:
        tree = CgroupTree(hierarchy.path)
    except OSError:
        return None
    try:
        waiting = [group]
        for _ in range(_MAX_BELOW):
            if not waiting:
                return None
            name = waiting.pop(0)
            try:
                pids = tree.read(name, "cgroup.procs").split()
                if pids and pids[0] != "0":  # 0: of another pid namespace
                    return int(pids[0])
                waiting.extend(f"{name}/{below}" for below in tree.children(name))
            except OSError:
                continue
        return None
    finally:
        tree.close()
