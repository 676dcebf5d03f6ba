"""In which order several knobs are turned so that the kernel takes each of them.

Problem: the kernel holds knobs against one another: a burst above its quota, a child's quota above its parent's (cgroup v1), a child's CPUs
outside its parent's (v1), a weight while the group is idle are all refused. What is refused on the way back stays wrong. Choice: one pure
order for turning and for undoing. What frees others goes first: idle off; then bursts that fall, quotas that fall (children first), quotas
that rise (parents first), bursts that rise; CPU sets widen from the top, then narrow from the bottom; limits of memory so that the
softer one is met first; weights; idle on; reclaim last. A CPU set that neither contains the old one nor is contained in it, with relatives
that move too, goes by way of both together. Limits: a wish that a group outside the batch forbids is refused by the kernel as before. The
empty CPU set counts as no CPU (v1); on v2, where it means the parent's, no order is wrong.

Source: Linux, kernel/sched/core.c (tg_set_cfs_bandwidth, tg_cfs_schedulable_down, sched_group_set_idle), kernel/cgroup/cpuset-v1.c.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from cotenant.model.cpus.cpulist import format_cpus, parse_cpus
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import UNLIMITED, Knob, SetKnob, Target

_MEMORY = (Knob.MEMORY_MAX, Knob.MEMORY_HIGH)


@dataclass(frozen=True, slots=True)
class Turn:
    """A knob that goes from what stands (None = not known) to a value; both canonical."""

    target: Target
    stands: str | None
    value: str


@dataclass(frozen=True, slots=True)
class Step:
    """Turn number `index`: to its own value, or by way of `through` first."""

    index: int
    through: str | None = None


def ordered(wishes: Sequence[SetKnob], current: Mapping[Target, str]) -> tuple[SetKnob, ...]:
    """The same wishes in a safe order; a CPU set that has to go by way of a wider one is there twice. `current`: canonical, where known."""
    turns = [Turn(wish.target, current.get(wish.target), wish.value) for wish in wishes]
    return tuple(
        wishes[step.index] if step.through is None else replace(wishes[step.index], value=step.through)
        for step in steps(turns)
    )


def steps(turns: Sequence[Turn]) -> tuple[Step, ...]:
    """Each turn at its place, once or by way of a wider value. Turns that do not concern one another keep their order."""
    moved = {turn.target.group for turn in turns if turn.target.knob is Knob.CPUSET_CPUS}
    keyed: list[tuple[tuple[int, int], Step]] = []
    for index, turn in enumerate(turns):
        if turn.target.knob is Knob.CPUSET_CPUS:
            keyed += _cpuset_steps(index, turn, moved)
        else:
            keyed.append((_rank(turn), Step(index)))
    return tuple(step for _, step in sorted(keyed, key=lambda entry: entry[0]))


def _rank(turn: Turn) -> tuple[int, int]:
    """Phase, and place in it."""
    depth = turn.target.group.count("/")
    rises = _rises(turn)
    match turn.target.knob:
        case Knob.CPU_IDLE:
            return (11, -depth) if turn.value == "1" else (0, depth)
        case Knob.CPU_BURST:
            return (4, depth) if rises else (1, -depth)
        case Knob.CPU_MAX:
            return (3, depth) if rises else (2, -depth)
        case Knob.MEMORY_MAX | Knob.MEMORY_HIGH as knob:
            at = _MEMORY.index(knob)
            return (7, at) if rises else (8, -at)
        case Knob.MEMORY_RECLAIM:
            return (12, 0)
        case _:
            return (10, 0)


def _rises(turn: Turn) -> bool:
    """Whether more is allowed than before; not where the old value is not known."""
    if turn.stands is None:
        return False
    return _amount(turn.value) > _amount(turn.stands)


def _amount(value: str) -> float:
    """What a limit allows; of a quota with its period, CPUs."""
    most, _, period = value.partition(" ")
    if most == UNLIMITED:
        return inf
    if not most.isdecimal() or not (period.isdecimal() or not period) or period == "0":
        return 0.0
    return int(most) / int(period or 1)


def _cpuset_steps(index: int, turn: Turn, moved: set[str]) -> list[tuple[tuple[int, int], Step]]:
    depth = turn.target.group.count("/")
    before, after = None if turn.stands is None else _cpus(turn.stands), _cpus(turn.value)
    widen, narrow = (5, depth), (6, -depth)
    if before is None or after is None:
        return [(narrow, Step(index))]
    if before <= after:
        return [(widen, Step(index))]
    if before > after or not _has_relatives(turn.target.group, moved):
        return [(narrow, Step(index))]
    return [(widen, Step(index, through=format_cpus(before | after))), (narrow, Step(index))]


def _has_relatives(group: str, moved: set[str]) -> bool:
    above = group + "/" if group else ""
    return any(
        other != group and (not other or other.startswith(above) or group.startswith(other + "/")) for other in moved
    )


def _cpus(text: str) -> frozenset[int] | None:
    """None where it is no list of CPUs."""
    try:
        return frozenset(parse_cpus(text))
    except InvalidInput:
        return None
