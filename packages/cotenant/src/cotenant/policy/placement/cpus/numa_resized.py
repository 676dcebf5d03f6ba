"""Amounts on NUMA nodes after a pod was resized in place.

What a pod holds on NUMA nodes is written once, when it is bound, for what it requested then. A pod that is resized
later goes on where it was put, with another amount: each of its nodes gets the same share of what it requests now, or
others would be put into room that it has taken.
Limits: CPUs of its own stay, whatever is requested; which node a kernel really gives the memory of is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cotenant.model.cpus.spec import NumaAmount


def resized_amounts(
    amounts: Sequence[NumaAmount], cpu_m: int, memory_bytes: int, *, owns_cpus: bool
) -> tuple[NumaAmount, ...]:
    """The amounts for a pod that requests so much now."""
    cpus = [amount.cpu_m for amount in amounts]
    memory = _shared([amount.memory_bytes for amount in amounts], memory_bytes)
    if not owns_cpus:
        cpus = _shared(cpus, cpu_m)
    return tuple(
        replace(amount, cpu_m=of_cpu, memory_bytes=of_memory)
        for amount, of_cpu, of_memory in zip(amounts, cpus, memory, strict=True)
    )


def _shared(parts: list[int | None], whole: int) -> list[int | None]:
    """The parts of another whole: rounded down, and the rest to the first that has any."""
    total = sum(part or 0 for part in parts)
    if total in (0, whole):
        return parts
    found = [part if part is None else part * whole // total for part in parts]
    first = next(place for place, part in enumerate(parts) if part)
    found[first] = (found[first] or 0) + whole - sum(part or 0 for part in found)
    return found
