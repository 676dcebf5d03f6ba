"""The order in which several knobs are written so that the kernel accepts each write.

The kernel checks knobs against one another: a burst above its quota, a child's quota above its parent's (cgroup v1), a
child's CPUs outside its parent's (v1) and a weight while the group is idle are all refused. A restore that is refused
leaves a wrong value behind. One pure order for writing and for restoring. Writes that release others come first: idle
off; then decreasing bursts, decreasing quotas (children first), increasing quotas (parents first), increasing bursts;
CPU sets widen from the top, then narrow from the bottom; memory limits so that the softer one is reached first, in the
order of quotas; weights; idle on; reclaim last. A CPU set that neither contains the old one nor is contained in it, and
whose relatives change too, is first set to the union of both. A quota whose old value is not known goes with the quotas
above it: it may need their rise.
Limits: a value that a group outside the batch forbids is still refused by the kernel. The empty CPU set counts as no
CPU (v1); on v2, where it means the parent's, no order is wrong.

Source: Linux, kernel/sched/core.c (tg_set_cfs_bandwidth, tg_cfs_schedulable_down, sched_group_set_idle),
kernel/cgroup/cpuset-v1.c.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import inf

from cotenant.model.cpus.cpulist import format_cpus, parse_cpus
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import UNLIMITED, Knob, KnobTarget, SetKnob

_MEMORY = (Knob.MEMORY_MAX, Knob.MEMORY_HIGH)
_MAX_DEPTH = 4096  # of a group: a path has at most that many bytes


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """A knob's change from its current value (None = not known) to a new one; both canonical."""

    target: KnobTarget
    current: str | None
    value: str


@dataclass(frozen=True, slots=True)
class WriteStep:
    """Write number `index`: its own value, or first the intermediate value `through`."""

    index: int
    through: str | None = None


def order_writes(wanted: Sequence[SetKnob], current: Mapping[KnobTarget, str]) -> tuple[SetKnob, ...]:
    """The same writes in a safe order; a CPU set that needs an intermediate value occurs twice. `current`:
    canonical, where known.
    """
    writes = [PlannedWrite(wish.target, current.get(wish.target), wish.value) for wish in wanted]
    return tuple(
        wanted[step.index] if step.through is None else replace(wanted[step.index], value=step.through)
        for step in plan_steps(writes)
    )


def plan_steps(writes: Sequence[PlannedWrite]) -> tuple[WriteStep, ...]:
    """The steps of all writes in order. Writes that do not affect one another keep their order."""
    moved = {write.target.group for write in writes if write.target.knob is Knob.CPUSET_CPUS}
    rising = frozenset(write.target.group for write in writes if write.target.knob is Knob.CPU_MAX and _rises(write))
    keyed: list[tuple[tuple[int, int], WriteStep]] = []
    for index, write in enumerate(writes):
        if write.target.knob is Knob.CPUSET_CPUS:
            keyed += _cpuset_steps(index, write, moved)
        else:
            keyed.append((_rank(write, rising), WriteStep(index)))
    return tuple(step for _, step in sorted(keyed, key=lambda entry: entry[0]))


def _rank(write: PlannedWrite, rising: Set[str]) -> tuple[int, int]:
    """Phase, and position in it."""
    depth = write.target.group.count("/")
    rises = _rises(write)
    match write.target.knob:
        case Knob.CPU_IDLE:
            return (11, -depth) if write.value == "1" else (0, depth)
        case Knob.CGROUP_FREEZE:
            return (13, -depth) if write.value == "1" else (0, depth)
        case Knob.CPU_BURST:
            return (4, depth) if rises else (1, -depth)
        case Knob.CPU_MAX:
            follows = write.current is None and any(write.target.group.startswith(f"{above}/") for above in rising)
            return (3, depth) if rises or follows else (2, -depth)
        case Knob.MEMORY_MAX | Knob.MEMORY_HIGH as knob:
            at = _MEMORY.index(knob) * _MAX_DEPTH
            return (7, at + depth) if rises else (8, -at - depth)
        case Knob.MEMORY_RECLAIM:
            return (12, 0)
        case _:
            return (10, 0)


def _rises(write: PlannedWrite) -> bool:
    """Whether the new value allows more than the old one; False where the old value is not known."""
    if write.current is None:
        return False
    return _amount(write.value) > _amount(write.current)


def _amount(value: str) -> float:
    """The amount that a limit allows; for a quota with its period, CPUs."""
    most, _, period = value.partition(" ")
    if most == UNLIMITED:
        return inf
    if not most.isdecimal() or not (period.isdecimal() or not period) or period == "0":
        return 0.0
    return int(most) / int(period or 1)


def _cpuset_steps(index: int, write: PlannedWrite, moved: set[str]) -> list[tuple[tuple[int, int], WriteStep]]:
    depth = write.target.group.count("/")
    before, after = None if write.current is None else _cpus(write.current), _cpus(write.value)
    widen, narrow = (5, depth), (6, -depth)
    if before is None or after is None:
        return [(narrow, WriteStep(index))]
    if before <= after:
        return [(widen, WriteStep(index))]
    if before > after or not _has_relatives(write.target.group, moved):
        return [(narrow, WriteStep(index))]
    return [(widen, WriteStep(index, through=format_cpus(before | after))), (narrow, WriteStep(index))]


def _has_relatives(group: str, moved: set[str]) -> bool:
    above = group + "/" if group else ""
    return any(
        other != group and (not other or other.startswith(above) or group.startswith(other + "/")) for other in moved
    )


def _cpus(text: str) -> frozenset[int] | None:
    """None where the text is not a list of CPUs."""
    try:
        return frozenset(parse_cpus(text))
    except InvalidInput:
        return None
