"""Choose the logical CPUs of best-effort work, given their number.

A service on one hardware thread slows down when the sibling thread is busy, and the memory bandwidth of one NUMA node
is easily exhausted. Both threads of a core together, cores round-robin over NUMA nodes and sockets; CPUs owned by other
pods are excluded, and those of LSR pods are lent in proportion.
Limits: CPUs in use now are not preferred, so a change of the number may migrate work.

Source: Koordinator, koordlet's CPU suppression, cpuset form. Upstream changes nothing when fewer CPUs are free than
wanted; here all free CPUs are taken if they are at least the minimum.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from cotenant.model.machine.counters import LogicalCpu


def pick(count: int, cpus: Sequence[LogicalCpu]) -> tuple[int, ...]:
    """`count` CPUs in order of preference; () where there are not enough."""
    if count > len(cpus):
        return ()
    buckets = _buckets(cpus)
    taken: list[int] = []
    at = 0
    rounds_without_pair = 0
    while count - len(taken) > 1 and rounds_without_pair < len(buckets):
        pair = _pair(buckets[at % len(buckets)])
        for cpu in pair:
            buckets[at % len(buckets)].remove(cpu)
            taken.append(cpu.cpu)
        rounds_without_pair = 0 if pair else rounds_without_pair + 1
        at += 1
    while len(taken) < count:
        bucket = buckets[at % len(buckets)]
        if bucket:
            taken.append(bucket.pop(0).cpu)
        at += 1
    return tuple(taken)


def choose(
    count: int, least: int, cpus: Sequence[LogicalCpu], never: Collection[int], lent: Collection[int]
) -> tuple[int, ...]:
    """The best-effort CPUs, ascending; () where fewer than `least` are available, in which case the current set should
    stay.

    `never`: CPUs of LSE pods, of the system, reserved ones. `lent`: CPUs of LSR pods; a proportional share of them is
    taken.
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
    """By NUMA node and socket, the largest first; within one by core."""
    grouped: dict[tuple[int, int], list[LogicalCpu]] = {}
    for cpu in sorted(cpus, key=lambda logical_cpu: (logical_cpu.core, logical_cpu.cpu)):
        grouped.setdefault((cpu.numa, cpu.socket), []).append(cpu)
    return sorted(grouped.values(), key=lambda bucket: (-len(bucket), bucket[0].cpu))


def _pair(bucket: Sequence[LogicalCpu]) -> tuple[LogicalCpu, ...]:
    """The first two threads of one core that are both available; () if there are none."""
    for first, second in pairwise(bucket):
        if first.core == second.core:
            return (first, second)
    return ()
