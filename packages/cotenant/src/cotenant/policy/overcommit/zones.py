"""Spreading amounts over NUMA zones: evenly, rounded up, so that no zone counts less than it may hold.

Source: Koordinator, pkg/slo-controller/noderesource/plugins/util (getPodNUMARequestAndUsage, divideResourceList).
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.model.machine.node_metric import NO_USE, Use


def divided(amount: Use, by: int) -> Use:
    """An equal part, rounded up; the amount itself where there is nothing to divide by."""
    return Use(-(-amount.cpu_m // by), -(-amount.memory_bytes // by)) if by > 0 else amount


def over_zones(amount: Use, count: int, allocated: Sequence[int] | None) -> list[Use]:
    """The part of each of `count` zones: an equal part of those allocated, or of all where none is. Zones out of
    range are ignored.
    """
    valid = [zone for zone in allocated or () if 0 <= zone < count] or list(range(count))
    part = divided(amount, len(valid))
    return [part if zone in valid else NO_USE for zone in range(count)]
