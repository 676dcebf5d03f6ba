"""kube-scheduler's default scores from v1.36, beside the formulas for a configuration, which a real kube-scheduler is
compared with (tests/kube/test_upstream_scores.py).
"""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.engine.state.ledger import empty_nodes
from cotenant.model.arrays import CPU, MEMORY, NodeArrays, Param, ShapeArrays
from cotenant.policy.placement.kube_scoring import USUAL
from cotenant.policy.placement.scores.kube import kube_1_36_parts, kube_default_parts
from cotenant.policy.placement.scores.kube_configured import balanced_score, fit_score

GIB = 2**30
COLUMNS = {"cpu": CPU, "memory": MEMORY}


def nodes(capacity: list[tuple[int, int]], requested: list[tuple[int, int]]) -> NodeArrays:
    made = empty_nodes(np.array([(cpu, memory * GIB, 110) for cpu, memory in capacity], np.int64), groups=1)
    for row, (cpu, memory) in enumerate(requested):
        made.requested[row, [CPU, MEMORY]] = cpu, memory * GIB
    return made


def shape(cpu: int, memory: int) -> ShapeArrays:
    one = np.zeros(1, np.int64)
    return ShapeArrays(
        request=np.array([[cpu, memory * GIB, 1]], np.int64),
        sums=np.zeros((1, 1)),
        params=np.zeros((1, len(Param))),
        tolerated=one.astype(np.uint64),
        selector=np.zeros((1, 1), np.uint64),
        tenant=one,
        group=one - 1,
        group_limit=one,
    )


def test_what_a_pod_changes_of_the_balance_counts_and_not_what_is_left() -> None:
    """Half of the CPU is taken on a: a pod of memory mends that, and on b it makes what is even uneven."""
    found = nodes([(8_000, 16), (8_000, 16)], [(4_000, 0), (0, 0)])
    pod, rows = shape(0, 8), np.arange(2)
    # a: 75 before, 100 after; b: 100 before, 75 after
    assert kube_1_36_parts(found, pod, 0, rows)[:, 1].tolist() == [50 + (50 + 25) // 2, 50 + (50 - 25) // 2]
    assert kube_default_parts(found, pod, 0, rows)[:, 1].tolist() == [100, 75]


def test_a_pod_without_requests_has_no_balance() -> None:
    found = nodes([(8_000, 16)], [(4_000, 0)])
    assert kube_1_36_parts(found, shape(0, 0), 0, np.arange(1))[:, 1].tolist() == [0]


@pytest.mark.parametrize("seed", range(20))
def test_it_is_what_a_configuration_without_arguments_gives(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = 50
    capacity = [(int(rng.integers(1, 97)) * 1_000, int(rng.integers(1, 400))) for _ in range(size)]
    requested = [(int(rng.integers(0, cpu + 2_000)), int(rng.integers(0, gib + 4))) for cpu, gib in capacity]
    found, pod, rows = (
        nodes(capacity, requested),
        shape(int(rng.integers(1, 9_000)), int(rng.integers(1, 40))),
        np.arange(size),
    )
    parts = kube_1_36_parts(found, pod, 0, rows)
    assert parts[:, 0].tolist() == fit_score(USUAL, COLUMNS, found, pod, 0, rows).tolist()
    balanced = balanced_score(USUAL, COLUMNS, found, pod, 0, rows)
    assert balanced is not None
    assert parts[:, 1].tolist() == balanced.tolist()
