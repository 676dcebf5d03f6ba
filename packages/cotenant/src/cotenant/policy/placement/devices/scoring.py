"""Score of a node by the device allocation it would make, for comparison between nodes.

Which node provides a part of a GPU decides how many whole ones remain anywhere, and each strategy for choosing a device
has a counterpart between nodes. Choice, for the allocation that would be made on each node:

- binpack: for a part, first how full its devices become, then how few idle ones the node has; for whole devices, how
  few idle ones remain.
- spread: the reverse.
- default: the share of the node's devices that stays free (upstream's default).
- fragmentation: the growth of the node's F (strategy.py); less is better, and only the caller knows the scale.

Limits: for a pod with several device types the first type decides, GPUs before cards.

Source: Koordinator, DeviceShare scoring (default); Weng et al., USENIX ATC 2023, section 4 (fragmentation).
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.resources import GPU_CORE, GPU_MEMORY_RATIO, LENT_GPU
from cotenant.policy.placement.devices.ledger import DeviceLedger, DevicesOfType
from cotenant.policy.placement.devices.strategy import DeviceStrategy, UsualPod, fragments

PERCENT = 100


def worth(
    strategy: DeviceStrategy, ledger: DeviceLedger, chosen: Sequence[DeviceAllocation], usual: Sequence[UsualPod]
) -> float:
    """0 to 100, more is better; for `FRAGMENTATION` with usual pods the negative growth of F."""
    pool = ledger.pool(chosen[0].type) if chosen else None
    if pool is None:
        return 0.0
    own = [allocation for allocation in chosen if allocation.type is pool.inventory.type]
    counted = (LENT_GPU,) if any(LENT_GPU in allocation.amounts for allocation in own) else (GPU_CORE, GPU_MEMORY_RATIO)
    before, after = _used_percent(pool, counted), _used_percent(pool.changed(own, 1), counted)
    if not before:
        return 0.0
    if strategy is DeviceStrategy.FRAGMENTATION and usual:
        return float(fragments(_idle(before), usual) - fragments(_idle(after), usual))
    if strategy is DeviceStrategy.DEFAULT:
        return PERCENT - sum(after.values()) / len(after)
    packed = _packed(before, after, [allocation.minor for allocation in own])
    return PERCENT - packed if strategy is DeviceStrategy.SPREAD else packed


def _packed(before: dict[int, int], after: dict[int, int], minors: Sequence[int]) -> float:
    idle = sum(used == 0 for used in after.values())
    few_idle = PERCENT * (len(after) - idle) / len(after)
    full = [after.get(minor, PERCENT) for minor in minors]
    if all(after.get(minor, 0) - before.get(minor, 0) >= PERCENT for minor in minors):
        return few_idle
    return (2.0 * sum(full) / len(full) + few_idle) / 3.0


def _used_percent(pool: DevicesOfType, counted: tuple[str, ...]) -> dict[int, int]:
    """Used percentage of each healthy device, by its most used resource."""
    resources = pool.inventory.resources
    columns = [column for column, name in enumerate(resources) if name in counted]
    columns = columns or list(range(len(resources)))
    used = {}
    for minor, total in enumerate(pool.inventory.totals):
        if total is not None and pool.inventory.healthy >> minor & 1:
            have = pool.used[minor]
            used[minor] = min(
                PERCENT, max((have[c] * PERCENT // total[c] for c in columns if total[c]), default=PERCENT)
            )
    return used


def _idle(used: dict[int, int]) -> tuple[int, ...]:
    return tuple(PERCENT - number for number in used.values())
