"""Constraints between the devices of a claim, while they are chosen one by one.

A device without the attribute satisfies neither kind. Values of different types are different. A value that is no list
counts as a list of one: devices match that have a value in common, and differ if no two of them have one.

Source: Kubernetes 1.36, DeviceConstraint; KEP-5491.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.model.claims.devices import AttributeValue, AttributeValues
from cotenant.model.claims.requests import DeviceConstraint, ExactRequest
from cotenant.policy.claims.pools import PoolDevice


def attribute_of(device: PoolDevice, name: str) -> AttributeValue | None:
    """The value of an attribute that is named with its domain; names without one are the driver's own."""
    domain, _, short = name.partition("/")
    for known, value in device.device.attributes:
        if known == name or (known == short and domain == device.id.driver):
            return value
    return None


def values_of(value: AttributeValue) -> frozenset[tuple[type, AttributeValue]]:
    """The values that a device has under an attribute, with their types."""
    return frozenset((type(one), one) for one in (value.all if isinstance(value, AttributeValues) else (value,)))


@dataclass(slots=True)
class ChosenValues:
    """What the devices that were chosen under one constraint have, in order: the values of each for
    `distinctAttribute`, those that it shares with all before it for `matchAttribute`.
    """

    constraint: DeviceConstraint
    values: list[frozenset[tuple[type, AttributeValue]]] = field(default_factory=list)

    def add(self, request: ExactRequest, device: PoolDevice) -> bool:
        """Count a device. False = it must not be chosen, and is not counted."""
        if not self.constraint.covers(request):
            return True
        value = attribute_of(device, self.constraint.attribute)
        if value is None:
            return False
        found = values_of(value)
        if self.constraint.is_distinct:
            if any(not found.isdisjoint(other) for other in self.values):
                return False
        elif self.values:
            found &= self.values[-1]
            if not found:
                return False
        self.values.append(found)
        return True

    def remove(self, request: ExactRequest) -> None:
        """Take back the last device of a request that was counted."""
        if self.constraint.covers(request):
            self.values.pop()
