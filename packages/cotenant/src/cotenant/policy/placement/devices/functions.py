"""Virtual functions of network cards.

A pod gets a function of a card, not the card. In the groups that the pod's selector selects, the free function with the
smallest PCI address.
Limits: a card is feasible only where one is free.

Source: Koordinator, DeviceShare (allocateVF).
"""

from __future__ import annotations

from collections.abc import Iterator

from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.cpus.topology import numbers_in
from cotenant.model.devices.device import VirtualFunction
from cotenant.policy.placement.devices.ledger import DevicesOfType


def free_function(pool: DevicesOfType, minor: int, selector: LabelSelector) -> VirtualFunction | None:
    """The function to allocate, or None where no selected one is free."""
    return min(_free(pool, minor, selector), key=lambda function: function.bus, default=None)


def with_free_function(pool: DevicesOfType, minors: int, selector: LabelSelector) -> int:
    """Those of `minors` with a free function."""
    found = 0
    for minor in numbers_in(minors):
        if next(_free(pool, minor, selector), None) is not None:
            found |= 1 << minor
    return found


def _free(pool: DevicesOfType, minor: int, selector: LabelSelector) -> Iterator[VirtualFunction]:
    device = pool.inventory.devices[minor]
    for group in device.function_groups if device is not None else ():
        if selector.matches(group.labels):
            for function in group.functions:
                if function.bus not in pool.functions:
                    yield function
