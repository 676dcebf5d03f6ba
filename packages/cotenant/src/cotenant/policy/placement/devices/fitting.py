"""Devices of a pool with enough free for one part, and what the others lack.

The first is evaluated for every node and pod, the second only for negative results. The part is converted to an integer
row once per device size and compared as tuples; texts are built afterwards from the same rows.
Limits: closeness is not considered here.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import le, sub

from cotenant.model.cpus.topology import numbers_in
from cotenant.model.resources import Amounts, format_amount
from cotenant.policy.placement.devices.inventory import Row, part_of
from cotenant.policy.placement.devices.ledger import DevicesOfType

PPM = 1_000_000


@dataclass(frozen=True, slots=True)
class Fitting:
    """`fits` are the devices among `asked` (masks of minors) with enough free; `need` and `parts` are indexed by
    minor.
    """

    asked: int
    fits: int
    need: tuple[Row | None, ...]  # over the inventory's resources; None where the device cannot serve the request
    parts: tuple[Amounts | None, ...]  # the same by resource name
    partial: bool  # whether a part of a serving device remains

    def narrowed(self, minors: int) -> Fitting:
        """Restricted to these devices."""
        return Fitting(self.asked & minors, self.fits & minors, self.need, self.parts, self.partial)


def fitting(pool: DevicesOfType, part: Amounts, among: int) -> Fitting:
    """Compare one part with the free amounts of each healthy device in `among`."""
    inventory = pool.inventory
    among &= inventory.healthy
    # per device size: the part, and whether an idle device has enough
    known: dict[Row, tuple[Row | None, Amounts, bool]] = {}
    need: list[Row | None] = []
    parts: list[Amounts | None] = []
    fits = 0
    partial = False
    for minor, total in enumerate(inventory.totals):
        if total is None or not among >> minor & 1:
            need.append(None)
            parts.append(None)
            continue
        if total not in known:
            device = inventory.devices[minor]
            assert device is not None
            row, amounts = part_of(part, device.total, inventory.resources)
            known[total] = (row, amounts, row is not None and all(map(le, row, total)))
        row, amounts, room = known[total]
        need.append(row)
        parts.append(amounts)
        if room and row is not None and pool.busy >> minor & 1:
            room = all(map(le, row, map(sub, total, pool.used[minor])))
        if room:
            fits |= 1 << minor
            partial = partial or row != total
    return Fitting(among, fits, tuple(need), tuple(parts), partial)


def shortage(pool: DevicesOfType, found: Fitting, count: int) -> str:
    """What is missing for `count` devices: the nearest miss, and devices excluded as unhealthy or not selected."""
    parts = [f"{found.fits.bit_count()} of {count} devices have room"]
    nearest = _nearest(pool, found)
    if nearest:
        parts.append(nearest)
    ill = pool.inventory.minors & ~pool.inventory.healthy
    if ill:
        parts.append(f"unhealthy: {', '.join(map(str, numbers_in(ill)))}")
    other = pool.inventory.healthy & ~found.asked
    if other:
        parts.append(f"not selected: {', '.join(map(str, numbers_in(other)))}")
    return "; ".join(parts)


def _nearest(pool: DevicesOfType, found: Fitting) -> str:
    best: tuple[int, int, str] | None = None
    name = pool.inventory.type.value
    for minor in numbers_in(found.asked & ~found.fits):
        row, total = found.need[minor], pool.inventory.totals[minor]
        if row is None or total is None:
            continue
        missing = [
            (resource, part + have - most, most)
            for resource, part, have, most in zip(pool.inventory.resources, row, pool.used[minor], total, strict=True)
            if part + have > most
        ]
        size = sum(lack * PPM // max(most, 1) for _, lack, most in missing)
        if missing and (best is None or size < best[0]):
            words = ", ".join(f"{format_amount(resource, lack)} {resource}" for resource, lack, _ in missing)
            best = (size, minor, f"{name} {minor} lacks {words}")
    if found.asked and all(found.need[minor] is None for minor in numbers_in(found.asked)):
        return f"the {name} devices here do not have these resources"
    return best[2] if best else ""


def missing_to(pool: DevicesOfType, found: Fitting, count: int) -> int:
    """Distance from `count` fitting devices, in parts per million of a device: the nearest miss, plus a whole
    device for each further one.
    """
    short = count - found.fits.bit_count()
    if short <= 0:
        return 0
    least = PPM
    for minor in numbers_in(found.asked & ~found.fits):
        row, total = found.need[minor], pool.inventory.totals[minor]
        if row is not None and total is not None:
            missing = [
                max(0, part + have - most) * PPM // max(most, 1)
                for part, have, most in zip(row, pool.used[minor], total, strict=True)
            ]
            least = min(least, max(missing, default=PPM))
    return (short - 1) * PPM + least
