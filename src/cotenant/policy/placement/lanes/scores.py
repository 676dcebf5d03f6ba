"""Row-local scores in lanes: one node for sixteen shapes at once, or one shape for sixteen nodes.

Problem: when a node changes, its score changes for every shape; K separate evaluations cost K times. Choice: kernels that compute sixteen scores
with each instruction, chosen by an integer code; the formulas are written once and both directions use them. Equal to the plain
forms (`weighted.score`, `scores.founding`, `scores.kube`) to the last bit in float64; -1 where the node does not pass.
Limits: float32 differs from the plain forms by rounding, though never in what fits; only the weighted kernel takes it.
"""

from __future__ import annotations

from typing import Any

from cotenant.model.arrays import PODS, NodeArrays, ShapeArrays
from cotenant.model.compiled import inlined
from cotenant.policy.placement.lanes.layout import (
    CLOSED,
    CPU_CAPACITY,
    FIXED,
    KUBE_DEFAULT,
    LANE_LIMIT,
    LANE_TERM,
    LANE_USE,
    LATENCY,
    SCALARS,
    TERM,
    USE,
    WEIGHTED,
    LaneTable,
    NodeRows,
)
from cotenant.policy.placement.lanes.packing import allows
from cotenant.policy.placement.lanes.vector import (
    WIDTH,
    absolute,
    at_most,
    choose,
    fill,
    floor,
    gather,
    larger,
    load,
    smaller,
    square_root,
    strided,
    word_mask,
)


@inlined
def load_matters(rows: NodeRows, table: LaneTable, n: int, resources: int) -> bool:
    """Whether some lane may exceed its load limit on this node."""
    at = 3 * resources
    return not (rows.packed[n, at + USE] + table.bounds[0]) / rows.packed[n, at + CPU_CAPACITY] <= table.bounds[1]


@inlined
def deviation_of(total: Any, squares: Any, share: Any, zero: Any) -> tuple[Any, Any]:
    """Mean and standard deviation from a sum, a sum of squares and 1 / count."""
    mean = total * share
    return mean, square_root(larger(squares * share - mean * mean, zero))


@inlined
def kube_value(capacity: Any, used: Any, request: Any, one: Any, zero: Any, hundred: Any, half: Any) -> Any:
    """LeastAllocated + BalancedAllocation from pairs (CPU, memory), each truncated to an integer as kube-scheduler does."""
    cpu, memory = request[0] + used[0], request[1] + used[1]
    least = floor(larger((capacity[0] - cpu) * hundred / capacity[0], zero))
    least = least + floor(larger((capacity[1] - memory) * hundred / capacity[1], zero))
    gap = absolute(smaller(cpu / capacity[0], one) - smaller(memory / capacity[1], one)) * half
    return floor(least * half) + floor((one - gap) * hundred)


@inlined
def founding_value(base: Any, free: Any, fairness: Any, latency: Any, dominant: Any, violation: Any) -> Any:
    """The founding score's sum, in the order of the document."""
    return base + free + fairness + latency - dominant - violation


@inlined
def judge(kernel: int, rows: NodeRows, table: LaneTable, n: int, block: int, loaded: bool) -> Any:
    """Sixteen scores of node n, -1 where it does not pass. `loaded`: load limits must be checked."""
    packed, constants = rows.packed, table.constants
    resources = table.resource.shape[1]
    scalars = 3 * resources
    here = block * constants.shape[1] * WIDTH
    term = here + LANE_TERM * WIDTH
    passes = word_mask(rows.allowed[n, block])
    zero, one, hundred = fill(packed, 0.0), fill(packed, 1.0), fill(packed, 100.0)
    if kernel == WEIGHTED:
        total, squares = zero, zero
        for j in range(table.listed[block]):
            r = table.resource[block, j]
            request = load(constants, here + (FIXED + 2 * j) * WIDTH)
            passes = passes & at_most(request, fill(packed, packed[n, r]))
            if r != PODS:
                need = load(constants, here + (FIXED + 2 * j + 1) * WIDTH)
                after = fill(packed, packed[n, resources + r]) * need
                after = after + request * fill(packed, packed[n, 2 * resources + r])
                total = total + after
                squares = squares + after * after
        mean, deviation = deviation_of(total, squares, load(constants, term), zero)
        value = load(constants, term + WIDTH) * (one - mean) + load(constants, term + 2 * WIDTH) * (one - deviation)
        value = value + load(constants, term + 3 * WIDTH) * fill(packed, packed[n, scalars + TERM])
        value = value + load(constants, term + 4 * WIDTH) * fill(packed, packed[n, scalars + TERM + 1])
        fairness = gather(packed, n * packed.shape[1] + scalars + SCALARS, table.tenant, block * WIDTH)
        value = value + load(constants, term + 5 * WIDTH) * fairness
    else:
        for j in range(table.listed[block]):
            request = load(constants, here + (FIXED + 2 * j) * WIDTH)
            passes = passes & at_most(request, fill(packed, packed[n, table.resource[block, j]]))
        first = fill(packed, packed[n, scalars + TERM])
        second = fill(packed, packed[n, scalars + TERM + 1])
        third = fill(packed, packed[n, scalars + TERM + 2])
        fourth = fill(packed, packed[n, scalars + TERM + 3])
        if kernel == KUBE_DEFAULT:
            requests = (load(constants, term), load(constants, term + WIDTH))
            half = fill(packed, 0.5)
            value = kube_value((first, second), (third, fourth), requests, one, zero, hundred, half)
        else:
            latency = fill(packed, packed[n, scalars + LATENCY])
            value = founding_value(load(constants, term), first, second, latency, third, fourth)
            value = floor(smaller(larger(value, zero), hundred))
    if loaded:
        use = load(constants, here + LANE_USE * WIDTH) + fill(packed, packed[n, scalars + USE])
        limit = load(constants, here + LANE_LIMIT * WIDTH)
        passes = passes & at_most(use / fill(packed, packed[n, scalars + CPU_CAPACITY]), limit)
    return choose(passes, larger(value, zero), fill(packed, -1.0))


