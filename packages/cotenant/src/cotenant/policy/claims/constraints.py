"""Constraints between the devices of a claim, while they are chosen one by one.

A device without the attribute satisfies neither kind. Values of different types are different.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.model.claims.devices import AttributeValue
from cotenant.model.claims.requests import Constraint, ExactRequest
from cotenant.policy.claims.pools import PoolDevice


def attribute_of(device: PoolDevice, name: str) -> AttributeValue | None:
    """The value of an attribute that is named with its domain; names without one are the driver's own."""
    domain, _, short = name.partition("/")
    for known, value in device.device.attributes:
        if known == name or (known == short and domain == device.id.driver):
            return value
    return None


@dataclass(slots=True)
class Chosen:
    """The values of the devices that were chosen under one constraint, in order."""

    constraint: Constraint
    values: list[tuple[type, AttributeValue]] = field(default_factory=list)

    def add(self, request: ExactRequest, device: PoolDevice) -> bool:
        """Count a device. False = it must not be chosen, and is not counted."""
        if not self.constraint.covers(request):
            return True
        value = attribute_of(device, self.constraint.attribute)
        if value is None:
            return False
        typed = (type(value), value)
        if self.constraint.is_distinct and typed in self.values:
            return False
        if not self.constraint.is_distinct and self.values and self.values[0] != typed:
            return False
        self.values.append(typed)
        return True

    def remove(self, request: ExactRequest) -> None:
        """Take back the last device of a request that was counted."""
        if self.constraint.covers(request):
            self.values.pop()
