"""What pods hold of NUMA nodes, and what is left of each."""

from __future__ import annotations

import pytest

from cotenant.model.cpus.spec import NumaAmount
from cotenant.policy.placement.cpus.numa_amounts import NumaAmounts, spread_amount
from cotenant.policy.placement.numa import NumaRoom

GIB = 1 << 30
EMPTY = NumaAmounts((NumaAmount(0, 8000, 16 * GIB), NumaAmount(1, 4000, 8 * GIB)))


def held(*holdings: tuple[str, tuple[NumaAmount, ...]]) -> NumaAmounts:
    found = EMPTY
    for uid, amounts in holdings:
        found = found.given(uid, amounts)
    return found


@pytest.mark.parametrize(
    ("amounts", "cpu_m", "memory_gib"),
    [
        ((), (8000, 4000), (16, 8)),
        ((("a", (NumaAmount(0, 3000, 4 * GIB),)),), (5000, 4000), (12, 8)),
        ((("a", (NumaAmount(0, 3000),)), ("b", (NumaAmount(0, None, GIB),))), (5000, 4000), (15, 8)),
        ((("a", (NumaAmount(0, 3000, GIB), NumaAmount(1, 1000, 2 * GIB))),), (5000, 3000), (15, 6)),
        ((("a", (NumaAmount(1, 9000, 99 * GIB),)),), (8000, 0), (16, 0)),  # another scheduler's, beyond all there is
        ((("a", (NumaAmount(7, 1000, GIB),)),), (8000, 4000), (16, 8)),  # of a NUMA node that is not there
    ],
)
def test_what_is_left_is_the_total_without_all_holdings(
    amounts: tuple[tuple[str, tuple[NumaAmount, ...]], ...], cpu_m: tuple[int, int], memory_gib: tuple[int, int]
) -> None:
    found = held(*amounts)
    assert found.cpu_rooms_m() == (NumaRoom(0, 8000, cpu_m[0]), NumaRoom(1, 4000, cpu_m[1]))
    rooms = (NumaRoom(0, 16 * GIB, memory_gib[0] * GIB), NumaRoom(1, 8 * GIB, memory_gib[1] * GIB))
    assert found.memory_rooms() == rooms
    for uid, _ in amounts:
        found = found.returned(uid)
    assert found == EMPTY
    assert found.returned("nobody") is found


def test_memory_that_one_numa_node_does_not_report_is_not_known() -> None:
    assert NumaAmounts((NumaAmount(0, 8000, GIB), NumaAmount(1, 4000, None))).memory_rooms() is None
    assert NumaAmounts((NumaAmount(0, None, GIB),)).cpu_rooms_m() == (NumaRoom(0, 0, 0),)


def test_alike_are_equal_remainders_whoever_holds_them_but_not_where_a_holding_is_mixed() -> None:
    one = held(("a", (NumaAmount(0, 1000, GIB),)), ("b", (NumaAmount(1, 1000, GIB),)))
    other = held(("c", (NumaAmount(1, 1000, GIB),)), ("d", (NumaAmount(0, 1000, GIB),)))
    mixed = held(("e", (NumaAmount(0, 1000, GIB), NumaAmount(1, 1000, GIB))))
    assert one.likeness() == other.likeness()
    assert one.likeness() != mixed.likeness()
    assert (one.mixed(), mixed.mixed()) == (frozenset(), frozenset({0, 1}))
    assert one.likeness() != EMPTY.likeness()


@pytest.mark.parametrize(
    ("amount", "free", "found"),
    [
        (5, (3, 4), {1: 4, 0: 1}),
        (4, (3, 4), {1: 4}),
        (0, (3, 4), {}),
        (9, (3, 4), {1: 6, 0: 3}),  # what does not fit stays with the one that has most
        (2, (3, 3), {0: 2}),
        (2, (0, 0), {0: 2}),
        (2, (), {}),
    ],
)
def test_an_amount_goes_to_the_numa_node_with_most_room_first(
    amount: int, free: tuple[int, ...], found: dict[int, int]
) -> None:
    rooms = [NumaRoom(node, 10, room) for node, room in enumerate(free)]
    assert spread_amount(amount, rooms) == found
