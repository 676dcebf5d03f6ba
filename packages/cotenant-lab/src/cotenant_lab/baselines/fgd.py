"""The rivals of the published GPU-sharing table: random, dot-product, clustering, packing, best-fit and FGD.

Comparing with a published table requires reproducing it. The rules of Weng et al. (USENIX ATC 2023, sections 4 and 6)
with the settings of their published simulator:

- random: any node on which the pod fits, any device with enough left.
- dot-product: least (cpu requested x cpu free / 128^2 + gpu requested x gpu free / 8^2) / 2, in whole percent; the
  fullest device.
- clustering: nodes that run only pods of the same kind (shared, 1, 2, 4, 8 GPUs), then those that run it among others,
  then idle nodes, then the rest; within each, in steps of a quarter, the one with least GPU left; the fullest device.
- packing: devices already shared first, then idle devices of used nodes, then idle nodes; the fullest device.
- best-fit: least (cpu left / 128 + gpu left / 8) / 2, in whole percent; the fullest device.
- FGD: highest floor(100 x sigmoid(F before - F after)), F in GPUs over the most frequent classes that cover 95 % of the
  pods, CPU-only classes included (for them all idle GPU is a fragment); the first device with that score.

Ties go to the lowest row; the caller decides the order of rows, which matters a lot for these rules. Limits: means are
comparable with the table, single seeds are not (its shuffles come from another generator).
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from cotenant.model.compiled import njit
from cotenant.policy.placement.gpu.fragmentation import (
    DeviceSums,
    GpuMix,
    GpuWeights,
    device_sums,
    fragment_of,
    phi,
    phi_score,
    sums_after,
)
from cotenant.policy.placement.gpu.state import (
    WHOLE_GPU_MILLI,
    GpuNodeArrays,
    GpuShapes,
    first_devices,
    tightest_device,
)

_MAX_CPU = 128_000.0  # milli-CPU of the largest node: the simulator's unit
_MAX_GPU = 8_000.0  # milli-GPU of the largest node
TYPICAL_COVER = 0.95  # FGD's typical pods: the most frequent classes that together reach this share of the list


class GpuRule(IntEnum):
    """The rule that scores a node for a pod."""

    POTENTIAL = 0
    FGD = 1
    BEST_FIT = 2
    PACKING = 3
    DOT_PRODUCT = 4
    CLUSTERING = 5
    RANDOM = 6


@njit
def node_term(rule: int, nodes: GpuNodeArrays, n: int, mix: GpuMix, w: GpuWeights) -> float:
    """Return what a score on node `n` needs of the node alone (kept until the node changes): Phi in GPUs, or F in
    milli-GPU x pods.
    """
    if rule == GpuRule.POTENTIAL:
        return phi(nodes, n, mix, w)
    if rule == GpuRule.FGD:
        return float(_fgd_fragment(nodes.model[n], device_sums(nodes, n, nodes.cpu_free[n], 0, 0, mix), mix))
    return 0.0


@njit
def score_node(
    rule: int,
    nodes: GpuNodeArrays,
    n: int,
    kinds: int,
    shapes: GpuShapes,
    k: int,
    mix: GpuMix,
    w: GpuWeights,
    term: float,
) -> tuple[float, int]:
    """Return the score of shape `k` on node `n`, on which it fits, and the mask of the devices to take.

    `kinds` has one bit a kind of GPU pods (see `kind_bit`) on the node; `term` is `node_term` of the node.
    """
    if rule == GpuRule.POTENTIAL:
        return phi_score(nodes, n, shapes, k, mix, w, term)
    count, milli = shapes.gpu_count[k], shapes.gpu_milli[k]
    shared = count == 1 and milli < WHOLE_GPU_MILLI
    cpu_left = nodes.cpu_free[n] - shapes.cpu[k]
    if rule == GpuRule.FGD:
        return _fgd(nodes, n, shapes, k, mix, term)
    chosen = tightest_device(nodes, n, milli) if shared else first_devices(nodes, n, count, milli)
    idle = 0
    whole = 0
    for i in range(nodes.gpu_count[n]):
        idle += nodes.gpu_free[n, i]
        if nodes.gpu_free[n, i] == WHOLE_GPU_MILLI:
            whole += 1
    if rule == GpuRule.BEST_FIT:
        left = (cpu_left / _MAX_CPU + (idle - count * milli) / _MAX_GPU) / 2.0
        return np.floor(100.0 * (1.0 - left)), chosen
    if rule == GpuRule.DOT_PRODUCT:
        dot = shapes.cpu[k] / _MAX_CPU * nodes.cpu_free[n] / _MAX_CPU
        dot += count * milli / _MAX_GPU * idle / _MAX_GPU
        return np.floor(100.0 * (1.0 - dot / 2.0)), chosen
    if count == 0 or rule == GpuRule.RANDOM:
        return 0.0, chosen
    if rule == GpuRule.PACKING:
        return _packing(nodes, n, shared, count, idle, whole, chosen), chosen
    base = 0
    bit = kind_bit(count, milli)
    if kinds & bit:
        base = 75 if kinds == bit else 50
    elif kinds == 0:
        base = 25
    return base + float(25 * (8 * WHOLE_GPU_MILLI - idle) // (8 * WHOLE_GPU_MILLI)), chosen


@njit
def kind_bit(count: int, milli: int) -> int:
    """Return the bit of a pod's kind: shares a GPU, or takes 1, 2, ... whole ones; 0 = none."""
    if count == 0:
        return 0
    return 1 if milli < WHOLE_GPU_MILLI else 1 << count


