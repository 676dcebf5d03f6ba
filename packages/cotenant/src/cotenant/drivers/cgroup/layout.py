"""The cgroup trees of this machine, and the tree of each controller.

Distributions mount controllers separately (v1), joined (`cpu,cpuacct`), all in one tree (v2), or v1 with a v2 tree
beside it that has only pressure and usage (hybrid); and an agent in a container sees the host's trees mounted
elsewhere. `detect` reads mountinfo once and returns a `CgroupLayout`; everything else asks it for a controller's
tree. For a root that mountinfo does not list (a copy, a test's tree), its folders are examined instead.
Limits: later mounts are not seen; of a tree mounted several times, a complete mount wins, then the shortest path.

Source: proc_pid_mountinfo(5); cgroups(7); systemd, docs/CGROUP_DELEGATION.md, for the names of hybrid set-ups.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cotenant.model.errors import Unsupported

# controllers of v1 mounts, so that options such as "rw" are not taken for one
_V1_CONTROLLERS = frozenset(
    [
        "cpu",
        "cpuacct",
        "cpuset",
        "memory",
        "blkio",
        "pids",
        "freezer",
        "devices",
        "hugetlb",
        "net_cls",
        "net_prio",
        "perf_event",
        "rdma",
        "misc",
    ]
)
_OCTAL = re.compile(r"\\([0-7]{3})")


class LayoutKind(StrEnum):
    """The cgroup version of a machine."""

    V1 = "v1"
    V2 = "v2"
    HYBRID = "hybrid"  # controllers on v1, and a v2 tree beside them


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One tree of groups."""

    path: str  # where its root is mounted
    version: int  # 1 or 2
    controllers: frozenset[str]


@dataclass(frozen=True, slots=True)
class CgroupLayout:
    """All trees of this machine. Controllers have their v2 names where the two differ: "io" is v1's "blkio"."""

    kind: LayoutKind
    hierarchies: tuple[Hierarchy, ...]
    by_controller: Mapping[str, Hierarchy]
    unified: Hierarchy | None  # the v2 tree: has pressure, usage and cgroup.kill even without controllers

    def version(self, controller: str) -> int | None:
        """1 or 2, or None where this machine has no such controller."""
        hierarchy = self.by_controller.get(controller)
        return None if hierarchy is None else hierarchy.version


def detect(cgroup_root: str | None = None, mountinfo: str = "/proc/self/mountinfo") -> CgroupLayout:
    """The trees mounted at or below `cgroup_root` (anywhere, if None). Raises `Unsupported` where there are none.

    `mountinfo`: path of a file in that format.
    """
    try:
        # mount points may be any bytes
        mounted = Path(mountinfo).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        mounted = ""
    root = None if cgroup_root is None else os.path.realpath(cgroup_root)
    found = parse_mountinfo(mounted, root)
    if not found and root is not None:
        found = _scan_folders(root)
    return arrange(found, cgroup_root)


def arrange(found: tuple[Hierarchy, ...], cgroup_root: str | None = None) -> CgroupLayout:
    """The layout of these trees. v1 wins where both versions list a controller, since v2 then lacks its files."""
    if not found:
        where = "" if cgroup_root is None else f" at or below {cgroup_root}"
        raise Unsupported("reading cgroups", f"a cgroup file system mounted{where}")
    by_controller: dict[str, Hierarchy] = {}
    for hierarchy in sorted(found, key=lambda tree: -tree.version):
        for controller in hierarchy.controllers:
            by_controller["io" if controller == "blkio" else controller] = hierarchy
    unified = next((tree for tree in found if tree.version == 2), None)
    kind = LayoutKind.V1 if unified is None else LayoutKind.V2
    if unified is not None and any(tree.version == 1 for tree in found):
        kind = LayoutKind.HYBRID
    return CgroupLayout(kind, found, by_controller, unified)


def parse_mountinfo(text: str, root: str | None = None) -> tuple[Hierarchy, ...]:
    """The cgroup trees that mountinfo lists, at or below `root`. Named v1 trees without a controller (systemd's)
    are left out.
    """
    found: dict[tuple[int, frozenset[str]], Hierarchy] = {}
    ranks: dict[tuple[int, frozenset[str]], tuple[bool, int]] = {}
    for line in text.splitlines():
        before, dash, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if not dash or len(fields) < 6 or len(kinds) < 3 or kinds[0] not in ("cgroup", "cgroup2"):
            continue
        path = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
        if root is not None and path != root and not path.startswith(root.rstrip("/") + "/"):
            continue
        if kinds[0] == "cgroup2":
            hierarchy = Hierarchy(path, 2, _unified_controllers(path))
            key = (2, frozenset[str]())
        else:
            controllers = frozenset(kinds[2].split(",")) & _V1_CONTROLLERS
            if not controllers:
                continue
            hierarchy = Hierarchy(path, 1, controllers)
            key = (1, controllers)
        # the same tree again: a container's own part of it (another root than "/"), or a bind mount
        rank = (fields[3] != "/", len(path))
        if key not in found or rank < ranks[key]:
            found[key], ranks[key] = hierarchy, rank
    return tuple(found.values())


def _unified_controllers(path: str) -> frozenset[str]:
    try:
        return frozenset(Path(path, "cgroup.controllers").read_text(encoding="ascii", errors="replace").split())
    except OSError:
        return frozenset()


def _scan_folders(root: str) -> tuple[Hierarchy, ...]:
    """Trees by their folders' names: `cpu,cpuacct`, `memory`, `unified`; links are resolved."""
    if os.path.exists(os.path.join(root, "cgroup.controllers")):
        return (Hierarchy(root, 2, _unified_controllers(root)),)
    found: dict[str, Hierarchy] = {}
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return ()
    for name in names:
        path = os.path.realpath(os.path.join(root, name))
        controllers = frozenset(os.path.basename(path).split(","))
        if not os.path.isdir(path) or path in found:
            continue
        if os.path.exists(os.path.join(path, "cgroup.controllers")):
            found[path] = Hierarchy(path, 2, _unified_controllers(path))
        elif controllers <= _V1_CONTROLLERS:
            found[path] = Hierarchy(path, 1, controllers)
    return tuple(found.values())
