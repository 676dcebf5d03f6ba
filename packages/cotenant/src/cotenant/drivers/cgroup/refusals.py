"""The likely cause of a kernel's refusal of a knob's value.

The kernel returns "Invalid argument" for a quota below the burst, above the parent's, or below a child's. After a
refusal, and only then, related values are read and the first violated rule is named.
Limits: a guess made a moment later; where no rule is violated, the kernel's own message is used.

Source: Linux kernel/sched/core.c (`tg_set_cfs_bandwidth`, `tg_cfs_schedulable_down`), kernel/cgroup/cpuset.c
(`validate_change`).
"""

from __future__ import annotations

import errno

from cotenant.drivers.cgroup.files import CgroupTree
from cotenant.drivers.cgroup.translation import FILES, cpu_max_of
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.knob_values import CpuMax, parse_cpu_max


def likely_cause(tree: CgroupTree, target: KnobTarget, version: int, error: OSError) -> tuple[str, str]:
    """What the kernel would have accepted, and a hint."""
    default = f"a value that the kernel accepts ({error.strerror})"
    match target.knob:
        case Knob.CPU_MAX | Knob.CPU_BURST:
            return _bandwidth(tree, target, version) or (default, "")
        case Knob.CPUSET_CPUS:
            return _cpus(error) or (default, "")
        case Knob.IO_MAX if error.errno == errno.ENODEV:
            return "MAJOR:MINOR of a whole disk of this machine", ""
        case Knob.MEMORY_MAX if version == 1 and error.errno == errno.EINVAL:
            return "a limit not above memory.memsw.limit_in_bytes", ""
    return default, ""


def _bandwidth(tree: CgroupTree, target: KnobTarget, version: int) -> tuple[str, str] | None:
    group = target.group
    mine, burst_us = _limit(tree, group, version), _burst(tree, group, version)
    if target.knob is Knob.CPU_BURST:
        quota = "no limit" if mine is None or mine.quota_us is None else f"{mine.quota_us} us"
        return f"a burst not above the quota, which is {quota}", ""
    if burst_us:
        return f"a quota not below cpu.max.burst, which is {burst_us} us", "lower the burst first"
    if version == 2:
        return None
    parent, _, _ = group.rpartition("/")
    above = _limit(tree, parent, version) if group else None
    if above is not None and above.quota_us is not None:
        return (
            f"a share of a CPU not above the parent's, {above.quota_us} of {above.period_us} us, and not below a "
            "child's",
            "on cgroup v1 no group may have more than its parent",
        )
    return "a share of a CPU not below any child's", "on cgroup v1 no group may have more than its parent"


def _limit(tree: CgroupTree, group: str, version: int) -> CpuMax | None:
    try:
        texts = [tree.read(group, name) for name in FILES[Knob.CPU_MAX].files(version)]
        return cpu_max_of(*texts) if version == 1 else parse_cpu_max(texts[0])
    except (OSError, InvalidInput):
        return None


def _burst(tree: CgroupTree, group: str, version: int) -> int:
    try:
        return int(tree.read(group, FILES[Knob.CPU_BURST].files(version)[0]))
    except (OSError, ValueError):
        return 0


def _cpus(error: OSError) -> tuple[str, str] | None:
    match error.errno:
        case errno.EACCES:
            return "CPUs that the parent group has", "on cgroup v1 widen the parent first"
        case errno.ENOSPC:
            return "at least one CPU for the tasks in the group", ""
        case errno.EINVAL | errno.ERANGE:
            return (
                "CPUs that this machine has",
                "an exclusive set of another group is in the way, or they are not online",
            )
    return None
