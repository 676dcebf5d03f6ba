"""What requests take of the capacity of devices, by policy."""

from __future__ import annotations

import pytest

from cotenant.model.claims.devices import DeviceCapacity, OfferedDevice, RequestPolicy
from cotenant.model.claims.requests import ExactRequest
from cotenant.model.quantities import NANO, Quantity
from cotenant.policy.claims.capacity import fits, taken


def whole(amount: float) -> Quantity:
    return Quantity(round(amount * NANO))


def device(policy: RequestPolicy | None = None, value: float = 100) -> OfferedDevice:
    return OfferedDevice(
        "d", capacity=(("memory", DeviceCapacity(whole(value), policy)), ("cores", DeviceCapacity(whole(8))))
    )


def asked(amount: float | None = None, name: str = "memory") -> ExactRequest:
    return ExactRequest("r", "class", capacity=() if amount is None else ((name, whole(amount)),))


VALUES = RequestPolicy(whole(20), (whole(10), whole(20), whole(40)))
RANGE = RequestPolicy(None, (), whole(10), whole(50), whole(8))
NO_STEP = RequestPolicy(None, (), whole(10), whole(50))
DEFAULT_BEYOND = RequestPolicy(whole(60), (), whole(10), whole(50), whole(8))
NOTHING_SAID = RequestPolicy()


@pytest.mark.parametrize(
    ("policy", "amount", "memory"),
    [
        (None, None, 100),  # all of it
        (None, 30, 30),
        (None, 300, 300),  # that it is too much shows when it is allocated
        (VALUES, None, 20),
        (VALUES, 0.5, 10),
        (VALUES, 10, 10),
        (VALUES, 10.5, 20),
        (VALUES, 40, 40),
        (VALUES, 41, None),
        (RANGE, None, None),  # all of it is beyond the most
        (RANGE, 3, 10),
        (RANGE, 10, 10),
        (RANGE, 11, 18),
        (RANGE, 18, 18),
        (RANGE, 18.5, 26),
        (RANGE, 50, 50),
        (RANGE, 51, None),
        (NO_STEP, 3, 10),
        (NO_STEP, 33, 33),
        (NO_STEP, 50, 50),
        (NO_STEP, 50.5, None),
        (DEFAULT_BEYOND, None, 60),  # what the driver gives by default is never a violation
        (DEFAULT_BEYOND, 60, None),
        (NOTHING_SAID, None, 100),
        (NOTHING_SAID, 33, 33),
    ],
)
def test_amounts_are_rounded_up_to_what_the_device_serves(
    policy: RequestPolicy | None, amount: float | None, memory: float | None
) -> None:
    found = taken(asked(amount), device(policy))
    if memory is None:
        assert found is None
        return
    assert found is not None
    assert [(name, one.nano) for name, one in found] == [("memory", whole(memory).nano), ("cores", whole(8).nano)]


def test_a_default_that_is_asked_for_is_no_violation() -> None:
    policy = RequestPolicy(whole(15), (whole(10), whole(20)))
    found = taken(asked(), device(policy))
    assert found is not None
    assert found[0][1] == whole(15)


def test_a_device_without_such_a_capacity_does_not_serve_it() -> None:
    assert taken(asked(1, "other"), device()) is None
    bare = OfferedDevice("d")
    assert taken(asked(1), bare) is None
    assert taken(asked(), bare) == ()


def test_what_is_taken_and_what_is_used_fit_together() -> None:
    offered = device()
    amounts = (("memory", whole(30)), ("cores", whole(2)))
    assert fits(amounts, offered, {}, {})
    assert fits(amounts, offered, {"memory": 40 * NANO}, {"memory": 30 * NANO, "cores": 6 * NANO})
    assert not fits(amounts, offered, {"memory": 40 * NANO}, {"memory": 30 * NANO + 1})
    assert not fits(amounts, offered, {"cores": 6 * NANO + 1}, {})
    assert fits(amounts, offered, {"other": 10**18}, {})
