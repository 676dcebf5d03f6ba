"""Which CPUs only services use under the exclusive scheduler, and which share a core.

Two hardware threads of a core share its caches, so a CPU beside batch on the other thread is not a service's own; and
the kernel's interrupts and the rest of the machine prefer the first CPUs. Whole cores, the last ones in the order of
NUMA node, socket and core, so that they are close to one another; one core at least is left to batch.
Limits: cores of different speed count alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.model.errors import Unsupported
from cotenant.model.machine.counters import LogicalCpu
from cotenant.model.zones.setting import ExclusiveCpus


def siblings_of(topology: Sequence[LogicalCpu]) -> dict[int, int]:
    """The other thread of each CPU's core. Raises `Unsupported` where no core, or a core not, has two."""
    cores: dict[int, list[int]] = {}
    for logical_cpu in topology:
        cores.setdefault(logical_cpu.core, []).append(logical_cpu.cpu)
    most = max(map(len, cores.values()), default=0)
    if most != 2:
        raise Unsupported(
            "cores kept from batch (siblings)", f"cores of two hardware threads (this machine's have {most} at most)"
        )
    pairs = [tuple(cpus) for cpus in cores.values() if len(cpus) == 2]
    return {cpu: other for first, second in pairs for cpu, other in ((first, second), (second, first))}


def own_cpus(topology: Sequence[LogicalCpu], wanted: ExclusiveCpus) -> tuple[int, ...]:
    """The CPUs of services, ascending. Raises `Unsupported` where the machine has too few cores."""
    cores: dict[tuple[int, int, int], list[int]] = {}
    for logical_cpu in topology:
        cores.setdefault((logical_cpu.numa, logical_cpu.socket, logical_cpu.core), []).append(logical_cpu.cpu)
    order = [cores[key] for key in sorted(cores, reverse=True)]
    if len(order) < 2:
        raise Unsupported("CPUs of services' own (exclusive)", f"two cores or more (this machine has {len(order)})")
    chosen: list[int] = []
    if wanted.cpus:
        while len(chosen) < wanted.cpus and len(order) > 1:
            chosen += order.pop(0)
        if len(chosen) < wanted.cpus:
            raise Unsupported(
                f"{wanted.cpus} CPUs of services' own (exclusive)",
                f"a machine with more cores: {len(chosen)} of {len(topology)} CPUs can be theirs",
            )
    else:
        for core in order[: min(len(order) - 1, max(1, round(len(order) * wanted.share)))]:
            chosen += core
    return tuple(sorted(chosen))
