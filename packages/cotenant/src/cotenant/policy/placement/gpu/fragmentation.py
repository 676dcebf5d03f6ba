"""Value of a node's idle GPU for the usual pods: FGD's fragment F, and the potential Phi that our policy lowers.

GPUs shared in fractions of many sizes leave unusable remainders. FGD (Weng et al., USENIX ATC 2023, section 4) measures
them by F(s) = sum over pod classes m of p_m x (idle milli-GPU of node state s that m cannot use): all idle where the
CPU, the model or the number of devices is short, else only the devices with less left than m asks, and places a pod
where F grows least. Two things escape F: CPU and GPU of a node running out at different times, and the holes of the
right size for which there are too few small pods.

Phi(s) = F(s)
               + shortage x max(0, -r)^2          GPU left without its CPU, r = cpu free / cpu - gpu free / gpu
               + surplus  x max(0, r)^2           CPU left without its GPU
               - hole x sum over devices g of floor(x_g / unit) / floor(1000 / unit)     slots of `unit` milli-GPU left
with F in GPUs and `score = round((Phi(before) - Phi(after)) / quantum)`; the highest score wins and the rows' order
decides ties. A pod that shares a GPU takes the device with the highest unrounded score; whole GPUs are taken in the
order of the devices. Everything is row-local: it depends on the node's own state, the pod's shape and the known mix, so
it can be used in a live scheduler.

Limits: departures are not considered (a hole is priced as if it could only be filled once); CPU-only classes are left
out of Phi's F, where they would add the same constant to every placement of the same size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Int
from cotenant.model.compiled import njit
from cotenant.policy.placement.gpu.state import WHOLE_GPU_MILLI, GpuNodeArrays, GpuShapes, first_devices


class GpuMix(NamedTuple):
    """The classes of usual pods, as sums that make F of one node state one look-up per device.

    B models, S distinct CPU demands, L distinct shares of one device, D most devices of a node. Counts are pods, so F
    is exact. Classes that ask for one device (a share or a whole) can use a device by what is left on it; classes that
    ask for several whole devices can use the whole ones if there are enough.
    """

    cpu_steps: Int  # [S] distinct CPU demands, ascending, milli-CPU
    level: Int  # [1001] how many of the L shares a device with that much left can take
    # [B, S + 1, L + 1] pods whose CPU is among the S smallest, whose share is among the L smallest, and that take the
    # model
    one: Int
    # [B, S + 1, D + 1] pods whose CPU is among the S smallest, that want at most D whole devices, and take the model
    several: Int
    gpu_pods: int  # pods of all GPU classes
    cpu_pods: int  # pods of all CPU-only classes


class GpuWeights(NamedTuple):
    """The weights of Phi."""

    shortage: float  # GPUs for all GPU left and no CPU
    surplus: float  # GPUs for all CPU left and no GPU
    hole: float  # GPUs for a whole idle device
    unit: int  # milli-GPU, what a slot must hold
    quantum: float  # GPUs, the step of the score
    several: int = 1  # how many pods a pod of several devices counts for in the mix (see `mix_of`)


class PhiParts(NamedTuple):
    """Phi of one node state, taken apart, in GPUs. Phi is their sum."""

    fragment: float
    shortage: float
    surplus: float
    hole: float


def mix_of(
    shapes: GpuShapes, pods: Int, models: int, devices: int, cover: float = 1.0, times_several: int = 1
) -> GpuMix:
    """Build the mix from how many pods of each shape usually come ([K]), for `models` GPU models and at most `devices`
    a node.

    `cover` < 1 keeps only the most frequent classes that together reach that share of the pods (FGD's typical pods:
    0.95). A pod that asks for several devices counts `times_several` times: such pods are few, but each needs a node
    that is nearly idle. Memory is not part of a class.
    """
    pods = np.where(shapes.gpu_count > 1, pods * times_several, pods)
    asks = np.stack([shapes.cpu, shapes.gpu_count, shapes.gpu_milli, shapes.models], axis=1)
    classes, inverse = np.unique(asks, axis=0, return_inverse=True)
    count = np.zeros(len(classes), np.int64)
    np.add.at(count, inverse.ravel(), pods)
    order = np.argsort(-count, kind="stable")
    kept = order[: int(np.searchsorted(np.cumsum(count[order]), cover * count.sum() - 1e-6)) + 1]
    cpu, wanted, milli, mask = (np.ascontiguousarray(classes[kept, i]) for i in range(4))
    count = count[kept]
    gpu = wanted > 0
    steps, shares = np.unique(cpu[gpu]), np.unique(milli[gpu & (wanted == 1)])
    one = np.zeros((models, len(steps) + 1, len(shares) + 1), np.int64)
    several = np.zeros((models, len(steps) + 1, devices + 1), np.int64)
    for c in np.flatnonzero(gpu):
        takes = (mask[c] >> np.arange(models)) & 1 == 1
        step = np.searchsorted(steps, cpu[c]) + 1
        if wanted[c] == 1:
            one[takes, step, np.searchsorted(shares, milli[c]) + 1] += count[c]
        elif wanted[c] <= devices:
            several[takes, step, wanted[c]] += count[c]
    return GpuMix(
        cpu_steps=steps,
        level=np.searchsorted(shares, np.arange(WHOLE_GPU_MILLI + 1), side="right"),
        one=one.cumsum(axis=1).cumsum(axis=2),
        several=several.cumsum(axis=1).cumsum(axis=2),
        gpu_pods=int(count[gpu].sum()),
        cpu_pods=int(count[~gpu].sum()),
    )


class DeviceSums(NamedTuple):
    """Sums over the devices of one node, at one amount of CPU left: enough to compute F after any one pod in
    constant time.
    """

    step: int  # how many of the mix's CPU demands are met
    idle: int  # milli-GPU
    whole: int  # devices with all left
    usable: int  # milli-GPU x pods that classes asking for one device can use


@njit
def device_sums(nodes: GpuNodeArrays, n: int, cpu_free: int, devices: int, milli: int, mix: GpuMix) -> DeviceSums:
    """Sum over the devices of node `n`, as if `cpu_free` were left and `milli` taken of the devices of the mask."""
    low, high = 0, len(mix.cpu_steps)
    while low < high:
        middle = (low + high) // 2
        if mix.cpu_steps[middle] <= cpu_free:
            low = middle + 1
        else:
            high = middle
    model = nodes.model[n]
    idle = 0
    whole = 0
    usable = 0
    for i in range(nodes.gpu_count[n]):
        free = nodes.gpu_free[n, i]
        if (devices >> i) & 1:
            free -= milli
        idle += free
        if free == WHOLE_GPU_MILLI:
            whole += 1
        usable += free * mix.one[model, low, mix.level[free]]
    return DeviceSums(low, idle, whole, usable)


@njit
def fragment_of(model: int, sums: DeviceSums, mix: GpuMix) -> int:
    """Return F in milli-GPU x pods of a node with these sums: all idle GPU for all pods, less what they can use."""
    several = sums.whole * WHOLE_GPU_MILLI * mix.several[model, sums.step, sums.whole]
    return mix.gpu_pods * sums.idle - sums.usable - several


@njit
def sums_after(model: int, sums: DeviceSums, free: int, count: int, milli: int, mix: GpuMix) -> DeviceSums:
    """Return the sums after `milli` is taken of each of `count` devices that have `free` left."""
    left = free - milli
    gone = free * mix.one[model, sums.step, mix.level[free]] - left * mix.one[model, sums.step, mix.level[left]]
    broken = count if free == WHOLE_GPU_MILLI and milli > 0 else 0
    return DeviceSums(sums.step, sums.idle - count * milli, sums.whole - broken, sums.usable - count * gone)


@njit
def fragment(nodes: GpuNodeArrays, n: int, cpu_free: int, devices: int, milli: int, mix: GpuMix) -> int:
    """Return F of node `n` in milli-GPU x pods, as if `cpu_free` were left and `milli` taken of the devices of the
    mask.

    Divide by `gpu_pods + cpu_pods` for milli-GPU. CPU-only classes are not in it; they would add `cpu_pods` x idle.
    """
    return fragment_of(nodes.model[n], device_sums(nodes, n, cpu_free, devices, milli, mix), mix)


@njit
def cluster_fragment_gpus(nodes: GpuNodeArrays, mix: GpuMix) -> float:
    """Return F of all nodes in GPUs, CPU-only classes included (to them all idle GPU is a fragment), as the
    published table has it.
    """
    total = 0
    for n in range(len(nodes.cpu)):
        total += fragment(nodes, n, nodes.cpu_free[n], 0, 0, mix)
        for i in range(nodes.gpu_count[n]):
            total += mix.cpu_pods * nodes.gpu_free[n, i]
    return total / (mix.gpu_pods + mix.cpu_pods) / WHOLE_GPU_MILLI


@njit
def _balance(nodes: GpuNodeArrays, n: int, cpu_free: int, idle: int, w: GpuWeights) -> tuple[float, float]:
    """Return the cost, in GPUs, of GPU left without CPU, and of CPU left without GPU."""
    if nodes.gpu_count[n] == 0:
        return 0.0, 0.0
    r = cpu_free / nodes.cpu[n] - idle / (WHOLE_GPU_MILLI * nodes.gpu_count[n])
    return w.shortage * max(0.0, -r) ** 2, w.surplus * max(0.0, r) ** 2


@njit
def phi_parts(
    nodes: GpuNodeArrays, n: int, cpu_free: int, devices: int, milli: int, mix: GpuMix, w: GpuWeights
) -> PhiParts:
    """Return the parts of Phi of node `n`, as if `cpu_free` were left and `milli` taken of the devices of the mask."""
    sums = device_sums(nodes, n, cpu_free, devices, milli, mix)
    slots = 0
    for i in range(nodes.gpu_count[n]):
        free = nodes.gpu_free[n, i]
        if (devices >> i) & 1:
            free -= milli
        slots += free // w.unit
    shortage, surplus = _balance(nodes, n, cpu_free, sums.idle, w)
    gpus = fragment_of(nodes.model[n], sums, mix) / (mix.gpu_pods + mix.cpu_pods) / WHOLE_GPU_MILLI
    return PhiParts(gpus, shortage, surplus, -w.hole * slots / (WHOLE_GPU_MILLI // w.unit))


@njit
def phi(nodes: GpuNodeArrays, n: int, mix: GpuMix, w: GpuWeights) -> float:
    """Return Phi of node `n` as it is."""
    parts = phi_parts(nodes, n, nodes.cpu_free[n], 0, 0, mix, w)
    return parts.fragment + parts.shortage + parts.surplus + parts.hole


@njit
def phi_score(
    nodes: GpuNodeArrays, n: int, shapes: GpuShapes, k: int, mix: GpuMix, w: GpuWeights, before: float
) -> tuple[float, int]:
    """Return the score of shape `k` on node `n`, on which it fits, and the mask of the devices to take.

    `before` is `phi` of the node. Everything but F and the slots is independent of the chosen device.
    """
    count, milli = shapes.gpu_count[k], shapes.gpu_milli[k]
    cpu_left = nodes.cpu_free[n] - shapes.cpu[k]
    model = nodes.model[n]
    sums = device_sums(nodes, n, cpu_left, 0, 0, mix)
    slots = 0
    for i in range(nodes.gpu_count[n]):
        slots += nodes.gpu_free[n, i] // w.unit
    shortage, surplus = _balance(nodes, n, cpu_left, sums.idle - count * milli, w)
    scale = (mix.gpu_pods + mix.cpu_pods) * float(WHOLE_GPU_MILLI)
    price = w.hole / (WHOLE_GPU_MILLI // w.unit)
    shared = count == 1 and milli < WHOLE_GPU_MILLI
    best, chosen = np.inf, 0
    for i in range(nodes.gpu_count[n] if shared else 1):
        free = nodes.gpu_free[n, i] if shared else WHOLE_GPU_MILLI if count > 0 else 0
        if free < milli:
            continue
        after = sums_after(model, sums, free, count, milli, mix)
        lost = count * (free // w.unit - (free - milli) // w.unit)
        left = fragment_of(model, after, mix) / scale - price * (slots - lost)
        if left < best:
            best, chosen = left, 1 << i
    if not shared:
        chosen = first_devices(nodes, n, count, milli)
    score = before - (best + shortage + surplus)
    return (np.round(score / w.quantum) if w.quantum > 0.0 else score), chosen
