"""Which claims hold which devices, against a look at all claims after every event."""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from cotenant.engine.rules.claims.ledger import ClaimLedger, extended_uid
from cotenant.model.claims.claim import AllocatedDevice, Allocation, ResourceClaim
from cotenant.model.claims.devices import DeviceId
from cotenant.model.claims.requests import ClaimSpec
from cotenant.model.errors import Permanent
from cotenant.model.quantities import Quantity

DEVICES = [DeviceId("gpu.x", "pool", f"d{i}") for i in range(4)]


class Noted:
    """A ledger, and what it told."""

    def __init__(self) -> None:
        self.touched: list[DeviceId] = []
        self.freed = 0
        self.ledger = ClaimLedger(self.touched.append, self._observed)

    def _observed(self, devices: Collection[DeviceId], freed: bool) -> None:
        assert devices
        self.freed += freed

    def told(self) -> tuple[set[DeviceId], int]:
        found = set(self.touched), self.freed
        self.touched.clear()
        self.freed = 0
        return found


def given(*parts: tuple[int, str] | int, admin: bool = False, consumes: int = 0) -> Allocation:
    """Devices by number, alone or as a named share."""
    devices = []
    for part in parts:
        number, share = part if isinstance(part, tuple) else (part, "")
        consumed = (("memory", Quantity(consumes)),) if share else ()
        devices.append(AllocatedDevice("r", DEVICES[number], admin, share, consumed))
    return Allocation(tuple(devices))


def claim(
    name: str, allocation: Allocation | None = None, version: int = 0, uid: str = "", owner: str = ""
) -> ResourceClaim:
    made = ResourceClaim("ns", name, uid or f"u-{name}", ClaimSpec(), allocation, version=version)
    return replace(made, owner_uid=owner, is_for_extended=bool(owner))


def random_allocation(rng: np.random.Generator) -> Allocation:
    parts: list[tuple[int, str] | int] = []
    for _ in range(int(rng.integers(1, 4))):
        number = int(rng.integers(len(DEVICES)))
        parts.append((number, f"s{len(parts)}") if rng.random() < 0.5 else number)
    return given(*parts, admin=bool(rng.random() < 0.15), consumes=int(rng.integers(1, 9)))


def check(ledger: ClaimLedger) -> None:
    has = {uid: ledger.allocation(uid) for uid in {*ledger.by_uid, *ledger.assumed}}
    for device in DEVICES:
        alone, shares = set(), {}
        for uid, allocation in has.items():
            for position, part in enumerate(allocation.devices if allocation is not None else ()):
                if part.id == device and not part.has_admin_access:
                    if part.share:
                        shares[uid, position] = dict(part.consumed)["memory"].nano
                    else:
                        alone.add(uid)
        assert ledger.holds(device) is bool(alone)
        assert ledger.has(device) is bool(alone or shares)
        assert set(ledger.users_of(device)) == alone | {uid for uid, _ in shares}
        for gone in (frozenset(), frozenset({"u-a"}), frozenset(has)):
            left = {place: amount for place, amount in shares.items() if place[0] not in gone}
            expected = {"memory": sum(left.values())} if left else None
            assert ledger.consumed_without(device, gone) == expected
        assert ledger.consumed(device) == ledger.consumed_without(device, frozenset())


@pytest.mark.parametrize("seed", range(8))
def test_devices_are_held_by_what_claims_have(seed: int) -> None:
    """A claim may list a device twice: nothing keeps another writer from it."""
    rng = np.random.default_rng(seed)
    world = Noted()
    ledger = world.ledger
    kept = deepcopy(ledger.assumed)
    for _ in range(150):
        name, number = str(rng.choice(list("abc"))), int(rng.integers(4))
        uid = f"u-{name}"
        match int(rng.integers(7)):
            case 0 | 1:
                ledger.seen(claim(name, random_allocation(rng) if rng.random() < 0.6 else None))
            case 2:
                known = ledger.by_key.get(f"ns/{name}")
                assert ledger.gone(f"ns/{name}") is known
            case 3 | 4:
                before = ledger.assumed.get(uid)
                ledger.assume(uid, random_allocation(rng) if before is None else before.allocation, number)
            case 5:
                ledger.release(uid, number)
            case _:
                if rng.random() < 0.5:
                    kept = deepcopy(ledger.assumed)
                else:
                    ledger.put_back({uid: one for uid, one in kept.items() if _is_unseen(ledger, uid)})
        check(ledger)
    ledger.forget_pods()
    assert ledger.assumed == {}
    check(ledger)
    for name in "abc":
        ledger.gone(f"ns/{name}")
    assert not any(ledger.has(device) for device in DEVICES)


def _is_unseen(ledger: ClaimLedger, uid: str) -> bool:
    known = ledger.by_uid.get(uid)
    return known is None or known.allocation is None


