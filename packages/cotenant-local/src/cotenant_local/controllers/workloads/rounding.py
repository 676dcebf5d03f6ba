"""Amounts given as a number or as a percentage.

`maxSurge: 25%` of 10 pods is 3 and `maxUnavailable: 25%` is 2; rounding in the wrong direction stalls or overshoots an
update. One function with the direction as an argument.
Source: Kubernetes API conventions, IntOrString; Deployment API reference (maxSurge rounds up, maxUnavailable down, and
both at zero means one unavailable); PodDisruptionBudget API reference (both round up).
"""

from __future__ import annotations

from cotenant.model.errors import InvalidInput
from cotenant.model.whole_number import whole_number


def resolve(value: int | str | None, total: int, *, up: bool, default: int | str = 0, field: str = "value") -> int:
    """`value` of `total`: a number unchanged, a percentage rounded `up` or down. Raises `InvalidInput` for other
    text.
    """
    if value is None:
        value = default
    if isinstance(value, int):
        return value
    percent = whole_number(value.removesuffix("%"))
    if not value.endswith("%") or percent is None:
        raise InvalidInput(field, value, "a number or a percentage such as 25%")
    scaled = percent * total
    return -(-scaled // 100) if up else scaled // 100


def fenceposts(max_surge: int | str | None, max_unavailable: int | str | None, desired: int) -> tuple[int, int]:
    """(surge, unavailable) of a rolling update. If both would be 0, unavailable is 1, or the update could not
    proceed.
    """
    surge = resolve(max_surge, desired, up=True, default="25%", field="maxSurge")
    unavailable = resolve(max_unavailable, desired, up=False, default="25%", field="maxUnavailable")
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, desired) if desired else unavailable