@inlined
def judge_nodes(
    kernel: int, rows: NodeRows, table: LaneTable, nodes: NodeArrays, shapes: ShapeArrays, k: int, n: int
) -> Any:
    """Scores of the sixteen nodes from n on for shape k, which needs no lane; -1 where a node does not pass or does not exist."""
    packed, shape = rows.packed, table.shape_rows
    resources = table.resource.shape[1]
    width = packed.shape[1]
    origin = n * width
    scalars = origin + 3 * resources
    word = 0
    for j in range(min(WIDTH, nodes.capacity.shape[0] - n)):
        if allows(nodes, n + j, shapes, k):
            word |= 1 << j
    zero, one, hundred = fill(packed, 0.0), fill(packed, 1.0), fill(packed, 100.0)
    passes = word_mask(word) & at_most(strided(packed, scalars + CLOSED, width), zero)
    total, squares = zero, zero
    for r in range(resources):
        if shape[k, FIXED + resources + r] > 0.0:
            request = fill(packed, shape[k, FIXED + r])
            passes = passes & at_most(request, strided(packed, origin + r, width))
            if r != PODS and kernel == WEIGHTED:
                after = strided(packed, origin + resources + r, width)
                after = after + request * strided(packed, origin + 2 * resources + r, width)
                total = total + after
                squares = squares + after * after
    first, second = strided(packed, scalars + TERM, width), strided(packed, scalars + TERM + 1, width)
    if kernel == WEIGHTED:
        mean, deviation = deviation_of(total, squares, fill(packed, shape[k, LANE_TERM]), zero)
        value = fill(packed, shape[k, LANE_TERM + 1]) * (one - mean)
        value = value + fill(packed, shape[k, LANE_TERM + 2]) * (one - deviation)
        value = value + fill(packed, shape[k, LANE_TERM + 3]) * first
        value = value + fill(packed, shape[k, LANE_TERM + 4]) * second
        value = value + fill(packed, shape[k, LANE_TERM + 5]) * strided(
            packed, scalars + SCALARS + shapes.tenant[k], width
        )
    else:
        third, fourth = strided(packed, scalars + TERM + 2, width), strided(packed, scalars + TERM + 3, width)
        if kernel == KUBE_DEFAULT:
            requests = (fill(packed, shape[k, LANE_TERM]), fill(packed, shape[k, LANE_TERM + 1]))
            half = fill(packed, 0.5)
            value = kube_value((first, second), (third, fourth), requests, one, zero, hundred, half)
        else:
            latency = strided(packed, scalars + LATENCY, width)
            value = founding_value(fill(packed, shape[k, LANE_TERM]), first, second, latency, third, fourth)
            value = floor(smaller(larger(value, zero), hundred))
    use = fill(packed, shape[k, LANE_USE]) + strided(packed, scalars + USE, width)
    load_fraction = use / strided(packed, scalars + CPU_CAPACITY, width)
    passes = passes & at_most(load_fraction, fill(packed, shape[k, LANE_LIMIT]))
    return choose(passes, larger(value, zero), fill(packed, -1.0))
