"""Kubelet's own groups on this node: where they are, and which of them may be written.

The cgroup driver of the kubelet decides the names of its groups (`kubepods.slice/...` or `kubepods/...`), nodes of one
cluster differ, and one value for all of them is silently wrong on some. Each node looks into its own tree.
Limits: a kubelet that makes no groups for classes (cgroupsPerQOS: false) has no root; of several kubelets on one tree
all roots are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from enum import StrEnum

from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups
from cotenant.model.errors import Unsupported
from cotenant.model.kubelet.group_names import best_effort_group, is_root
from cotenant.model.machine.knob import Vanished

WANTED = "group of a kubelet (kubepods or kubepods.slice)"
_DEPTH = 3  # kubelet's root may be below other groups (--cgroup-root)
_MOST = 4_000  # groups that are looked at


class KubeletGroups(StrEnum):
    """Which of kubelet's groups may be written."""

    BEST_EFFORT = "best-effort"  # the group of all best-effort pods, and all below it
    ALL = "all"  # services' too


def find_roots(children: Callable[[str], Iterable[str]]) -> tuple[str, ...]:
    """The roots that are nearest to the tree's own; `children` lists the paths of the groups below one."""
    found: list[str] = []
    level, looked = [""], 0
    for _ in range(_DEPTH):
        below: list[str] = []
        for group in level:
            for child in children(group):
                looked += 1
                (found if is_root(child.rpartition("/")[2]) else below).append(child)
        if found or looked > _MOST:
            break
        level = below
    return tuple(found)


def writable_below(roots: Sequence[str], which: KubeletGroups) -> tuple[str, ...]:
    """The groups whose knobs, and those of all groups below them, may be written."""
    return tuple(roots) if which is KubeletGroups.ALL else tuple(best_effort_group(root) for root in roots)


def roots_here(layout: CgroupLayout) -> tuple[str, ...]:
    """Kubelet's roots on this machine now; () where there are none. Raises `Unsupported` where the tree cannot be
    opened.
    """
    with closing(Groups(layout)) as groups:

        def children(group: str) -> tuple[str, ...]:
            try:
                return groups.children(group)
            except Vanished:
                return ()

        return find_roots(children)


def writable_here(layout: CgroupLayout, which: KubeletGroups) -> tuple[str, ...]:
    """`writable_below` of this machine. Raises `Unsupported` where no kubelet has a group."""
    roots = roots_here(layout)
    if not roots:
        raise Unsupported(f"knobs of kubelet's groups ({which})", f"a {WANTED} in the cgroup tree")
    return writable_below(roots, which)
