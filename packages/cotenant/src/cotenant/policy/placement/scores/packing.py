"""Scores that look only at requests: best-fit, least-allocated, balance, dot product, fewest pods.

All are functions of the fractions of CPU and memory that are requested before (f) and after (g) the pod is placed;
highest wins. Scales differ on purpose: a profile that uses one of these uses nothing else, so only the order matters.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import CPU, MEMORY, PODS, Float, Int, NodeArrays, ShapeArrays
from cotenant.model.compiled import inlined

_BOTH = [CPU, MEMORY]


@inlined
def best_fit_at(nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int) -> float:
    """Least sum of what is left over, CPU and memory each as a fraction of the node."""
    cpu = (nodes.capacity[n, CPU] - nodes.requested[n, CPU] - shapes.request[k, CPU]) / nodes.capacity[n, CPU]
    memory = (nodes.capacity[n, MEMORY] - nodes.requested[n, MEMORY] - shapes.request[k, MEMORY]) / nodes.capacity[
        n, MEMORY
    ]
    return -(cpu + memory)


def best_fit(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Float:
    """Plain form of `best_fit_at` over rows."""
    capacity = nodes.capacity[rows][:, _BOTH]
    left = (capacity - nodes.requested[rows][:, _BOTH] - shapes.request[k][_BOTH]) / capacity
    return -(left[:, 0] + left[:, 1])


@inlined
def least_allocated_at(nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int) -> float:
    """Most left over: the negative of best-fit."""
    return -best_fit_at(nodes, n, shapes, k)


def least_allocated(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Float:
    """Plain form of `least_allocated_at` over rows."""
    return -best_fit(nodes, shapes, k, rows)


@inlined
def fewest_pods_at(nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int) -> float:
    """Load spreading by count."""
    return -float(nodes.requested[n, PODS])


def fewest_pods(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Float:
    """Plain form of `fewest_pods_at` over rows."""
    return -nodes.requested[rows, PODS].astype(np.float64)


@inlined
def dot_product_at(nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int) -> float:
    """Alignment of demand and free capacity (Tetris' a, looped over nodes for one pod: close to worst-fit)."""
    cpu_capacity = float(nodes.capacity[n, CPU])
    memory_capacity = float(nodes.capacity[n, MEMORY])
    cpu = (cpu_capacity - nodes.requested[n, CPU]) / cpu_capacity * (shapes.request[k, CPU] / cpu_capacity)
    memory = (memory_capacity - nodes.requested[n, MEMORY]) / memory_capacity
    return cpu + memory * (shapes.request[k, MEMORY] / memory_capacity)


def dot_product(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Float:
    """Plain form of `dot_product_at` over rows."""
    capacity = nodes.capacity[rows][:, _BOTH].astype(np.float64)
    free = (capacity - nodes.requested[rows][:, _BOTH]) / capacity
    part = free * (shapes.request[k][_BOTH] / capacity)
    return part[:, 0] + part[:, 1]


@inlined
def balance_at(nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int) -> float:
    """Least gap between the requested fractions of CPU and memory; among equals the fuller node (by a hundredth)."""
    cpu = (nodes.requested[n, CPU] + shapes.request[k, CPU]) / nodes.capacity[n, CPU]
    memory = (nodes.requested[n, MEMORY] + shapes.request[k, MEMORY]) / nodes.capacity[n, MEMORY]
    return -abs(cpu - memory) - 0.01 * ((1.0 - cpu) + (1.0 - memory))


def balance(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Float:
    """Plain form of `balance_at` over rows."""
    taken = (nodes.requested[rows][:, _BOTH] + shapes.request[k][_BOTH]) / nodes.capacity[rows][:, _BOTH]
    cpu, memory = taken[:, 0], taken[:, 1]
    return -np.abs(cpu - memory) - 0.01 * ((1.0 - cpu) + (1.0 - memory))
