"""Interference-aware scores: the slowdown that an incoming pod causes and suffers.

Both scores assume a simple law (Bubble-Up, MICRO'11: damage = sensitivity x pressure; hyper-threads slow each other
once half the threads are busy; node QoS slows batch above its budget):

    slowdown of i = (1 + a_i (B - o_i)) smt(u)           B = sum of b u / half a node,  u = predicted use / capacity

`paragon_like` (Delimitrou and Kozyrakis, ASPLOS'13, greedily): least total slowdown of all pods, in cores.
`interference` (ours): the same relative to the slowdown that each pod tolerates (a service: its p99 objective; batch:
its slack), plus the cost of balance, packing and batch still to come. Every term is a sum over residents, so it is
row-local.
Limits: a linear law; the knobs that describe a node are assumptions, not the world's parameters.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import CPU, MEMORY, MICRO, Float, Int, NodeArrays, Param, ShapeArrays, Sum
from cotenant.model.compiled import inlined
from cotenant.policy.placement.contribution import SMALLEST_ALLOWANCE
from cotenant.policy.placement.knobs import column

_USE, _SENSITIVITY, _PRESSURE = int(Param.USE_CPU), int(Param.SENSITIVITY), int(Param.PRESSURE)
_ALLOWANCE, _IS_SERVICE = int(Param.ALLOWANCE), int(Param.IS_SERVICE)
_LENT_CPU = int(Param.LENT_CPU)
_S_USE, _S_PRESSURE, _S_CPU = int(Sum.USE_CPU), int(Sum.PRESSURE), int(Sum.SERVICE_CPU)
_S_A, _S_AO = int(Sum.SERVICE_A), int(Sum.SERVICE_AO)
_S_W, _S_WA, _S_WAO = int(Sum.SERVICE_W), int(Sum.SERVICE_WA), int(Sum.SERVICE_WAO)
_B_CPU, _B_A, _B_W, _B_WA = int(Sum.BATCH_CPU), int(Sum.BATCH_A), int(Sum.BATCH_W), int(Sum.BATCH_WA)

_K_SERVICE, _K_OWN, _K_BATCH = column("service_weight"), column("own_weight"), column("batch_weight")
_K_LINEAR, _K_STRAND, _K_PACKING = column("linear_weight"), column("strand_weight"), column("packing_weight")
_K_SPREAD, _K_AP, _K_AU = column("spread_weight"), column("anticipate_pressure"), column("anticipate_use")
_K_SMT, _K_BUDGET, _K_PF = column("smt_loss"), column("batch_budget"), column("pressure_factor")

PARTS = ("services", "own", "batch", "strand", "packing", "spread")


@inlined
def smt(use: float, loss: float) -> float:
    """Slowdown by busy sibling threads at utilisation `use`: 1 up to one half, 1 / (1 - loss) when all threads are
    busy.
    """
    use = min(use, 1.0)
    busy = (2.0 * use - 1.0) / use if use > 0.5 else 0.0
    return 1.0 / (1.0 - loss * busy)


@inlined
def interference_at(nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int, knobs: Float) -> float:
    """The negative cost, in cores, of placing a pod of shape k on node n."""
    capacity = nodes.capacity[n, CPU] / 1000.0
    half = capacity / 2.0
    budget = knobs[_K_BUDGET]
    service = shapes.params[k, _IS_SERVICE] > 0.0
    use = shapes.params[k, _USE]
    cores = shapes.request[k, CPU] / 1000.0 + shapes.params[k, _LENT_CPU]
    sensitivity = shapes.params[k, _SENSITIVITY]
    allowance = max(SMALLEST_ALLOWANCE, shapes.params[k, _ALLOWANCE])

    factor = 1.0 if service else knobs[_K_PF]
    pressure0 = nodes.sums[n, _S_PRESSURE] / MICRO / half
    pressure1 = pressure0 + factor * shapes.params[k, _PRESSURE] * use / half
    use0 = nodes.sums[n, _S_USE] / 1000.0 / capacity
    use1 = use0 + use / capacity
    room = max(0.0, knobs[_K_AU] - use1) if service else 0.0  # capacity that batch is expected to fill later
    pressure0 += knobs[_K_AP] * room
    pressure1 += knobs[_K_AP] * room
    use0 += room
    use1 += room
    smt0 = smt(min(use0, budget + 0.05), knobs[_K_SMT])
    smt1 = smt(min(use1, budget + 0.05), knobs[_K_SMT])
    squeeze0 = smt0 * max(1.0, use0 / budget)
    squeeze1 = smt1 * max(1.0, use1 / budget)

    weight, weight_a = nodes.sums[n, _S_W] / MICRO, nodes.sums[n, _S_WA] / MICRO
    weight_ao = nodes.sums[n, _S_WAO] / MICRO
    services = smt1 * (weight + pressure1 * weight_a - weight_ao) - smt0 * (weight + pressure0 * weight_a - weight_ao)

    batch_w, batch_wa = nodes.sums[n, _B_W] / MICRO, nodes.sums[n, _B_WA] / MICRO
    batch = squeeze1 * (batch_w + pressure1 * batch_wa) - squeeze0 * (batch_w + pressure0 * batch_wa)

    slowdown = (1.0 + sensitivity * pressure0) * (smt1 if service else squeeze1)
    own = cores * (slowdown - 1.0) / allowance
    linear = cores * (slowdown - 1.0) + (pressure1 - pressure0) * nodes.sums[n, _B_A] / MICRO
    linear += (squeeze1 - squeeze0) * nodes.sums[n, _B_CPU] / 1000.0

    cpu0 = nodes.requested[n, CPU] / nodes.capacity[n, CPU]
    memory0 = nodes.requested[n, MEMORY] / nodes.capacity[n, MEMORY]
    cpu1 = cpu0 + shapes.request[k, CPU] / nodes.capacity[n, CPU]
    memory1 = memory0 + shapes.request[k, MEMORY] / nodes.capacity[n, MEMORY]
    strand = (abs(cpu1 - memory1) - abs(cpu0 - memory0)) * capacity
    packing = ((1.0 - cpu0) + (1.0 - memory0)) * cores
    resident = nodes.sums[n, _S_CPU] / 1000.0
    spread = ((resident + cores) * (resident + cores) - resident * resident) / capacity

    cost = knobs[_K_SERVICE] * services + knobs[_K_OWN] * own + knobs[_K_STRAND] * strand
    of_service = knobs[_K_SPREAD] * spread
    of_batch = knobs[_K_LINEAR] * linear + knobs[_K_BATCH] * batch + knobs[_K_PACKING] * packing
    return -(cost + (of_service if service else of_batch))


def interference_parts(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int, knobs: Float) -> Float:
    """Plain form of `interference_at`: `float64[len(rows), len(PARTS)]`, each part signed so that the row's sum is
    the score.
    """
    sums = nodes.sums[rows].astype(np.float64)
    capacity = nodes.capacity[rows, CPU] / 1000.0
    half = capacity / 2.0
    budget = knobs[_K_BUDGET]
    params = shapes.params[k]
    service = bool(params[_IS_SERVICE] > 0)
    use, sensitivity = params[_USE], params[_SENSITIVITY]
    cores = shapes.request[k, CPU] / 1000.0 + shapes.params[k, _LENT_CPU]
    allowance = max(SMALLEST_ALLOWANCE, params[_ALLOWANCE])

    factor = 1.0 if service else knobs[_K_PF]
    pressure0 = sums[:, _S_PRESSURE] / MICRO / half
    pressure1 = pressure0 + factor * params[_PRESSURE] * use / half
    use0 = sums[:, _S_USE] / 1000.0 / capacity
    use1 = use0 + use / capacity
    if service:
        room = np.maximum(0.0, knobs[_K_AU] - use1)
        pressure0, pressure1 = pressure0 + knobs[_K_AP] * room, pressure1 + knobs[_K_AP] * room
        use0, use1 = use0 + room, use1 + room

    def sibling(at: Float) -> Float:
        at = np.minimum(np.minimum(at, budget + 0.05), 1.0)
        busy = np.where(at <= 0.5, 0.0, (2.0 * at - 1.0) / np.maximum(at, 0.5))
        return np.where(at <= 0.5, 1.0, 1.0 / (1.0 - knobs[_K_SMT] * busy))

    smt0, smt1 = sibling(use0), sibling(use1)
    squeeze0 = smt0 * np.maximum(1.0, use0 / budget)
    squeeze1 = smt1 * np.maximum(1.0, use1 / budget)
    w, wa, wao = (sums[:, column] / MICRO for column in (_S_W, _S_WA, _S_WAO))
    services = smt1 * (w + pressure1 * wa - wao) - smt0 * (w + pressure0 * wa - wao)
    bw, bwa = sums[:, _B_W] / MICRO, sums[:, _B_WA] / MICRO
    batch = squeeze1 * (bw + pressure1 * bwa) - squeeze0 * (bw + pressure0 * bwa)
    slowdown = (1.0 + sensitivity * pressure0) * (smt1 if service else squeeze1)
    own = knobs[_K_OWN] * (cores * (slowdown - 1.0) / allowance)
    if not service:
        linear = cores * (slowdown - 1.0) + (pressure1 - pressure0) * sums[:, _B_A] / MICRO
        own = own + knobs[_K_LINEAR] * (linear + (squeeze1 - squeeze0) * sums[:, _B_CPU] / 1000.0)

    before = nodes.requested[rows][:, [CPU, MEMORY]] / nodes.capacity[rows][:, [CPU, MEMORY]]
    after = before + shapes.request[k][[CPU, MEMORY]] / nodes.capacity[rows][:, [CPU, MEMORY]]
    strand = (np.abs(after[:, 0] - after[:, 1]) - np.abs(before[:, 0] - before[:, 1])) * capacity
    packing = np.zeros_like(capacity) if service else ((1.0 - before[:, 0]) + (1.0 - before[:, 1])) * cores
    resident = sums[:, _S_CPU] / 1000.0
    spread = ((resident + cores) ** 2 - resident**2) / capacity if service else np.zeros_like(capacity)
    return -np.stack(
        [
            knobs[_K_SERVICE] * services,
            own,
            np.zeros_like(batch) if service else knobs[_K_BATCH] * batch,
            knobs[_K_STRAND] * strand,
            knobs[_K_PACKING] * packing,
            knobs[_K_SPREAD] * spread,
        ],
        axis=1,
    )


@inlined
def paragon_like_at(nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int, knobs: Float) -> float:
    """The negative total slowdown, in cores, that a pod of shape k causes and suffers on node n."""
    capacity = nodes.capacity[n, CPU] / 1000.0
    half = capacity / 2.0
    budget = knobs[_K_BUDGET]
    service = shapes.params[k, _IS_SERVICE] > 0.0
    use = shapes.params[k, _USE]
    cores = shapes.request[k, CPU] / 1000.0 + shapes.params[k, _LENT_CPU]
    factor = 1.0 if service else knobs[_K_PF]
    pressure0 = nodes.sums[n, _S_PRESSURE] / MICRO / half
    pressure1 = pressure0 + factor * shapes.params[k, _PRESSURE] * use / half
    use0 = nodes.sums[n, _S_USE] / 1000.0 / capacity
    use1 = use0 + use / capacity
    smt0 = smt(min(use0, budget + 0.05), knobs[_K_SMT])
    smt1 = smt(min(use1, budget + 0.05), knobs[_K_SMT])
    cpu, a, ao = nodes.sums[n, _S_CPU] / 1000.0, nodes.sums[n, _S_A] / MICRO, nodes.sums[n, _S_AO] / MICRO
    services = smt1 * (cpu + pressure1 * a - ao) - smt0 * (cpu + pressure0 * a - ao)
    batch = (pressure1 - pressure0) * nodes.sums[n, _B_A] / MICRO
    slowdown = (1.0 + shapes.params[k, _SENSITIVITY] * pressure0) * smt1
    if not service:
        slowdown *= max(1.0, use1 / budget)
    return -(services + batch + cores * (slowdown - 1.0))


def paragon_like(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int, knobs: Float) -> Float:
    """Plain form of `paragon_like_at` over rows."""
    sums = nodes.sums[rows].astype(np.float64)
    capacity = nodes.capacity[rows, CPU] / 1000.0
    half, budget, params = capacity / 2.0, knobs[_K_BUDGET], shapes.params[k]
    service = bool(params[_IS_SERVICE] > 0)
    cores = shapes.request[k, CPU] / 1000.0 + shapes.params[k, _LENT_CPU]
    pressure0 = sums[:, _S_PRESSURE] / MICRO / half
    pressure1 = pressure0 + (1.0 if service else knobs[_K_PF]) * params[_PRESSURE] * params[_USE] / half
    use0 = sums[:, _S_USE] / 1000.0 / capacity
    use1 = use0 + params[_USE] / capacity

    def sibling(at: Float) -> Float:
        at = np.minimum(np.minimum(at, budget + 0.05), 1.0)
        return np.where(at <= 0.5, 1.0, 1.0 / (1.0 - knobs[_K_SMT] * (2.0 * at - 1.0) / np.maximum(at, 0.5)))

    smt0, smt1 = sibling(use0), sibling(use1)
    cpu, a, ao = sums[:, _S_CPU] / 1000.0, sums[:, _S_A] / MICRO, sums[:, _S_AO] / MICRO
    services = smt1 * (cpu + pressure1 * a - ao) - smt0 * (cpu + pressure0 * a - ao)
    batch = (pressure1 - pressure0) * sums[:, _B_A] / MICRO
    slowdown = (1.0 + params[_SENSITIVITY] * pressure0) * smt1
    if not service:
        slowdown = slowdown * np.maximum(1.0, use1 / budget)
    return -(services + batch + cores * (slowdown - 1.0))
