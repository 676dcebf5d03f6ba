"""kube-scheduler's default resource scores: NodeResourcesFit (LeastAllocated) plus NodeResourcesBalancedAllocation, as
they were to v1.35, and as they are from v1.36.

Source: kubernetes pkg/scheduler/framework/plugins/noderesources/{least_allocated,balanced_allocation}.go, equal
weights. Each plugin truncates to an integer 0..100 before they are added, so ties are common; kube-scheduler breaks
them at random. To v1.35 the balance that the node would have counts; from v1.36 how much the pod changes it
(kubernetes PR 135573), and not at all for a pod that requests neither CPU nor memory.
Limits: CPU and memory only, as in the default profile; a pod without requests counts as requesting nothing here.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import CPU, MEMORY, Float, Int, NodeArrays, ShapeArrays
from cotenant.model.compiled import inlined

PLUGINS = ("NodeResourcesFit", "NodeResourcesBalancedAllocation")


@inlined
def kube_default_at(nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int) -> float:
    """LeastAllocated + BalancedAllocation to v1.35, 0..200, integers."""
    cpu = nodes.requested[n, CPU] + shapes.request[k, CPU]
    memory = nodes.requested[n, MEMORY] + shapes.request[k, MEMORY]
    return _least_at(nodes, n, cpu, memory) + _balance_at(nodes, n, cpu, memory)


@inlined
def kube_1_36_at(nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int) -> float:
    """LeastAllocated + BalancedAllocation from v1.36, 0..200, integers."""
    request_cpu, request_memory = shapes.request[k, CPU], shapes.request[k, MEMORY]
    cpu, memory = nodes.requested[n, CPU] + request_cpu, nodes.requested[n, MEMORY] + request_memory
    after = _balance_at(nodes, n, cpu, memory)
    change = after - _balance_at(nodes, n, nodes.requested[n, CPU], nodes.requested[n, MEMORY])
    balanced = 50.0 + np.trunc((50.0 + change) / 2.0) if request_cpu or request_memory else 0.0
    return _least_at(nodes, n, cpu, memory) + balanced


@inlined
def _least_at(nodes: NodeArrays, n: int, cpu: int, memory: int) -> float:
    """With so much requested."""
    cpu_capacity, memory_capacity = nodes.capacity[n, CPU], nodes.capacity[n, MEMORY]
    least = 0
    if cpu <= cpu_capacity:
        least += (cpu_capacity - cpu) * 100 // cpu_capacity
    if memory <= memory_capacity:
        least += (memory_capacity - memory) * 100 // memory_capacity
    return float(least // 2)


@inlined
def _balance_at(nodes: NodeArrays, n: int, cpu: int, memory: int) -> float:
    """50..100: 100 less half the difference of the two requested shares."""
    gap = abs(min(1.0, cpu / nodes.capacity[n, CPU]) - min(1.0, memory / nodes.capacity[n, MEMORY])) / 2.0
    return float(np.floor((1.0 - gap) * 100.0))


def kube_default(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Float:
    """Plain form of `kube_default_at` over rows."""
    return kube_default_parts(nodes, shapes, k, rows).sum(axis=1)


def kube_1_36(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Float:
    """Plain form of `kube_1_36_at` over rows."""
    return kube_1_36_parts(nodes, shapes, k, rows).sum(axis=1)


def kube_default_parts(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Float:
    """`float64[len(rows), len(PLUGINS)]`: the score of each plugin to v1.35."""
    capacity, taken = _amounts(nodes, rows, shapes.request[k])
    return np.stack([_least(taken, capacity), _balance(taken, capacity)], axis=1)


def kube_1_36_parts(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Float:
    """`float64[len(rows), len(PLUGINS)]`: the score of each plugin from v1.36."""
    request = shapes.request[k]
    capacity, taken = _amounts(nodes, rows, request)
    change = 50.0 + _balance(taken, capacity) - _balance(taken - request[[CPU, MEMORY]], capacity)
    balanced = 50.0 + np.trunc(change / 2.0) if request[CPU] or request[MEMORY] else np.zeros(len(rows))
    return np.stack([_least(taken, capacity), balanced], axis=1)


def _amounts(nodes: NodeArrays, rows: Int, request: Int) -> tuple[Int, Int]:
    """`int64[len(rows), 2]` of CPU and memory: capacity, and what would be requested."""
    return nodes.capacity[rows][:, [CPU, MEMORY]], nodes.requested[rows][:, [CPU, MEMORY]] + request[[CPU, MEMORY]]


def _least(taken: Int, capacity: Int) -> Float:
    least = np.where(taken <= capacity, (capacity - taken) * 100 // capacity, 0).sum(axis=1) // 2
    return least.astype(np.float64)


def _balance(taken: Int, capacity: Int) -> Float:
    fraction = np.minimum(1.0, taken / capacity)
    balance: Float = np.floor((1.0 - np.abs(fraction[:, 0] - fraction[:, 1]) / 2.0) * 100.0)
    return balance
