"""Leftover cost of a placement: capacity that the workload to come cannot use, and capacity that its rare pods will
need.

Near saturation capacity is lost in two ways. A node keeps CPU without memory to go with it (best-fit fills a node
regardless of the remaining shape), and the last rows that could take a large container, or one with many anti-affinity
rules, go to small ones that would have fitted anywhere (any spreading score). Two terms, both prices of what the
incoming pod takes.

Waste. W(c, m) = CPU that a node with c cores and m memory free is expected never to use, if shapes drawn from the
workload's own mix are offered to it one after another and it may decline each. With a chance of 1/T that no further
offer comes (T = patience) it solves

    W(s) = c / T + (1 - 1/T) sum over shapes x of p_x min(W(s), W(s - x)),      W(s - x) = inf where x does not fit

an optimal stopping problem (Bellman 1957) on a grid, solved once from small to large. The term is W(after) - W(before).

Scarcity. For each watched shape w (large, or with many rules), slots_w = rows that could hold one more of it. Closing a
row that is open to w costs p_w / slots_w^2: negligible while there are many, dominant when there are few.

Limits: the mix must be known (from past pods); disk and further resources count in scarcity, not in waste.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import CPU, MEMORY, Float, Int, Mask, NodeArrays, ShapeArrays
from cotenant.model.compiled import njit
from cotenant.policy.placement.topology.group_antiaffinity import GroupRules

PRICE_UNIT = 1e15  # a sum of 1,000 prices of 1.0 stays below 2^63


class WasteTable(NamedTuple):
    """W on a grid: free capacity is rounded down to a step, demand up, so the grid never assumes that something
    fits when it does not.
    """

    cores: Float  # [cells of CPU, cells of memory] expected never to be used
    cpu_step: int  # milli-CPU
    memory_step: int  # bytes


class WatchedShapes(NamedTuple):
    """The watched shapes, W of them, and the rows open to each. Each watched shape has its own group.

    Prices are integers, so their sum over the watched shapes does not depend on the order of summation.
    """

    shape: Int  # [W] row of ShapeArrays
    request: Int  # [R, W] of those shapes
    place: Int  # [G] position of a group among the watched, -1 = not watched
    weight: Float  # [W] share of the arrivals
    open: Mask  # [N, W] whether the row could hold one more
    slots: Int  # [W] how many rows are open
    price: Int  # [W] weight / slots^2 in units of 1 / PRICE_UNIT: the cost of closing one more row
    short: Mask  # [W] scratch


@njit
def _solve(
    cpu: Int, memory: Int, weight: Float, cells_cpu: int, cells_memory: int, step: float, patience: float
) -> Float:
    table = np.zeros((cells_cpu, cells_memory))
    going_on = 1.0 - 1.0 / patience
    after = np.empty(cpu.shape[0])
    for c in range(cells_cpu):
        for m in range(cells_memory):
            for k in range(cpu.shape[0]):
                fits = cpu[k] <= c and memory[k] <= m and cpu[k] + memory[k] > 0
                after[k] = table[c - cpu[k], m - memory[k]] if fits else np.inf
            value = c * step
            for _ in range(100):  # from above, so it falls to the fixed point
                taken = 0.0
                declined = 0.0
                for k in range(cpu.shape[0]):
                    if after[k] < value:
                        taken += weight[k] * after[k]
                    else:
                        declined += weight[k]
                better = (c * step / patience + going_on * taken) / (1.0 - going_on * declined)
                if value - better < 1e-9:
                    break
                value = better
            table[c, m] = value
    return table


def waste_table(
    capacity: Int, request: Int, weight: Float, patience: float, cpu_step: int, memory_step: int
) -> WasteTable:
    """Solve W for nodes up to the largest `capacity[N, R]`, for demands `request[K, R]` that arrive with shares
    `weight[K]`.
    """
    steps = np.array([cpu_step, memory_step], dtype=np.int64)
    demand, inverse = np.unique(-(-request[:, [CPU, MEMORY]] // steps), axis=0, return_inverse=True)
    share = np.bincount(inverse.ravel(), weights=weight)
    cells = capacity[:, [CPU, MEMORY]].max(axis=0) // steps + 1
    cores = _solve(
        demand[:, 0], demand[:, 1], share / share.sum(), int(cells[0]), int(cells[1]), cpu_step / 1000.0, patience
    )
    return WasteTable(cores, cpu_step, memory_step)


@njit
def waste_at(nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int, table: WasteTable) -> float:
    """Cores by which node n's expected waste changes when shape k is added; negative where the pod fits the gap."""
    cpu = nodes.capacity[n, CPU] - nodes.requested[n, CPU]
    memory = nodes.capacity[n, MEMORY] - nodes.requested[n, MEMORY]
    before = table.cores[cpu // table.cpu_step, memory // table.memory_step]
    cpu -= shapes.request[k, CPU]
    memory -= shapes.request[k, MEMORY]
    return table.cores[cpu // table.cpu_step, memory // table.memory_step] - before


def watch(nodes: NodeArrays, shapes: ShapeArrays, shape: Int, weight: Float) -> WatchedShapes:
    """Watch the shapes `shape[W]`, arriving with shares `weight[W]`, on nodes that hold none of the groups with
    rules yet.
    """
    place = np.full(nodes.group_count.shape[1], -1, np.int64)
    place[shapes.group[shape]] = np.arange(len(shape))
    free = nodes.capacity - nodes.requested
    open_ = (free[:, None, :] >= shapes.request[shape][None, :, :]).all(axis=2) & nodes.ready[:, None]
    slots = open_.sum(axis=0).astype(np.int64)
    price = np.array([_price(w, s) for w, s in zip(weight, slots)], np.int64)
    request = np.ascontiguousarray(shapes.request[shape].T)
    return WatchedShapes(shape, request, place, weight, open_, slots, price, np.zeros(len(shape), np.bool_))


@njit
def _price(weight: float, slots: int) -> int:
    return int(PRICE_UNIT * weight / (max(1, slots) * max(1, slots)))


@njit
def _mark_short(nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int, watched: WatchedShapes) -> None:
    """Set `short[w]` where node n, once shape k is added, lacks some resource for watched shape w."""
    for w in range(watched.short.shape[0]):
        watched.short[w] = False
    for r in range(nodes.capacity.shape[1]):
        free = nodes.capacity[n, r] - nodes.requested[n, r] - shapes.request[k, r]
        for w in range(watched.short.shape[0]):
            watched.short[w] |= watched.request[r, w] > free


@njit
def _mark_forbidden(
    nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int, rules: GroupRules, watched: WatchedShapes
) -> None:
    """Set `short[w]` where node n, once shape k is added, may hold no more of watched shape w by the rules between
    the two.
    """
    group = shapes.group[k]
    for e in range(rules.on_start[group], rules.on_start[group + 1]):
        other = rules.on_group[e]
        w = watched.place[other]
        if w >= 0 and nodes.group_count[n, other] >= rules.on_most[e]:
            watched.short[w] = True
    held = nodes.group_count[n, group] + 1
    for e in range(rules.by_start[group], rules.by_start[group + 1]):
        w = watched.place[rules.by_group[e]]
        if w >= 0 and held > rules.by_most[e]:
            watched.short[w] = True
    w = watched.place[group]
    if w >= 0 and held >= rules.limit[group]:
        watched.short[w] = True


@njit
def scarcity_at(
    nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int, rules: GroupRules, watched: WatchedShapes
) -> float:
    """Sum of weight / slots^2 over the watched shapes that node n, open to them, would no longer be once shape k is
    added.
    """
    _mark_short(nodes, n, shapes, k, watched)
    _mark_forbidden(nodes, n, shapes, k, rules, watched)
    total = 0
    for w in range(watched.short.shape[0]):
        total += watched.price[w] if watched.short[w] & watched.open[n, w] else 0
    return total / PRICE_UNIT


@njit
def close_slots(
    nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int, rules: GroupRules, watched: WatchedShapes
) -> None:
    """Record that shape k is about to be added to node n (call before the commit)."""
    _mark_short(nodes, n, shapes, k, watched)
    _mark_forbidden(nodes, n, shapes, k, rules, watched)
    for w in range(watched.short.shape[0]):
        if watched.short[w] and watched.open[n, w]:
            watched.open[n, w] = False
            watched.slots[w] -= 1
            watched.price[w] = _price(watched.weight[w], watched.slots[w])
