"""kube-scheduler's default resource scores: NodeResourcesFit (LeastAllocated) plus NodeResourcesBalancedAllocation.

Source: kubernetes pkg/scheduler/framework/plugins/noderesources/{least_allocated,balanced_allocation}.go, equal
weights. Each plugin truncates to an integer 0..100 before they are added, so ties are common; kube-scheduler breaks
them at random.
Limits: CPU and memory only, as in the default profile; a pod without requests counts as requesting nothing here.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import CPU, MEMORY, Float, Int, NodeArrays, ShapeArrays
from cotenant.model.compiled import inlined

PLUGINS = ("NodeResourcesFit", "NodeResourcesBalancedAllocation")


@inlined
def kube_default_at(nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int) -> float:
    """LeastAllocated + BalancedAllocation, 0..200, integers."""
    cpu_capacity = nodes.capacity[n, CPU]
    memory_capacity = nodes.capacity[n, MEMORY]
    cpu = nodes.requested[n, CPU] + shapes.request[k, CPU]
    memory = nodes.requested[n, MEMORY] + shapes.request[k, MEMORY]
    least = 0
    if cpu <= cpu_capacity:
        least += (cpu_capacity - cpu) * 100 // cpu_capacity
    if memory <= memory_capacity:
        least += (memory_capacity - memory) * 100 // memory_capacity
    least //= 2
    gap = abs(min(1.0, cpu / cpu_capacity) - min(1.0, memory / memory_capacity)) / 2.0
    return float(least) + np.floor((1.0 - gap) * 100.0)


def kube_default(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Float:
    """Plain form of `kube_default_at` over rows."""
    return kube_default_parts(nodes, shapes, k, rows).sum(axis=1)


def kube_default_parts(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Float:
    """`float64[len(rows), len(PLUGINS)]`: the score of each plugin."""
    capacity = nodes.capacity[rows][:, [CPU, MEMORY]]
    taken = nodes.requested[rows][:, [CPU, MEMORY]] + shapes.request[k][[CPU, MEMORY]]
    least = np.where(taken <= capacity, (capacity - taken) * 100 // capacity, 0).sum(axis=1) // 2
    fraction = np.minimum(1.0, taken / capacity)
    balanced = np.floor((1.0 - np.abs(fraction[:, 0] - fraction[:, 1]) / 2.0) * 100.0)
    return np.stack([least.astype(np.float64), balanced], axis=1)
