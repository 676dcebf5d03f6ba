"""Sets of pods that free room, and nodes to empty, against brute force."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

import numpy as np
import pytest

from cotenant.policy.rebalance.packing.emptying import NodeRequests, empty_nodes
from cotenant.policy.rebalance.packing.freeing import FreeableNode, options


def random_holders(seed: int) -> list[FreeableNode]:
    rng = np.random.default_rng(seed)
    holders = []
    ranks = rng.permutation(40)
    at = 0
    for name in "abc":
        pods = int(rng.integers(0, 7))
        held = rng.integers(0, 4, (pods, 2))
        holders.append(FreeableNode(name, rng.integers(-1, 6, 2), held, ranks[at : at + pods]))
        at += pods
    return holders


@pytest.mark.parametrize("seed", range(80))
def test_the_first_set_has_the_fewest_and_least_important_pods(seed: int) -> None:
    holders = random_holders(seed)
    expected = []
    for holder in holders:
        sets = [chosen for size in range(4) for chosen in combinations(range(len(holder.held)), size)]
        enough = [chosen for chosen in sets if (holder.held[list(chosen)].sum(axis=0) >= holder.missing).all()]
        expected += [
            (len(some), sorted((int(holder.rank[i]) for i in some), reverse=True), holder.name) for some in enough
        ]
    found = list(options(holders, 3))
    assert found == sorted(found)
    if not expected:
        assert not found
        return
    assert (found[0].size, list(found[0].ranks), found[0].node) == min(expected)
    by_name = {holder.name: holder for holder in holders}
    for freeing in found:  # each is sufficient, and no pod of it can be left out
        holder = by_name[freeing.node]
        for size in range(freeing.size + 1):
            for some in combinations(freeing.pods, size):
                enough = (holder.held[list(some)].sum(axis=0) >= holder.missing).all()
                assert enough == (size == freeing.size)


def test_sets_of_devices_are_tried_although_sums_suffice() -> None:
    holder = FreeableNode("a", np.array([0]), np.array([[1], [1]]), np.array([1, 0]), by_devices=True)
    assert [option.pods for option in options([holder], 2)] == [(1,), (0,), (0, 1)]


def test_large_nodes_keep_the_number_of_candidates_bounded() -> None:
    rng = np.random.default_rng(0)
    held = rng.integers(1, 10, (60, 1))
    held[59] = 500
    (first, *_) = options([FreeableNode("a", np.array([400]), held, np.arange(60))], 3)
    assert first.pods == (59,)


def requests(name: str, percent: int, is_open: bool = True) -> NodeRequests:
    return NodeRequests(name, {"cpu": percent}, {"cpu": 100}, is_open)


def test_the_least_used_node_is_emptied_onto_kept_ones() -> None:
    nodes = [requests("a", 15), requests("b", 5), requests("c", 60), requests("d", 70, is_open=False)]
    asked: list[tuple[str, tuple[str, ...]]] = []

    def empties(node: str, targets: Sequence[str]) -> Collection[str] | None:
        asked.append((node, tuple(targets)))
        return {"a"} if node == "b" else None

    found = empty_nodes(nodes, {"cpu": 20}, 0, empties, 2)
    assert (found.underused, found.emptied) == (("b", "a"), ("b",))
    assert asked == [("b", ("a", "c"))], "a received a pod, so it is kept"


def test_nothing_is_emptied_where_too_few_nodes_are_underused() -> None:
    def empties(node: str, targets: Sequence[str]) -> Collection[str] | None:
        raise AssertionError

    found = empty_nodes([requests("a", 15), requests("b", 50)], {"cpu": 20}, 1, empties, 2)
    assert found.note == "1 node is underused, numberOfNodes is 1"
    assert empty_nodes([requests("b", 50)], {"cpu": 20}, 0, empties, 2).note == "no node is underused"
