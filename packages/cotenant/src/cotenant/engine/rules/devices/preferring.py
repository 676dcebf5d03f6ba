"""What speaks for one node before another in the choice of devices: the strategy, and who is on the cards already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cotenant.engine.rules.devices.requests import DeviceSettings
from cotenant.model.arrays import Float, Int
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.card_need import CardNeed
from cotenant.model.devices.device import DeviceType
from cotenant.model.resources import GPU_MEMORY_RATIO
from cotenant.policy.placement.devices.ledger import DeviceLedger
from cotenant.policy.placement.devices.neighbours import memory_left, sentence, without
from cotenant.policy.placement.preference import PreferencePart

# What points count between nodes: one by one up to a card that is wanted twice, then by what kind speaks against it
# (policy/placement/devices/neighbours.py): the room of caches, and most a prefill beside a decode.
_POINTS, _COUNT = (0, 100, 201, 1000), (0.0, 100.0, 150.0, 250.0)


def preferences(settings: DeviceSettings, worths: Float, points: Int) -> tuple[PreferencePart, ...]:
    """Parts of the score of rows, from 0 (worst) to 100 (best), of neighbours to 250, times their weight; none where
    all are equal.
    """
    found = []
    if len(worths):
        low, high = float(worths.min()), float(worths.max())
        if low < high and settings.weight:
            found.append(PreferencePart("devices", settings.weight * (100.0 / (high - low)) * (worths - low)))
        against = np.interp(points, _POINTS, _COUNT)
        if settings.neighbours and against.min() < against.max():
            found.append(PreferencePart("GPU neighbours", settings.neighbours * (_COUNT[-1] - against)))
    return tuple(found)


def beside(ledger: DeviceLedger, need: CardNeed, given: Sequence[DeviceAllocation]) -> Iterator[str]:
    """What speaks against the neighbours that a pod has on its cards, a sentence for each such card."""
    pool = ledger.pool(DeviceType.GPU)
    if pool is None or not ledger.beside:
        return
    resources = pool.inventory.resources
    for allocation in given:
        total = pool.inventory.totals[allocation.minor] if allocation.minor < len(pool.used) else None
        if allocation.type is not DeviceType.GPU or total is None:
            continue
        column = resources.index(GPU_MEMORY_RATIO) if GPU_MEMORY_RATIO in resources else -1
        left = memory_left(total, pool.used[allocation.minor], column)
        words = sentence(need, without(ledger.beside[allocation.minor], need), left)
        if words:
            yield f"gpu {allocation.minor}: {words}"
