"""The table of a zone's exclusion rules on this machine: which CPUs are one core, one cache.

A place counts what it runs in one byte a party, a task about to run beside the one that leaves, so a place has at most
127 CPUs. Where a machine does not say which CPUs share a cache, rules within a cache are refused rather than guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from cotenant.model.errors import Unsupported
from cotenant.model.machine.counters import LogicalCpu
from cotenant.model.zones.apart import ApartRule, ApartTable, RuleTime, Within, parties_of, words

MOST_CPUS = 127


def apart_table(rules: Sequence[ApartRule], topology: Sequence[LogicalCpu], caches: Mapping[int, int]) -> ApartTable:
    """`caches`: the lowest CPU of each CPU's last-level cache. Raises `Unsupported` where the machine has no such
    places, or too large ones.
    """
    lowest: dict[int, int] = {}
    for logical_cpu in topology:
        lowest[logical_cpu.core] = min(logical_cpu.cpu, lowest.get(logical_cpu.core, logical_cpu.cpu))
    cores = {logical_cpu.cpu: lowest[logical_cpu.core] for logical_cpu in topology}
    used = {rule.within for rule in rules}
    if Within.CACHE in used and cores.keys() - caches.keys():
        missing = min(cores.keys() - caches.keys())
        raise Unsupported("rules within a cache (apart)", f"a machine that names the caches of CPU {missing}")
    largest = max(Counter(caches.values()).values(), default=0) if Within.CACHE in used else 0
    if Within.MACHINE in used:
        largest = len(cores)
    if largest > MOST_CPUS:
        raise Unsupported("rules within a cache or the machine (apart)", f"at most {MOST_CPUS} CPUs there")
    always, late = (words(rules, when) for when in RuleTime)
    return ApartTable(parties_of(rules), always, late, cores, dict(caches))
