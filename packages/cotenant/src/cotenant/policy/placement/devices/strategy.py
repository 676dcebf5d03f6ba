"""Choice among the devices with enough free.

A part of a GPU fits on many, and the best choice depends on the pods to come. Choice, by strategy:

- default: close to the devices in use, the one with most free (upstream's default).
- binpack: close to the devices in use, the one with least free, so that whole ones remain.
- spread: away from the devices in use, the one with most free.
- fragmentation: close to the devices in use, the one after which the least idle GPU is unusable for the usual pods
  (FGD's F of this node: for every usual pod, all idle GPU where too few devices have enough for it, else the idle GPU
  of those with less).

Of devices that are equal in that, the one of which least is lent comes first: fewest borrowers have to leave it.

Limits: one node, GPU only; that the CPU may run out before the GPU is considered where nodes are compared
(gpu/fragmentation.py).

Source: Koordinator, DeviceShare scoring (memory and its ratio weigh alike); Weng et al., USENIX ATC 2023, section 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.resources import GPU_CORE, GPU_MEMORY_RATIO, LENT_GPU
from cotenant.policy.placement.devices.inventory import Row
from cotenant.policy.placement.devices.ledger import DevicesOfType

PPM = 1_000_000


class DeviceStrategy(StrEnum):
    """How a device is chosen among those with enough free."""

    DEFAULT = "default"
    BINPACK = "binpack"
    SPREAD = "spread"
    FRAGMENTATION = "fragmentation"


@dataclass(frozen=True, slots=True)
class UsualPod:
    """Pods that usually arrive: a percentage of each of a number of GPUs, and their relative frequency."""

    percent: int
    gpus: int
    weight: int


LENT_STRATEGY = DeviceStrategy.SPREAD  # of what is lent: where most is left, so that least comes back

Rank = Callable[[int], tuple[int, ...]]


def rank(strategy: DeviceStrategy, pool: DevicesOfType, need: Sequence[Row | None], usual: Sequence[UsualPod]) -> Rank:
    """A function of a minor; the device with the smallest rank is taken. `need` is indexed by minor."""
    if strategy is DeviceStrategy.FRAGMENTATION and usual:
        return _fragmentation(pool, need, usual)
    resources = pool.inventory.resources
    lent = resources.index(LENT_GPU) if LENT_GPU in resources else -1
    if lent >= 0 and any(part is not None and part[lent] for part in need):
        columns = [lent]  # what is lent is compared with what is lent
    else:
        columns = [place for place, name in enumerate(resources) if name not in (GPU_CORE, LENT_GPU)]
    core = resources.index(GPU_CORE) if GPU_CORE in resources else 0
    sign = -1 if strategy in (DeviceStrategy.DEFAULT, DeviceStrategy.SPREAD) else 1
    totals, used = pool.inventory.totals, pool.used
    known: dict[tuple[Row | None, Row], tuple[int, int]] = {}  # devices in the same state rank alike

    def left(minor: int) -> tuple[int, ...]:
        total, have, part = totals[minor], used[minor], need[minor]
        found = known.get((total, have))
        if found is None:
            assert total is not None
            assert part is not None
            memory = sum((total[c] - have[c] - part[c]) * PPM // total[c] for c in columns if total[c])
            found = known[total, have] = (sign * memory, sign * (total[core] - have[core] - part[core]))
        return (*found, have[lent] if lent >= 0 else 0, minor)

    return left


def _fragmentation(pool: DevicesOfType, need: Sequence[Row | None], usual: Sequence[UsualPod]) -> Rank:
    columns = [column for column, name in enumerate(pool.inventory.resources) if name in (GPU_CORE, GPU_MEMORY_RATIO)]
    idle = _idle_percent(pool, columns)
    lent = pool.inventory.resources.index(LENT_GPU) if LENT_GPU in pool.inventory.resources else -1
    known: dict[tuple[int, int], int] = {}  # by idle percent and percent taken: equal changes leave equal fragments

    def fragments_after(minor: int) -> tuple[int, ...]:
        part = need[minor]
        assert part is not None
        before = idle[minor]
        taken = min(before, max([part[column] for column in columns], default=0))
        found = known.get((before, taken))
        if found is None:
            idle[minor] = before - taken
            found = known[before, taken] = fragments(tuple(idle.values()), usual)
            idle[minor] = before
        return found, before - taken, pool.used[minor][lent] if lent >= 0 else 0, minor

    return fragments_after


def fragments(idle: Sequence[int], usual: Sequence[UsualPod]) -> int:
    """F: percent of GPU that are idle but unusable, summed over the usual pods by weight. `idle`: percent left of
    each device.
    """
    every = sum(idle)
    total = 0
    for pod in usual:
        usable = [left for left in idle if left >= pod.percent]
        total += pod.weight * (every - sum(usable) if len(usable) >= pod.gpus else every)
    return total


def _idle_percent(pool: DevicesOfType, columns: Sequence[int]) -> dict[int, int]:
    """The smaller of core and memory that is left of each healthy device, percent."""
    idle = {}
    for minor, total in enumerate(pool.inventory.totals):
        if total is not None and pool.inventory.healthy >> minor & 1:
            used = pool.used[minor]
            idle[minor] = max(0, min([total[column] - used[column] for column in columns], default=0))
    return idle
