"""Devices for a pod that draws from a reservation.

An owner of a reservation must get its reserved devices, and no others where the reservation is strict about them; a
reserved part may belong to a device whose remainder another pod uses. First only reserved parts count as free; where
they do not suffice and the reservation is not strict, all other free parts count too, reserved devices first.
Limits: with a partition table the second step does not prefer reserved devices.

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
from cotenant.policy.placement.devices.ledger import DeviceLedger, DevicesOfType
from cotenant.policy.placement.refusal import Refusal


def allocate_from(
    ledger: DeviceLedger, ask: DeviceAsk, kept: Sequence[DeviceAllocation], strict: frozenset[DeviceType]
) -> DeviceChoice | Refusal:
    """As `allocate`, for a pod for which `kept` is reserved. In the ledger it has no holder. `strict`: types of
    which it gets nothing else.
    """
    types = {allocation.type for allocation in kept}
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
    for allocation in kept:
        if allocation.type in found:
            found[allocation.type] |= 1 << allocation.minor
    return tuple(found.items())


def _only(pool: DevicesOfType, kept: Sequence[DeviceAllocation]) -> DevicesOfType:
    """The pool as if everything but the reserved parts were in use; resources that a reserved part does not mention
    are unchanged.
    """
    inventory = pool.inventory
    used = list(pool.used)
    functions = set(pool.functions)
    busy = pool.busy
    for minor in {allocation.minor for allocation in kept if allocation.type is inventory.type}:
        device = inventory.devices[minor] if minor < len(used) else None
        if device is None:
            continue
        own = [allocation for allocation in kept if allocation.type is inventory.type and allocation.minor == minor]
        rows = [pool.row(allocation) for allocation in own]
        mentioned = {name for allocation in own for name in allocation.amounts.names()}
        most: Row = inventory.totals[minor] or ()
        for row in rows:
            most = tuple(map(sub, most, row))
        used[minor] = tuple(
            max(have, rest) if name in mentioned else have
            for name, have, rest in zip(inventory.resources, used[minor], most, strict=True)
        )
        busy = busy | 1 << minor if any(used[minor]) else busy & ~(1 << minor)
        held = {one.bus for allocation in own for one in allocation.functions}
        if held:
            functions |= {one.bus for group in device.function_groups for one in group.functions} - held
    return DevicesOfType(inventory, tuple(used), busy, frozenset(functions))
