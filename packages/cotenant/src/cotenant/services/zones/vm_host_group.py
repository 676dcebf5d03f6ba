"""The group of this host in which a zone's machine runs, and its limit of CPU time.

QEMU and virtiofsd join it before they run a line of their own, so what they use, threads of vCPUs and devices alike, is
counted and limited there. It is made where only its parent exists, in every tree of the host, and removed at the end.
Limits: a limit is written to a group that was made here only, since another one has an owner; the memory of a machine
is limited by its size.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.model.errors import Permanent
from cotenant.services.zones.vm_definition import VmDefinition

GROUPS_SUFFIX = ".groups"  # of a zone's record of groups that were made
_PERIOD_US = 100_000


@contextlib.contextmanager
def host_group(layout: CgroupLayout, vm: VmDefinition, record: Path) -> Iterator[tuple[Path, ...]]:
    """The files through which processes become members of the machine's group, in every tree of the host. Groups
    that were made, also by a process that was killed (`record`), are removed at the end. Raises `Permanent`.
    """
    made = [Path(line) for line in record.read_text().splitlines()] if record.exists() else []
    procs: list[Path] = []
    try:
        if vm.group:
            versions = {hierarchy.path: hierarchy.version for hierarchy in layout.by_controller.values()}
            for tree, version in sorted(versions.items()):
                group = Path(tree) / vm.group
                if not group.is_dir() and group.parent.is_dir():
                    group.mkdir()
                    made.append(group)
                    record.write_text("\n".join(map(str, made)))
                    if version == 1:
                        _inherit_cpus(group)
                if group.is_dir():
                    procs.append(group / "cgroup.procs")
            if not procs:
                raise Permanent(f"group {vm.group} cannot be made: its parent does not exist")
            if vm.cpu_milli:
                _limit_cpu(layout, vm, made)
        yield tuple(procs)
    finally:
        _remove(made, record)


def _inherit_cpus(group: Path) -> None:
    """A new group of v1's cpuset tree has no CPUs and no memory nodes, and nothing may join it: as those above it."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        above, own = group.parent / name, group / name
        with contextlib.suppress(FileNotFoundError):
            if not own.read_text().strip() and (given := above.read_text().strip()):
                own.write_text(given)


def _limit_cpu(layout: CgroupLayout, vm: VmDefinition, made: list[Path]) -> None:
    tree = layout.by_controller["cpu"]
    group, quota_us = Path(tree.path) / vm.group, vm.cpu_milli * _PERIOD_US // 1000
    if group not in made:
        raise Permanent(f"vm.cpu_milli: group {vm.group} is there already, and its limit its owner's: name another one")
    limits = {"cpu.max": f"{quota_us} {_PERIOD_US}"}
    if tree.version == 1:
        limits = {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.cfs_quota_us": str(quota_us)}
    for name, value in limits.items():
        try:
            (group / name).write_text(value)
        except OSError as error:
            hint = "the group above it needs the CPU controller, and a quota of its own that is no smaller"
            raise Permanent(f"vm.cpu_milli: {group / name}: {error.strerror}: {hint}") from error


def remove_groups(record: Path) -> None:
    """Remove the groups that a record lists, where nothing is in them, and the record."""
    _remove([Path(line) for line in record.read_text().splitlines()], record)


def _remove(groups: list[Path], record: Path) -> None:
    for group in groups:
        with contextlib.suppress(OSError):
            group.rmdir()
    record.unlink(missing_ok=True)
