"""Rendezvous hashing moves only what must move."""

from __future__ import annotations

from collections import Counter

from cotenant.policy.sharding.rendezvous import is_owned_in_all, owner

KEYS = [f"node-{number}" for number in range(4000)]


def test_a_slot_that_joins_takes_its_part_and_nothing_else_moves() -> None:
    before = {key: owner(key, (0, 1, 2)) for key in KEYS}
    after = {key: owner(key, (0, 1, 2, 3)) for key in KEYS}
    moved = [key for key in KEYS if before[key] != after[key]]
    assert {after[key] for key in moved} == {3}
    assert 0.2 < len(moved) / len(KEYS) < 0.3


def test_parts_are_even_and_independent_of_the_order_of_slots() -> None:
    sizes = Counter(owner(key, (0, 1, 2, 3)) for key in KEYS)
    assert all(900 < size < 1100 for size in sizes.values())
    assert all(owner(key, (3, 1, 0, 2)) == owner(key, (0, 1, 2, 3)) for key in KEYS[:50])


def test_what_is_owned_in_all_rings_is_owned_in_each() -> None:
    rings = ((0, 1, 2), (0, 1, 2, 3), (1, 2, 3))
    for key in KEYS[:300]:
        for slot in range(4):
            assert is_owned_in_all(key, slot, rings) == all(owner(key, ring) == slot for ring in rings)
    assert not is_owned_in_all("node-1", 0, ())
    assert owner("node-1", ()) == -1
    assert is_owned_in_all("node-1", 7, ((7,),))
