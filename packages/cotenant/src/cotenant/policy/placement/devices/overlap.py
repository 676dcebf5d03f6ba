"""Devices of which more is held than exists, which only other schedulers can have allocated.

Limits: removed devices are not checked. What is lent shrinks below what is held whenever a card's holders want it
back: that is no overlap, its pods are told to leave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from cotenant.model.resources import LENT_GPU, format_amount
from cotenant.policy.placement.devices.ledger import DeviceLedger


def overlaps(ledger: DeviceLedger) -> Iterator[str]:
    """A message for each device or virtual function of which too much is held."""
    for pool in ledger.pools:
        name, resources = pool.inventory.type.value, pool.inventory.resources
        for minor, (used, total) in enumerate(zip(pool.used, pool.inventory.totals, strict=True)):
            for resource, have, most in zip(resources, used, total or used, strict=True):
                if have > most and resource != LENT_GPU:
                    amounts = f"{format_amount(resource, have)} of {format_amount(resource, most)} {resource}"
                    yield f"{name} {minor}: {amounts} are held"
    given = Counter(
        one.bus for held in ledger.holdings for allocation in held.allocations for one in allocation.functions
    )
    for bus, times in given.items():
        if times > 1:
            yield f"virtual function {bus} is held by {times} pods"
