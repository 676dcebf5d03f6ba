"""Writes of knobs that take more than one file or one attempt.

Some knobs have several files that must change in an order that the kernel accepts at each step, and some values cannot
be written as such. One function per such knob; a refusal leaves the knob as it was.
Limits: errors are the kernel's `OSError`s, interpreted by `knobs.py`; a new period passes through "no limit" for some
microseconds, because no order of v1's two files suits both parent and children.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path

from cotenant.drivers.cgroup.files import CgroupTree
from cotenant.drivers.cgroup.translation import FILES, device_limits_of, throttle_lines
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.knob_values import DeviceLimits, parse_io_max


def set_bandwidth(tree: CgroupTree, group: str, quota_us: int, period_us: int) -> None:
    """Set v1's quota and period. On a refusal both keep their values."""
    quota_file, period_file = FILES[Knob.CPU_MAX].v1
    before = tree.read(group, quota_file), tree.read(group, period_file)
    if int(before[1]) == period_us:
        tree.write(group, quota_file, str(quota_us))
        return
    try:
        tree.write(group, quota_file, "-1")
        tree.write(group, period_file, str(period_us))
        tree.write(group, quota_file, str(quota_us))
    except OSError:
        tree.write(group, quota_file, "-1")
        tree.write(group, period_file, before[1])
        tree.write(group, quota_file, before[0])
        raise


def refuse_while_idle(tree: CgroupTree, target: KnobTarget, value: str) -> None:
    """Raise `InvalidInput` where the group is idle: the kernel refuses a weight then, without saying why."""
    idle_file = FILES[Knob.CPU_IDLE].v2[0]
    if tree.has(target.group, idle_file) and tree.read(target.group, idle_file) == "1":
        raise InvalidInput(str(target), value, "cpu.idle to be 0 first", "an idle group has no weight of its own")


def set_cpus(
    tree: CgroupTree, target: KnobTarget, version: int, name: str, text: str, possible: str, is_restore: bool = False
) -> None:
    """Set a CPU set. `possible`: the file that lists the machine's CPUs.

    An empty set that the kernel refuses becomes every possible CPU on v2, which limits it to the parent's, and the
    parent's set on v1.
    """
    if text or version == 2 or is_restore:
        try:
            tree.write(target.group, name, text)
            return
        except OSError as error:
            # no kernel removes a set's last CPU while tasks are in it, even where it was created empty
            if text or error.errno != errno.ENOSPC:
                raise
    if version == 2:
        tree.write(target.group, name, _every_cpu(tree, possible))
    else:
        tree.write(target.group, name, tree.read(target.group.rpartition("/")[0], name))


def _every_cpu(tree: CgroupTree, possible: str) -> str:
    try:
        return Path(possible).read_text(encoding="ascii").strip()
    except OSError:
        return tree.read("", "cpuset.cpus.effective")


def reclaim(tree: CgroupTree, group: str, name: str, value: str) -> None:
    """Reclaim memory; less than requested is not an error."""
    try:
        tree.write(group, name, value)
    except OSError as error:
        # EAGAIN: less could be reclaimed than requested
        if error.errno != errno.EAGAIN:
            raise


def limit_device(tree: CgroupTree, group: str, names: tuple[str, ...], limits: DeviceLimits) -> None:
    """Set all limits of one block device: one file on v2, four on v1."""
    if len(names) == 1:
        tree.write(group, names[0], str(limits))
        return
    for name, line in zip(names, throttle_lines(limits), strict=True):
        tree.write(group, name, line)


def restore_limits(
    tree: CgroupTree, group: str, version: int, names: tuple[str, ...], texts: Mapping[str, str]
) -> None:
    """Write back the texts of io.max: clear the devices that were not limited, and set those that differ."""
    stands = _limits_by_device(version, tuple(tree.read(group, name) for name in names))
    wanted = _limits_by_device(version, tuple(texts[name] for name in names))
    for limits in (*(DeviceLimits(device) for device in stands if device not in wanted), *wanted.values()):
        if stands.get(limits.device) != limits:
            limit_device(tree, group, names, limits)


def _limits_by_device(version: int, texts: tuple[str, ...]) -> dict[str, DeviceLimits]:
    limits = device_limits_of(texts) if version == 1 else parse_io_max(texts[0])
    return {entry.device: entry for entry in limits}
