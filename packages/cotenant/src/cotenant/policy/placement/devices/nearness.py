"""Choice of devices that are close together: under one switch, on one NUMA node, within one link domain.

The GPUs of one pod communicate, and taking devices from a group makes it useless to pods that need a whole one. Of all
groups with enough devices, the one within a link domain, then the closest (switch, NUMA node, node), then the one with
most of its surroundings in use (or least, to spread), then the one with the best device, then the first. Within it the
best devices, ties by order.
Limits: one group; where a pod needs more than any close group has, closeness within the wider group is not considered.

Source: Koordinator, DeviceShare (topology scopes), with link domains added.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.model.cpus.topology import lowest, numbers_in
from cotenant.model.devices.hints import SCOPE_WORDS, DeviceScope
from cotenant.policy.placement.devices.inventory import DeviceGroup
from cotenant.policy.placement.devices.ledger import DevicesOfType
from cotenant.policy.placement.refusal import Refusal

_LINKED = max(DeviceScope) + 1  # above every scope


def near(
    pool: DevicesOfType, fits: int, count: int, scope: DeviceScope, preferred: int, order: Sequence[int], apart: bool
) -> tuple[int, ...] | Refusal:
    """`count` minors of `fits`, which has at least that many, no wider than `scope`. `order`: all of them, the best
    first, or () where all are equal; `apart`: away from devices in use.
    """
    if scope is DeviceScope.DEVICE and count > 1:
        return Refusal(f"several {pool.inventory.type.value} devices within one device", f"{count} requested")
    widest = DeviceScope.NODE if scope is DeviceScope.DEVICE else scope  # one device is near itself wherever it is
    best = (-1, -1, 0)
    equal: list[DeviceGroup] = []
    for group in pool.inventory.groups if count == 1 else pool.inventory.linked_first:
        level = group.scope + (_LINKED if group.linked and count > 1 else 0)
        if equal and level < best[1] and not preferred:
            break  # the groups come with falling levels
        inside = group.minors & fits
        if group.scope < widest or inside.bit_count() < count:
            continue
        used = 0
        for mask in group.around:
            if mask & pool.busy & ~pool.lent:  # what is only lent is no neighbour: it leaves
                used += 1
        key = (min(count, (inside & preferred).bit_count()) if preferred else 0, level, -used if apart else used)
        if key > best:
            best, equal = key, [group]
        elif key == best:
            equal.append(group)
    if not equal:
        return _too_far(pool, fits, count, widest)
    chosen = next((group for minor in order for group in equal if group.minors >> minor & 1), equal[0])
    inside = chosen.minors & fits
    if not order and not inside & preferred:
        return numbers_in(lowest(inside, count))
    minors = [minor for minor in order or numbers_in(inside) if inside >> minor & 1]
    minors.sort(key=lambda minor: not preferred >> minor & 1)
    return tuple(sorted(minors[:count]))


def near_groups(pool: DevicesOfType, scope: DeviceScope) -> tuple[int, ...]:
    """Masks of the groups that are no wider than a scope; for one device, each by itself."""
    if scope is DeviceScope.DEVICE:
        return tuple(1 << minor for minor in numbers_in(pool.inventory.minors))
    return tuple(group.minors for group in pool.inventory.groups if group.scope >= scope)


def _too_far(pool: DevicesOfType, fits: int, count: int, scope: DeviceScope) -> Refusal:
    """No group of the scope has enough devices, or none is known: name the one with most."""
    type_ = pool.inventory.type.value
    reason = f"not enough {type_} devices within one {SCOPE_WORDS[scope]}"
    groups = [group for group in pool.inventory.groups if group.scope == scope]
    if not groups:
        return Refusal(reason, f"the location of the {type_} devices is not known")
    most = max(groups, key=lambda group: (group.minors & fits).bit_count())
    return Refusal(
        reason, f"{(most.minors & fits).bit_count()} of {count} in {most.name}, {fits.bit_count()} on the node"
    )
