from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.errors import InvalidInput
from cotenant.policy.assess.money import PricedNodes, PricedPods, bill, removed

NAN = float("nan")


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float64)


# two nodes of 4 cores and 8 GiB at 1 a core and 0.5 a GiB (8 an hour), one without a price
NODES = PricedNodes(
    column(1, 1, NAN), column(0.5, 0.5, NAN), column(3, 3, NAN), column(4000, 4000, 4000), column(8192, 8192, 8192),
    column(0, 1, 0), column(1000, 0, 0), column(0, 0, 0),
)  # fmt: skip


def pods(*rows: tuple[int, float, float, float, float, float]) -> PricedPods:
    node, *columns = zip(*rows, strict=True)
    return PricedPods(np.array(node, np.int64), *(column(*values) for values in columns))


def test_a_bill_by_hand() -> None:
    found = bill(
        NODES,
        pods(
            (0, 2000, 4096, 0, 500, 1024),  # pays 2 + 2, uses 0.5 + 0.5
            (0, 500, 1024, 0, 1000, 2048),  # uses more than it asked for: pays 1 + 1
            (1, 1000, 1024, 1, NAN, NAN),  # unknown: wholly used; 1 + 0.5 + 3 for the card
            (2, 1000, 1024, 0, 1, 1),  # no price
            (-1, 1000, 1024, 0, NAN, NAN),  # on no node
        ),
        ("a", "b", "b", "b", "a"),
    )
    first, second = found.groups
    assert (first.name, first.pods, first.paid, first.used, first.idle) == ("b", 3, 6.5, 6.5, 0)
    assert (first.unmeasured, first.unpriced) == (1, 1)
    assert (second.name, second.paid, second.used, second.idle, second.unpriced) == ("a", 4, 1, 3, 1)
    # 1 of the 2.5 cores that are idle or unasked on the first node can be lent: 1.5 of them are a's
    assert second.lent == pytest.approx(1.5 * (1 / 2.5))
    assert found.free_lent == pytest.approx(1.0 * (1 / 2.5))
    assert found.unpriced_nodes == 1
    assert found.nodes == pytest.approx(8 + 8 + 3)
    assert found.paid + found.free == pytest.approx(found.nodes)


def test_what_is_paid_and_free_is_the_price_of_the_nodes() -> None:
    rng = np.random.default_rng(4)
    count, total = 50, 400
    nodes = PricedNodes(
        rng.uniform(0.01, 1, count), rng.uniform(0.01, 1, count), rng.uniform(1, 3, count), np.full(count, 64_000.0),
        np.full(count, 262_144.0), np.full(count, 4.0), rng.uniform(0, 60_000, count), rng.uniform(0, 200_000, count),
    )  # fmt: skip
    at = rng.integers(0, count, total)
    small = PricedPods(
        at, rng.uniform(0, 2000, total), rng.uniform(0, 4000, total), np.zeros(total), rng.uniform(0, 2000, total),
        rng.uniform(0, 4000, total),
    )  # fmt: skip
    found = bill(nodes, small, [f"team-{i % 7}" for i in range(total)])
    assert found.paid + found.free == pytest.approx(found.nodes)
    assert sum(group.pods for group in found.groups) == total
    for group in found.groups:
        assert group.used + group.idle == pytest.approx(group.paid)
        assert 0 <= group.lent <= group.idle
    assert 0 <= found.free_lent <= found.free
    paid = [group.paid for group in found.groups]
    assert paid == sorted(paid, reverse=True)


def test_nothing_costs_nothing() -> None:
    none = np.zeros(0)
    empty = bill(PricedNodes(*[none] * 8), PricedPods(np.zeros(0, np.int64), *[none] * 5), ())
    assert (empty.groups, empty.free, empty.nodes, empty.paid) == ((), 0, 0, 0)
    homeless = bill(PricedNodes(*[none] * 8), pods((-1, 1, 1, 0, 1, 1)), ("a",))
    assert (homeless.groups[0].paid, homeless.groups[0].unpriced) == (0, 1)


def test_nodes_that_are_emptied_save_their_price() -> None:
    assert removed(column(8, 11, NAN), np.array([1, 2])) == 11


def test_a_name_for_each_pod() -> None:
    with pytest.raises(InvalidInput, match="one for each of 1 pods"):
        bill(NODES, pods((0, 1, 1, 0, 1, 1)), ())
