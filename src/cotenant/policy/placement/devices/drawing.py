"""Devices for a pod that draws from what is kept for it.

Problem: an owner of a reservation shall get the devices that are kept, and no others where the reservation is strict about them; what is kept may be a
part of a device of which somebody else may have the rest. Choice: first only what is kept counts as free; where that does not suffice, and nobody
is strict, all that is free beside it as well, kept devices first. Limits: with a table of partitions the second step does not prefer kept devices.

Source: Koordinator, DeviceShare (reservation), and its allocate policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import sub

from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import DeviceType
from cotenant.policy.placement.devices.allocation import DeviceAsk, DeviceChoice, TypedMinors, allocate
from cotenant.policy.placement.devices.inventory import Row
from cotenant.policy.placement.devices.ledger import DeviceLedger, Pool
from cotenant.policy.placement.refusal import Refusal


def allocate_from(
    ledger: DeviceLedger, ask: DeviceAsk, kept: Sequence[DeviceAllocation], strict: frozenset[DeviceType]
) -> DeviceChoice | Refusal:
    """As `allocate`, for a pod for whom `kept` is kept. In the ledger nobody holds it. `strict`: types of which it gets nothing else."""
    types = {each.type for each in kept}
    found = _allocate(ledger, ask, kept, types)
    loose = types - strict
    if isinstance(found, DeviceChoice) or not loose & {request.type for request in ask.requests}:
        return found
    return _allocate(ledger, ask, kept, types & strict, loose)


def _allocate(
    ledger: DeviceLedger,
    ask: DeviceAsk,
    kept: Sequence[DeviceAllocation],
    only: Iterable[DeviceType],
    rather: Iterable[DeviceType] = (),
) -> DeviceChoice | Refusal:
    bound = frozenset(only)
    pools = tuple(_only(pool, kept) if pool.inventory.type in bound else pool for pool in ledger.pools)
    return allocate(
        replace(ledger, pools=pools), replace(ask, required=_minors(kept, bound), preferred=_minors(kept, rather))
    )


def _minors(kept: Sequence[DeviceAllocation], types: Iterable[DeviceType]) -> TypedMinors:
    found = dict.fromkeys(types, 0)
    for each in kept:
        if each.type in found:
            found[each.type] |= 1 << each.minor
    return tuple(found.items())


def _only(pool: Pool, kept: Sequence[DeviceAllocation]) -> Pool:
    """As if all were used but what is kept; what a kept part does not mention is as it is."""
    inventory = pool.inventory
    used = list(pool.used)
    functions = set(pool.functions)
    busy = pool.busy
    for minor in {each.minor for each in kept if each.type is inventory.type}:
        device = inventory.devices[minor] if minor < len(used) else None
        if device is None:
            continue
        own = [each for each in kept if each.type is inventory.type and each.minor == minor]
        rows = [pool.row(each) for each in own]
        mentioned = {name for each in own for name in each.amounts.names()}
        most: Row = inventory.totals[minor] or ()
        for row in rows:
            most = tuple(map(sub, most, row))
        used[minor] = tuple(
            max(have, rest) if name in mentioned else have
            for name, have, rest in zip(inventory.resources, used[minor], most, strict=True)
        )
        busy = busy | 1 << minor if any(used[minor]) else busy & ~(1 << minor)
        held = {one.bus for each in own for one in each.functions}
        if held:
            functions |= {one.bus for group in device.function_groups for one in group.functions} - held
    return Pool(inventory, tuple(used), busy, frozenset(functions))
