"""Workload A: the workload of every placement benchmark.

Three machine kinds, seven resources (CPU, memory, pods, batch CPU, batch memory, GPU core, GPU memory), 20-60 % in use
at the start, 10 % of the nodes tainted, 32 label bits; shapes 60 % CPU and memory, 33 % batch, 7 % GPU; 8 tenants;
popularity of shapes is Zipf(0.9). Demand is synthetic. Everything that a placement changes (requests, estimated use) is
an integer sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.model.arrays import CPU, MEMORY, PODS, Float, Int, NodeArrays, Param, ReportColumn, ShapeArrays, Sum

BATCH_CPU, BATCH_MEMORY, GPU_CORE, GPU_MEMORY = 3, 4, 5, 6
RESOURCES = 7
TENANTS = 8
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Workload:
    """A cluster, its shapes, and how often each shape comes."""

    nodes: NodeArrays
    shapes: ShapeArrays
    popularity: Float

    def stream(self, pods: int, seed: int = 3) -> Int:
        """Shapes of `pods` arrivals."""
        return np.random.default_rng(seed).choice(len(self.popularity), pods, p=self.popularity).astype(np.int64)


def cluster(nodes: int, seed: int = 1) -> NodeArrays:
    """The machines."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, nodes, p=[0.70, 0.25, 0.05])
    capacity = np.zeros((nodes, RESOURCES), dtype=np.int64)
    capacity[:, CPU] = np.array([32_000, 64_000, 96_000])[kind]
    capacity[:, MEMORY] = np.array([128, 256, 768])[kind] * 1024 * MIB
    capacity[:, PODS] = 250
    capacity[:, BATCH_CPU] = capacity[:, CPU] * 4 // 10
    capacity[:, BATCH_MEMORY] = capacity[:, MEMORY] // MIB * 4 // 10 * MIB
    capacity[:, GPU_CORE] = np.where(kind == 2, 800, 0)
    capacity[:, GPU_MEMORY] = np.where(kind == 2, 8 * 80 * 1024 * MIB, 0)
    requested = (capacity * rng.uniform(0.2, 0.6, capacity.shape)).astype(np.int64)
    requested[:, [MEMORY, BATCH_MEMORY, GPU_MEMORY]] //= MIB
    requested[:, [MEMORY, BATCH_MEMORY, GPU_MEMORY]] *= MIB
    requested[:, PODS] = rng.integers(5, 60, nodes)
    sums = np.zeros((nodes, len(Sum)), dtype=np.int64)
    sums[:, Sum.USE_CPU] = capacity[:, CPU] * rng.uniform(0.1, 0.6, nodes)
    report = np.full((nodes, len(ReportColumn)), np.nan)
    report[:, ReportColumn.LATENCY_P99_MS] = rng.gamma(2.0, 36.0, nodes)
    report[:, ReportColumn.VIOLATION] = rng.beta(1.0, 20.0, nodes)
    taints = np.where(rng.random(nodes) < 0.1, 1 << rng.integers(0, 8, nodes), 0).astype(np.uint64)
    labels = rng.integers(0, 2**32, (nodes, 1)).astype(np.uint64)
    return NodeArrays(
        capacity,
        requested,
        sums,
        report,
        taints,
        labels,
        np.ones(nodes, dtype=np.bool_),
        np.zeros((nodes, 1), np.int64),
    )


def shapes(count: int, seed: int = 2) -> tuple[ShapeArrays, Float]:
    """The shapes and their popularity."""
    rng = np.random.default_rng(seed)
    request = np.zeros((count, RESOURCES), dtype=np.int64)
    request[:, PODS] = 1
    kind = rng.choice(3, count, p=[0.60, 0.33, 0.07])
    cpu = np.round(rng.choice([250, 500, 1000, 2000, 4000], count) * rng.uniform(0.8, 1.2, count)).astype(np.int64)
    memory = np.round(cpu / 1000 * rng.choice([1, 2, 4, 8], count) * 1024).astype(np.int64) * MIB
    batch, gpu = kind == 1, kind == 2
    request[:, CPU], request[:, MEMORY] = np.where(batch, 0, cpu), np.where(batch, 0, memory)
    request[:, BATCH_CPU], request[:, BATCH_MEMORY] = np.where(batch, cpu, 0), np.where(batch, memory, 0)
    request[:, GPU_CORE] = np.where(gpu, rng.choice([25, 50, 100], count), 0)
    request[:, GPU_MEMORY] = np.where(gpu, rng.choice([10, 20, 40], count) * 1024 * MIB, 0)
    use = cpu * 3 // 10
    sums = np.zeros((count, len(Sum)), dtype=np.int64)
    sums[:, Sum.USE_CPU], sums[:, Sum.USE_MEMORY] = use, memory // 2
    params = np.zeros((count, len(Param)))
    params[:, Param.USE_CPU], params[:, Param.USE_MEMORY] = use / 1000, memory / 2
    params[:, Param.PRIORITY_BASE] = rng.integers(0, 36, count)
    params[:, Param.LOAD_LIMIT] = 0.85
    tolerated = np.where(rng.random(count) < 0.3, 255, 0).astype(np.uint64)
    selector = np.where(rng.random(count) < 0.2, 1 << rng.integers(0, 32, count), 0).astype(np.uint64).reshape(-1, 1)
    tenant = rng.integers(0, TENANTS, count)
    none = np.full(count, -1, dtype=np.int64)
    arrays = ShapeArrays(request, sums, params, tolerated, selector, tenant, none, np.full(count, 1, dtype=np.int64))
    popularity = 1.0 / np.arange(1, count + 1) ** 0.9
    return arrays, popularity / popularity.sum()


def workload(nodes: int, shape_count: int = 64) -> Workload:
    """Workload A on this many nodes with this many shapes; always the same."""
    shape_arrays, popularity = shapes(shape_count)
    return Workload(cluster(nodes), shape_arrays, popularity)
