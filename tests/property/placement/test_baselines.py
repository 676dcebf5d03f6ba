"""Invariants of every round-based rival, on random clusters with many constraints."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.model.arrays import (
    CPU,
    NodeArrays,
    Param,
    PendingArrays,
    ReportColumn,
    ResidentArrays,
    ShapeArrays,
    Sum,
    TenantArrays,
)
from cotenant.policy.placement.contract import RoundPolicy, Snapshot
from cotenant_lab.baselines.bounds import lp_bound, volume_bound
from cotenant_lab.baselines.drf import DominantResourceFairness
from cotenant_lab.baselines.firmament.coco import CoCo
from cotenant_lab.baselines.firmament.load_spreading import LoadSpreading
from cotenant_lab.baselines.firmament.quincy import Quincy
from cotenant_lab.baselines.firmament.scheduler import Firmament
from cotenant_lab.baselines.mesos import MesosOffers
from cotenant_lab.baselines.tetris import Tetris

POLICIES: tuple[RoundPolicy, ...] = (
    DominantResourceFairness(),
    Tetris(),
    Tetris(fairness=0.0, tasks_per_visit=0),
    Firmament(LoadSpreading()),
    Firmament(LoadSpreading(), round_tasks=3),
    Firmament(Quincy()),
    Firmament(CoCo(), round_tasks=7),
    MesosOffers(),
    MesosOffers(cycles=1),
)
WORK_CONSERVING = POLICIES[:3]


def random_cluster(seed: int) -> Snapshot:
    """Few nodes, many pods: taints, selectors, group limits, nodes down, nodes full or over-full, tenants of
    unequal weight.
    """
    rng = np.random.default_rng(seed)
    n, k, m, t, g = (int(x) for x in rng.integers((1, 1, 0, 1, 1), (9, 8, 40, 5, 4)))
    r = int(rng.integers(3, 5))
    capacity = rng.integers(0, 40, (n, r))
    request = rng.integers(0, 7, (k, r))
    request[:, 2] = 1
    shape = rng.integers(0, k, m)
    tenant = rng.integers(0, t, k)
    is_service = rng.random(k) < 0.3
    job = rng.integers(0, 5, m)
    ready_s = np.sort(rng.uniform(0.0, 500.0, m))
    params = np.zeros((k, len(Param)))
    params[:, Param.SENSITIVITY] = rng.lognormal(-1.4, 1.1, k)
    params[:, Param.PRESSURE] = rng.lognormal(-1.6, 1.1, k)
    return Snapshot(
        nodes=NodeArrays(
            capacity=capacity,
            requested=rng.integers(0, 24, (n, r)) // int(rng.integers(1, 5)),
            sums=rng.integers(0, 50, (n, len(Sum))),
            report=np.full((n, len(ReportColumn)), np.nan),
            taints=rng.integers(0, 4, n, dtype=np.uint64) & rng.integers(0, 4, n, dtype=np.uint64),
            labels=rng.integers(0, 4, (n, 2), dtype=np.uint64) | rng.integers(0, 4, (n, 2), dtype=np.uint64),
            ready=rng.random(n) < 0.8,
            group_count=rng.integers(0, 2, (n, g)),
        ),
        shapes=ShapeArrays(
            request=request,
            sums=np.zeros((k, len(Sum)), np.int64),
            params=params,
            tolerated=rng.integers(0, 4, k, dtype=np.uint64),
            selector=np.where(rng.random((k, 2)) < 0.3, rng.integers(0, 4, (k, 2)), 0).astype(np.uint64),
            tenant=tenant,
            group=rng.integers(-1, g, k),
            group_limit=rng.integers(0, 6, k),
        ),
        pending=PendingArrays(
            pod=rng.permutation(1000)[:m].astype(np.int64),
            shape=shape,
            tenant=tenant[shape],
            job=np.where(is_service[shape], -1, job),
            stage=shape,
            is_service=is_service[shape],
            ready_s=ready_s,
            deadline_s=ready_s + 100.0,
            path_s=np.full(m, 10.0),
            work=(1.0 + job) * rng.integers(1, 4),
        ),
        tenants=TenantArrays(allocated=rng.integers(0, 30, (t, r)), weight=rng.uniform(0.5, 2.0, t)),
        residents=ResidentArrays(row=rng.integers(-1, n, 20), shape=rng.integers(0, k, 20)),
    )


def allowed(cluster: Snapshot, requested: np.ndarray, group_count: np.ndarray, row: int, shape: int) -> bool:
    """The contract's rules, spelled out."""
    nodes, shapes = cluster.nodes, cluster.shapes
    group = int(shapes.group[shape])
    return bool(
        nodes.ready[row]
        and (requested[row] + shapes.request[shape] <= nodes.capacity[row]).all()
        and nodes.taints[row] & ~shapes.tolerated[shape] == 0
        and (nodes.labels[row] & shapes.selector[shape] == shapes.selector[shape]).all()
        and (group < 0 or group_count[row, group] < shapes.group_limit[shape])
    )


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.name}-{POLICIES.index(policy)}")
@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_round_keeps_every_rule(policy: RoundPolicy, seed: int) -> None:
    cluster = random_cluster(seed)
    before = [column.copy() for part in (cluster.nodes, cluster.tenants) for column in part]
    decision = policy.decide(cluster, 600.0, np.random.default_rng(seed))

    # each pod at most once, and what is placed is what was decided
    assert len(set(decision.order.tolist())) == decision.order.size
    assert sorted(decision.order.tolist()) == np.flatnonzero(decision.row >= 0).tolist()
    assert decision.row.size == cluster.pending.pod.size

    # every placement was allowed at the moment it was decided
    requested, group_count = cluster.nodes.requested.copy(), cluster.nodes.group_count.copy()
    for pod in decision.order:
        row, shape = int(decision.row[pod]), int(cluster.pending.shape[pod])
        assert allowed(cluster, requested, group_count, row, shape)
        requested[row] += cluster.shapes.request[shape]
        if cluster.shapes.group[shape] >= 0:
            group_count[row, cluster.shapes.group[shape]] += 1

    # services first
    kinds = cluster.pending.is_service[decision.order]
    assert not (np.diff(kinds.astype(int)) > 0).any()

    # every waiting pod has a reason
    waiting = int((decision.row < 0).sum())
    assert sum(decision.reasons.values()) == waiting
    assert decision.reasons or decision.row.size

    # the snapshot is the caller's
    after = [column for part in (cluster.nodes, cluster.tenants) for column in part]
    assert all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(before, after, strict=True))

    # no policy beats the bounds
    cpu = cluster.shapes.request[cluster.pending.shape, CPU]
    reached = cpu[decision.row >= 0].sum() / max(1, cpu.sum())
    assert cpu.sum() == 0 or reached <= lp_bound(cluster) + 1e-9 <= volume_bound(cluster) + 2e-9

    # a pod that still fits somewhere does not wait
    if policy in WORK_CONSERVING:
        for pod in np.flatnonzero(decision.row < 0):
            shape = int(cluster.pending.shape[pod])
            assert not any(allowed(cluster, requested, group_count, row, shape) for row in range(len(requested)))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.name}-{POLICIES.index(policy)}")
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_equal_seeds_give_equal_rounds(policy: RoundPolicy, seed: int) -> None:
    cluster = random_cluster(seed)
    one = policy.decide(cluster, 600.0, np.random.default_rng(seed))
    two = policy.decide(cluster, 600.0, np.random.default_rng(seed))
    assert one.row.tolist() == two.row.tolist()
    assert one.order.tolist() == two.order.tolist()
    assert one.reasons == two.reasons
