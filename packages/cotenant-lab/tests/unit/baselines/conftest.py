from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pytest

from cotenant.model.arrays import (
    NodeArrays,
    Param,
    PendingArrays,
    ReportColumn,
    ResidentArrays,
    ShapeArrays,
    Sum,
    TenantArrays,
)
from cotenant.policy.placement.contract import Snapshot

ROOMY = 1_000  # pods a node may hold where the count does not matter


class MakeSnapshot(Protocol):
    def __call__(
        self,
        nodes: Sequence[Sequence[int]],
        shapes: Sequence[Sequence[int]],
        pods: Sequence[int],
        *,
        used: Sequence[Sequence[int]] | None = None,
        running: Sequence[int] | None = None,
        tenant: Sequence[int] | None = None,
        weight: Sequence[float] | None = None,
        service: Sequence[bool] | None = None,
        job: Sequence[int] | None = None,
        work: Sequence[float] | None = None,
        ready_s: Sequence[float] | None = None,
        group_limit: Sequence[int] | None = None,
        pressure: Sequence[float] | None = None,
        sensitivity: Sequence[float] | None = None,
        residents: Sequence[tuple[int, int]] = (),
    ) -> Snapshot: ...


def _make(
    nodes: Sequence[Sequence[int]],
    shapes: Sequence[Sequence[int]],
    pods: Sequence[int],
    *,
    used: Sequence[Sequence[int]] | None = None,
    running: Sequence[int] | None = None,
    tenant: Sequence[int] | None = None,
    weight: Sequence[float] | None = None,
    service: Sequence[bool] | None = None,
    job: Sequence[int] | None = None,
    work: Sequence[float] | None = None,
    ready_s: Sequence[float] | None = None,
    group_limit: Sequence[int] | None = None,
    pressure: Sequence[float] | None = None,
    sensitivity: Sequence[float] | None = None,
    residents: Sequence[tuple[int, int]] = (),
) -> Snapshot:
    """Nodes and shapes as (CPU, memory); pods by shape, tenants by shape, the rest by pod. Each group is one shape's.

    `residents` are (row, shape) of pods that stand already; `used` and `running` are not derived from them.
    """
    n, k, m = len(nodes), len(shapes), len(pods)
    shape = np.array(pods, np.int64).reshape(m)
    owner = np.array(tenant if tenant is not None else [0] * k, np.int64)
    tenants = int(owner.max(initial=0)) + 1
    capacity = np.column_stack([np.array(nodes, np.int64), np.full(n, ROOMY)])
    requested = np.zeros((n, 3), np.int64)
    if used is not None:
        requested[:, :2] = used
    if running is not None:
        requested[:, 2] = running
    limits = np.array(group_limit if group_limit is not None else [0] * k, np.int64)
    params = np.zeros((k, len(Param)))
    params[:, Param.PRESSURE] = 0.0 if pressure is None else pressure
    params[:, Param.SENSITIVITY] = 0.0 if sensitivity is None else sensitivity
    jobs = np.array(job if job is not None else shape, np.int64)
    allocated = np.zeros((tenants, 3), np.int64)
    return Snapshot(
        nodes=NodeArrays(
            capacity=capacity,
            requested=requested,
            sums=np.zeros((n, len(Sum)), np.int64),
            report=np.full((n, len(ReportColumn)), np.nan),
            taints=np.zeros(n, np.uint64),
            labels=np.zeros((n, 1), np.uint64),
            ready=np.ones(n, np.bool_),
            group_count=np.zeros((n, k), np.int64),
        ),
        shapes=ShapeArrays(
            request=np.column_stack([np.array(shapes, np.int64), np.ones(k, np.int64)]),
            sums=np.zeros((k, len(Sum)), np.int64),
            params=params,
            tolerated=np.zeros(k, np.uint64),
            selector=np.zeros((k, 1), np.uint64),
            tenant=owner,
            group=np.where(limits > 0, np.arange(k), -1),
            group_limit=limits,
        ),
        pending=PendingArrays(
            pod=np.arange(100, 100 + m),
            shape=shape,
            tenant=owner[shape],
            job=jobs,
            stage=shape.copy(),
            is_service=np.array(service if service is not None else [False] * m, np.bool_),
            ready_s=np.array(ready_s if ready_s is not None else [0.0] * m),
            deadline_s=np.full(m, np.inf),
            path_s=np.ones(m),
            work=np.array(work if work is not None else [1.0] * m),
        ),
        tenants=TenantArrays(
            allocated=allocated, weight=np.array(weight if weight is not None else [1.0] * tenants, np.float64)
        ),
        residents=ResidentArrays(*np.array(residents, np.int64).reshape(-1, 2).T),
    )


@pytest.fixture
def snapshot() -> MakeSnapshot:
    return _make


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
