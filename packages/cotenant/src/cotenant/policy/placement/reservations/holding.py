"""The remainder of a reservation that holds devices and CPUs by number.

Owners draw parts of devices and single CPUs, request them by other names than the template (two of `nvidia.com/gpu`
here, 50 of `koordinator.sh/gpu` there), and may hold more than was reserved. The remainder is the reserved set less the
owners' holdings, number by number; the remaining amount of a device's resource is the smaller of what the numbers and
what the requests give, so that the sums never include a device that is gone.
Limits: what an owner holds of the same device besides the reserved part counts against the reserved part first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cotenant.model.cluster.demands import NO_HOLDINGS, Holdings
from cotenant.model.cpus.spec import NumaAmount, ResourceStatus
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import DeviceType
from cotenant.model.devices.request import CARDS, type_of
from cotenant.model.resources import GPU, GPU_CORE, GPU_SHARED, NOTHING, Amounts
from cotenant.policy.placement.reservations.drawing import remainder


@dataclass(frozen=True, slots=True)
class ReservedAmounts:
    """Reserved amounts, with devices and CPUs by number."""

    amounts: Amounts
    holds: Holdings = NO_HOLDINGS


def kept_after(reserved: ReservedAmounts, drawn: Sequence[ReservedAmounts]) -> ReservedAmounts:
    """The remainder after owners with these requests and holdings have drawn; resources without a remainder are
    omitted.
    """
    amounts = remainder(reserved.amounts, (kept.amounts for kept in drawn))
    held = reserved.holds
    if not held.devices and held.cpus is None:
        return ReservedAmounts(amounts)
    parts = _parts_left(held.devices, (one for kept in drawn for one in kept.holds.devices))
    left = {name: min(amount, _by_numbers(name, reserved.amounts.get(name), parts)) for name, amount in amounts}
    devices = tuple(after for _, after in parts if after.amounts or after.functions)
    cpus = _cpus_left(held.cpus, [kept.holds.cpus for kept in drawn if kept.holds.cpus is not None])
    return ReservedAmounts(
        Amounts.of({name: amount for name, amount in left.items() if amount > 0}), Holdings(cpus=cpus, devices=devices)
    )


def _parts_left(
    kept: Sequence[DeviceAllocation], drawn: Iterable[DeviceAllocation]
) -> list[tuple[DeviceAllocation, DeviceAllocation]]:
    """Each reserved part and what is left of it: all of its resources while any of them is left, including those of
    which 0 is left.
    """
    taken: dict[tuple[DeviceType, int], dict[str, int]] = {}
    functions: set[tuple[DeviceType, str]] = set()
    for allocation in drawn:
        had = taken.setdefault((allocation.type, allocation.minor), {})
        for name, amount in allocation.amounts:
            had[name] = had.get(name, 0) + amount
        functions.update((allocation.type, one.bus) for one in allocation.functions)
    found = []
    for part in kept:
        had = taken.get((part.type, part.minor), {})
        left = {}
        for name, amount in part.amounts:
            less = min(amount, had.get(name, 0))
            if less:
                had[name] -= less
            left[name] = amount - less
        free = tuple(one for one in part.functions if (part.type, one.bus) not in functions)
        found.append((part, replace(part, amounts=Amounts.of(left) if any(left.values()) else NOTHING, functions=free)))
    return found


def _by_numbers(name: str, reserved: int, parts: Sequence[tuple[DeviceAllocation, DeviceAllocation]]) -> int:
    """Remaining amount of a resource by its devices; all of it where no device was reserved for it."""
    type_ = type_of(name)
    own = [(before, after) for before, after in parts if before.type is type_]
    if not own:
        return reserved
    if not any(after.amounts for _, after in own):
        return 0
    if name in CARDS or name == GPU_SHARED:
        return reserved - sum(before.amounts != after.amounts for before, after in own)
    said_as = GPU_CORE if name == GPU else name
    return reserved - sum(before.amounts.get(said_as) - after.amounts.get(said_as) for before, after in own)


def _cpus_left(kept: ResourceStatus | None, drawn: Sequence[ResourceStatus]) -> ResourceStatus | None:
    if kept is None:
        return None
    gone = {cpu for status in drawn for cpu in status.cpus}
    cpus = tuple(cpu for cpu in kept.cpus if cpu not in gone)
    numa = []
    for amount in kept.numa:
        taken = [one for status in drawn for one in status.numa if one.node == amount.node]
        cpu_m = _less(amount.cpu_m, (one.cpu_m for one in taken)) if cpus or not kept.cpus else None
        memory_bytes = _less(amount.memory_bytes, (one.memory_bytes for one in taken))
        if cpu_m or memory_bytes:
            numa.append(NumaAmount(amount.node, cpu_m, memory_bytes))
    return ResourceStatus(cpus, tuple(numa)) if cpus or numa else None


def _less(kept: int | None, taken: Iterable[int | None]) -> int | None:
    return None if kept is None else max(0, kept - sum(amount or 0 for amount in taken))
