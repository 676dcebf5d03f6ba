"""Which logical CPUs best-effort work runs on, given how many.

Problem: a service on one hardware thread suffers from a neighbour on the other, and memory bandwidth of one NUMA node is soon used up.
Choice: both threads of a core together, cores taken in turn from every NUMA node and socket; CPUs that others have for themselves are left
out, and those of LSR pods are lent in proportion. Limits: CPUs in use now are not preferred, so a change of number may move work.

Source: Koordinator, koordlet's CPU suppression, cpuset form. There, fewer free CPUs than wanted means that nothing changes; here all free
ones are taken where they are at least the least number.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from cotenant.model.machine.counters import LogicalCpu


def pick(count: int, cpus: Sequence[LogicalCpu]) -> tuple[int, ...]:
    """`count` CPUs in the order of preference; () where there are not that many."""
    if count > len(cpus):
        return ()
    buckets = _buckets(cpus)
    taken: list[int] = []
    turn = 0
    idle_turns = 0
    while count - len(taken) > 1 and idle_turns < len(buckets):
        pair = _pair(buckets[turn % len(buckets)])
        for cpu in pair:
            buckets[turn % len(buckets)].remove(cpu)
            taken.append(cpu.cpu)
        idle_turns = 0 if pair else idle_turns + 1
        turn += 1
    while len(taken) < count:
        bucket = buckets[turn % len(buckets)]
        if bucket:
            taken.append(bucket.pop(0).cpu)
        turn += 1
    return tuple(taken)


def choose(
    count: int, least: int, cpus: Sequence[LogicalCpu], never: Collection[int], lent: Collection[int]
) -> tuple[int, ...]:
    """The best-effort CPUs in ascending order; () where fewer than `least` may be taken, so that what stands should stay.

    `never`: CPUs of LSE pods, of the system, reserved ones. `lent`: CPUs of LSR pods, of which a proportional share is taken.
    """
    free = [cpu for cpu in cpus if cpu.cpu not in never]
    if len(free) < least:
        return ()
    count = min(max(count, least), len(free))
    borrowed = [cpu for cpu in free if cpu.cpu in lent]
    shared = [cpu for cpu in free if cpu.cpu not in lent]
    from_lent = count * len(borrowed) // len(free)
    return tuple(sorted(pick(from_lent, borrowed) + pick(count - from_lent, shared)))


def _buckets(cpus: Sequence[LogicalCpu]) -> list[list[LogicalCpu]]:
    """By NUMA node and socket, the fullest first; within one by core."""
    grouped: dict[tuple[int, int], list[LogicalCpu]] = {}
    for cpu in sorted(cpus, key=lambda each: (each.core, each.cpu)):
        grouped.setdefault((cpu.numa, cpu.socket), []).append(cpu)
    return sorted(grouped.values(), key=lambda bucket: (-len(bucket), bucket[0].cpu))


def _pair(bucket: Sequence[LogicalCpu]) -> tuple[LogicalCpu, ...]:
    """The first two threads of one core that are both still there; () if none are."""
    for first, second in pairwise(bucket):
        if first.core == second.core:
            return (first, second)
    return ()
