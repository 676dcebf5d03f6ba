"""What a request takes of the capacity of a device, by the device's policy.

Source: Kubernetes 1.36, structured allocator, consumable capacity; KEP-5075.
"""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.model.claims.devices import DeviceCapacity, OfferedDevice, RequestPolicy
from cotenant.model.claims.requests import ExactRequest
from cotenant.model.quantities import NANO, Quantity, QuantityFormat

NOTHING: Mapping[str, int] = {}


def taken(request: ExactRequest, device: OfferedDevice) -> tuple[tuple[str, Quantity], ...] | None:
    """What the request takes of each capacity; None where the device does not serve such amounts."""
    if not device.capacity:
        return None if request.capacity else ()
    asked = dict(request.capacity)
    if asked and not asked.keys() <= {name for name, _ in device.capacity}:
        return None
    found = []
    for name, capacity in device.capacity:
        amount = _consumed(asked.get(name), capacity)
        if capacity.policy is not None and _violates(amount, capacity.policy):
            return None
        found.append((name, amount))
    return tuple(found)


def fits(
    amounts: tuple[tuple[str, Quantity], ...], device: OfferedDevice, used: Mapping[str, int], more: Mapping[str, int]
) -> bool:
    """Whether these amounts are left beside what is used already, in nano units."""
    return all(
        amount.nano + used.get(name, 0) + more.get(name, 0) <= capacity.value.nano
        for (name, amount), (_, capacity) in zip(amounts, device.capacity, strict=True)
    )


def _consumed(asked: Quantity | None, capacity: DeviceCapacity) -> Quantity:
    policy = capacity.policy
    if asked is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is None:
        return asked
    if policy.is_range and policy.min is not None:
        return _rounded_up(asked, policy.min, policy.step)
    for value in policy.valid_values:
        if asked.nano <= value.nano:
            return value
    return asked


def _rounded_up(asked: Quantity, least: Quantity, step: Quantity | None) -> Quantity:
    if asked.nano < least.nano:
        return least
    if step is None:
        return asked
    steps = -(-(asked.value() - least.value()) // step.value())
    return Quantity((least.value() + step.value() * steps) * NANO, QuantityFormat.BINARY)


def _violates(amount: Quantity, policy: RequestPolicy) -> bool:
    if policy.default is not None and amount == policy.default:
        return False
    if policy.is_range:
        if policy.max is not None and amount.nano > policy.max.nano:
            return True
        if policy.step is None:
            return False
        least = policy.min.value() if policy.min is not None else 0
        return (amount.value() - least) % policy.step.value() != 0
    return bool(policy.valid_values) and all(amount.nano != value.nano for value in policy.valid_values)