@njit
def _packing(nodes: GpuNodeArrays, n: int, shared: bool, count: int, idle: int, whole: int, chosen: int) -> float:
    """Packing's three bands: above 50 a shared device, 33..50 an idle device of a used node, below an idle node."""
    if whole == nodes.gpu_count[n]:
        return float(max(33 - whole, whole))
    left = 0
    fresh = 0
    for i in range(nodes.gpu_count[n]):
        if (chosen >> i) & 1:
            if nodes.gpu_free[n, i] == WHOLE_GPU_MILLI:
                fresh += 1
            left += nodes.gpu_free[n, i]
    if fresh > 0:
        return float(max(50 - fresh, 33))
    return float(max(100 - left * 100 // WHOLE_GPU_MILLI // 10, 50))


@njit
def _fgd_fragment(model: int, sums: DeviceSums, mix: GpuMix) -> int:
    """Return F in milli-GPU x pods, CPU-only classes included: to them all idle GPU is a fragment."""
    return fragment_of(model, sums, mix) + mix.cpu_pods * sums.idle


@njit
def _fgd(nodes: GpuNodeArrays, n: int, shapes: GpuShapes, k: int, mix: GpuMix, before: float) -> tuple[float, int]:
    """Return FGD's score and the devices; `before` is F of the node as it is, so that differences are exact."""
    count, milli = shapes.gpu_count[k], shapes.gpu_milli[k]
    sums = device_sums(nodes, n, nodes.cpu_free[n] - shapes.cpu[k], 0, 0, mix)
    shared = count == 1 and milli < WHOLE_GPU_MILLI
    best, chosen = -1.0, 0
    for i in range(nodes.gpu_count[n] if shared else 1):
        free = nodes.gpu_free[n, i] if shared else WHOLE_GPU_MILLI if count > 0 else 0
        if free < milli:
            continue
        after = sums_after(nodes.model[n], sums, free, count, milli, mix)
        fall = (before - _fgd_fragment(nodes.model[n], after, mix)) / (mix.gpu_pods + mix.cpu_pods) / WHOLE_GPU_MILLI
        value = np.floor(100.0 / (1.0 + np.exp(-fall)))
        if value > best:
            best, chosen = value, 1 << i
    return best, chosen if shared else first_devices(nodes, n, count, milli)