def test_what_changes_is_told_once() -> None:
    world = Noted()
    ledger = world.ledger
    ledger.seen(claim("a", given(0)))
    assert world.told() == ({DEVICES[0]}, 0)
    ledger.seen(claim("a", given(0), version=5))
    assert world.told() == (set(), 0)
    ledger.seen(claim("a", given(1, (2, "s"))))
    assert world.told() == ({DEVICES[0], DEVICES[1], DEVICES[2]}, 1)
    ledger.gone("ns/a")
    assert world.told() == ({DEVICES[1], DEVICES[2]}, 1)
    assert ledger.gone("ns/a") is None


def test_an_older_object_is_ignored() -> None:
    ledger = Noted().ledger
    first, newer = claim("a", given(0), version=3), claim("a", None, version=4)
    assert ledger.seen(first) is None
    assert ledger.seen(newer) is first
    assert ledger.seen(first) is first  # the same value: nothing is news
    assert ledger.by_key["ns/a"] is newer
    assert ledger.seen(replace(first, version=0)) is newer  # one without a number counts
    assert ledger.holds(DEVICES[0])
    assert ledger.seen(replace(first, version=4)) is not None


def test_a_name_that_is_used_again_is_another_claim() -> None:
    world = Noted()
    ledger = world.ledger
    ledger.seen(claim("a", given(0), version=9))
    other = claim("a", given(1), version=1, uid="u-2")
    assert ledger.seen(other) is not None
    assert set(ledger.by_uid) == {"u-2"}
    assert (ledger.holds(DEVICES[0]), ledger.holds(DEVICES[1])) == (False, True)
    ledger.validate()


def test_an_observed_allocation_ends_what_was_assumed() -> None:
    world = Noted()
    ledger = world.ledger
    ledger.seen(claim("a"))
    ledger.assume("u-a", given(0), 1)
    ledger.assume("u-a", given(3), 2)  # a second pod relies on the first one's
    assert ledger.allocation("u-a") == given(0)
    ledger.release("u-a", 1)
    assert ledger.holds(DEVICES[0])
    ledger.seen(claim("a", given(1)))
    assert (ledger.allocation("u-a"), ledger.assumed) == (given(1), {})
    ledger.assume("u-a", given(2), 3)
    assert ledger.assumed == {}
    ledger.release("u-a", 2)
    ledger.validate()


def test_what_a_pods_extended_resources_will_get_ends_with_its_claim() -> None:
    ledger = Noted().ledger
    pending = extended_uid("pod-1")
    ledger.assume(pending, given(0), 1)
    assert ledger.holds(DEVICES[0])
    ledger.seen(claim("made", None, owner="pod-1"))
    assert pending in ledger.assumed
    ledger.seen(claim("made", given(0), owner="pod-2"))
    assert pending in ledger.assumed
    ledger.seen(claim("other", given(0), owner="pod-1"))
    assert pending not in ledger.assumed
    ledger.gone("ns/other")
    ledger.gone("ns/made")
    assert not ledger.has(DEVICES[0])


def test_devices_that_pods_have_otherwise_are_held_too() -> None:
    ledger = Noted().ledger
    ledger.outside.add(DEVICES[3])
    assert (ledger.holds(DEVICES[3]), ledger.has(DEVICES[3])) == (True, False)


def test_validation_finds_two_claims_with_one_device_and_a_wrong_count() -> None:
    ledger = Noted().ledger
    ledger.seen(claim("a", given(0)))
    ledger.seen(claim("b", given(0)))
    ledger.validate()  # others may do so
    ledger.assume("u-c", given(0), 1)
    with pytest.raises(Permanent, match="given to several claims"):
        ledger.validate()
    ledger.release("u-c", 1)
    ledger.assume("u-c", given(0, admin=True), 1)
    ledger.validate()
    ledger.by_uid["u-a"] = claim("a", given(1))
    with pytest.raises(Permanent, match="differ from those that claims have"):
        ledger.validate()


def test_devices_that_may_be_freed_by_evictions_from_now_on_are_told() -> None:
    world = Noted()
    ledger = world.ledger
    ledger.seen(replace(claim("a", given(0)), reserved_for=("x", "y")))
    world.told()
    ledger.seen(replace(claim("a", given(0), version=5), reserved_for=("y",)))
    assert world.told() == (set(), 1)
    ledger.seen(replace(claim("a", given(0), version=6), reserved_for=("y", "z")))
    assert world.told() == (set(), 0)


def test_what_is_tried_and_given_up_again_frees_nothing() -> None:
    world = Noted()
    world.ledger.seen(claim("a"))
    world.ledger.assume("u-a", given(0), 7)
    world.ledger.release("u-a", 7)
    assert world.told() == ({DEVICES[0]}, 0)
