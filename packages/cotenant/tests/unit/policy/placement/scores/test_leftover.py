from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.arrays import NodeArrays, Param, ReportColumn, ShapeArrays, Sum
from cotenant.policy.placement.compiled import commit
from cotenant.policy.placement.leftover import LeftoverKnobs, leftover, leftover_choose, leftover_parts
from cotenant.policy.placement.scores.leftover import waste_table
from cotenant.policy.placement.topology.group_antiaffinity import UNLIMITED, group_rules, narrow

NONE = np.empty(0, np.int64)


def cluster(capacity: list[tuple[int, int]], groups: int) -> NodeArrays:
    size = len(capacity)
    return NodeArrays(
        capacity=np.array([(cpu * 1000, memory, 100) for cpu, memory in capacity], np.int64),
        requested=np.zeros((size, 3), np.int64),
        sums=np.zeros((size, len(Sum)), np.int64),
        report=np.full((size, len(ReportColumn)), np.nan),
        taints=np.zeros(size, np.uint64),
        labels=np.zeros((size, 1), np.uint64),
        ready=np.ones(size, np.bool_),
        group_count=np.zeros((size, groups), np.int64),
    )


def shapes(requests: list[tuple[int, int]], limit: np.ndarray | None = None) -> ShapeArrays:
    size = len(requests)
    params = np.zeros((size, len(Param)))
    params[:, Param.LOAD_LIMIT] = np.inf
    return ShapeArrays(
        request=np.array([(cpu * 1000, memory, 1) for cpu, memory in requests], np.int64),
        sums=np.zeros((size, len(Sum)), np.int64),
        params=params,
        tolerated=np.zeros(size, np.uint64),
        selector=np.zeros((size, 1), np.uint64),
        tenant=np.zeros(size, np.int64),
        group=np.arange(size, dtype=np.int64),
        group_limit=np.full(size, UNLIMITED, np.int64) if limit is None else limit,
    )


def test_waste_of_one_shape_is_what_remains_after_as_many_as_fit() -> None:
    request = np.array([[3000, 2, 1]], np.int64)
    table = waste_table(np.array([[10000, 8, 9]], np.int64), request, np.ones(1), 1e6, 1000, 1)
    assert table.cores[10, 8] == pytest.approx(1.0, abs=1e-3)  # three fit, a core is left
    assert table.cores[10, 3] == pytest.approx(7.0, abs=1e-3)  # memory for one
    assert table.cores[2, 8] == pytest.approx(2.0)
    assert table.cores[0, 0] == 0.0


def test_waste_follows_the_stopping_equation_by_hand() -> None:
    # one core, one unit of memory; half of the offers fit and end with nothing left: W = 1/T + (1 - 1/T) (0.5 x 0 + 0.5
    # W)
    request = np.array([[1000, 1, 1], [2000, 1, 1]], np.int64)
    table = waste_table(np.array([[1000, 1, 9]], np.int64), request, np.array([0.5, 0.5]), 4.0, 1000, 1)
    assert table.cores[1, 1] == pytest.approx(0.25 / (1 - 0.75 * 0.5))


def test_a_pod_goes_where_it_completes_a_shape_rather_than_where_it_strands_cpu() -> None:
    kinds = shapes([(4, 2), (2, 4)])
    nodes = cluster([(6, 6), (6, 6)], 2)
    commit(nodes, 0, kinds, 0)  # (2, 4) left there: exactly the second kind
    rules = group_rules(2, NONE, NONE, NONE)
    policy = leftover(nodes, kinds, rules, np.ones(2), LeftoverKnobs(), 1000, 1)
    allowed = np.ones(2, np.bool_)
    assert leftover_choose(nodes, kinds, 1, allowed, policy) == 0


def test_small_pods_spare_the_last_row_that_a_large_one_needs() -> None:
    kinds = shapes([(2, 2), (20, 20)])
    nodes = cluster([(8, 8), (20, 20)], 2)
    rules = group_rules(2, NONE, NONE, NONE)
    policy = leftover(nodes, kinds, rules, np.array([0.9, 0.1]), LeftoverKnobs(waste=0.0), 1000, 1)
    chosen = []
    for _ in range(6):
        n = leftover_choose(nodes, kinds, 0, np.ones(2, np.bool_), policy)
        commit(nodes, n, kinds, 0)
        chosen.append(n)
    assert chosen == [0, 0, 0, 0, 1, 1]  # work-conserving: once the small row is full, the large one is taken


def test_scarcity_sees_rules_and_slots_stay_true() -> None:
    rng = np.random.default_rng(3)
    present, limited = rng.integers(0, 6, (2, 14))
    rules = group_rules(6, present, limited, rng.integers(0, 3, 14))
    kinds = shapes([tuple(pair) for pair in rng.integers(1, 8, (6, 2)).tolist()], rules.limit)
    nodes = cluster([(20, 20)] * 5, 6)
    policy = leftover(nodes, kinds, rules, np.ones(6), LeftoverKnobs(many_rules=0.0), 1000, 1)
    placed = 0
    for k in rng.integers(0, 6, 60):
        allowed = np.ones(5, np.bool_)
        n = leftover_choose(nodes, kinds, k, allowed, policy) if narrow(nodes.group_count, k, rules, allowed) else -1
        if n < 0:
            continue
        placed += 1
        commit(nodes, n, kinds, k)
        for w, other in enumerate(policy.watched.shape):
            free = (nodes.capacity - nodes.requested >= kinds.request[other]).all(axis=1)
            narrow(nodes.group_count, other, rules, free)
            assert policy.watched.open[:, w].tolist() == free.tolist()
            assert policy.watched.slots[w] == free.sum()
    assert 10 < placed < 60
    parts = leftover_parts(nodes, kinds, 0, np.empty(0, np.int64), policy)
    assert parts.shape == (0, 2)
