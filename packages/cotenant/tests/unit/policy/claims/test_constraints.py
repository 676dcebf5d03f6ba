"""Devices chosen under a constraint, against a look at all pairs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from cotenant.model.claims.devices import AttributeValue, AttributeValues, DeviceId, OfferedDevice, Reach
from cotenant.model.claims.requests import DeviceConstraint, ExactRequest
from cotenant.policy.claims.constraints import ChosenValues, attribute_of
from cotenant.policy.claims.pools import PoolDevice

REQUEST = ExactRequest("gpus", "class")


def device(**attributes: AttributeValue) -> PoolDevice:
    named = tuple((name.replace("__", "/").replace("_", "."), value) for name, value in attributes.items())
    return PoolDevice(DeviceId("gpu.x", "pool", "d"), OfferedDevice("d", named), Reach(), ())


def test_an_attribute_without_a_domain_is_the_drivers_own() -> None:
    own, foreign = device(numa=1), device(other_x__numa=2)
    assert (attribute_of(own, "gpu.x/numa"), attribute_of(own, "other.x/numa")) == (1, None)
    assert (attribute_of(foreign, "other.x/numa"), attribute_of(foreign, "gpu.x/numa")) == (2, None)
    assert attribute_of(device(), "gpu.x/numa") is None
    assert attribute_of(device(a=0, numa=5), "gpu.x/numa") == 5


def values(one: PoolDevice) -> set[AttributeValue]:
    value = attribute_of(one, "gpu.x/v")
    return set() if value is None else set(value.all) if isinstance(value, AttributeValues) else {value}


@pytest.mark.parametrize("is_distinct", [False, True])
def test_what_may_be_chosen_together(is_distinct: bool) -> None:
    rng = np.random.default_rng(4)
    refused = 0
    for _ in range(200):
        chosen = ChosenValues(DeviceConstraint("gpu.x/v", is_distinct))
        taken: list[PoolDevice] = []
        for _ in range(5):
            own = tuple(str(value) for value in sorted(rng.choice(4, rng.integers(1, 4), replace=False)))
            kind = int(rng.integers(5))
            one = device() if kind == 0 else device(v=own[0] if kind < 3 else AttributeValues("string", own))
            together = [values(other) for other in (*taken, one)]
            if is_distinct:
                may = bool(values(one)) and all(not a & b for a, b in combinations(together, 2))
            else:
                may = bool(set.intersection(*together))
            assert chosen.add(REQUEST, one) is may
            refused += not may
            if may:
                taken.append(one)
            elif taken and rng.random() < 0.5:
                chosen.remove(REQUEST)
                taken.pop()
    assert refused > 100


def test_values_of_different_types_are_different() -> None:
    for first, second in ((1, True), (0, False)):
        same, distinct = ChosenValues(DeviceConstraint("gpu.x/v")), ChosenValues(DeviceConstraint("gpu.x/v", True))
        assert same.add(REQUEST, device(v=first))
        assert not same.add(REQUEST, device(v=second))
        assert distinct.add(REQUEST, device(v=first))
        assert distinct.add(REQUEST, device(v=second))


def test_devices_of_other_requests_are_not_looked_at() -> None:
    chosen = ChosenValues(DeviceConstraint("gpu.x/v", requests=("gpus", "either/b")))
    other, part, whole = (
        ExactRequest("cards", "c"),
        ExactRequest("a", "c", parent="either"),
        ExactRequest("b", "c", parent="either"),
    )
    assert chosen.add(REQUEST, device(v=1))
    assert chosen.add(other, device())
    assert chosen.add(part, device(v=2))
    assert not chosen.add(whole, device(v=2))
    chosen.remove(other)
    assert not chosen.add(REQUEST, device(v=2))
    chosen.remove(REQUEST)
    assert chosen.add(whole, device(v=2))
