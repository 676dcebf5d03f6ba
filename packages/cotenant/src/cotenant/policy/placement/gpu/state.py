"""Nodes with several GPUs, and pods that request a share of one or several of them, as arrays.

A pod may request CPU, memory, a number of GPUs, and a share of each; where it fits depends on every single device of a
node, not on their sum. Free milli-GPU per device in one small row per node, so that fit and score depend only on the
node's own row; a set of devices of one node is a bit mask.
Limits: a pod takes the same share of each of its devices, and a share below a whole GPU is only for one device (the
open-gpu-share model of Weng et al., ATC 2023).

Units: milli-CPU, bytes, milli-GPU (1000 = a whole device). Models are bits of a 64-bit word.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from cotenant.model.arrays import Int
from cotenant.model.compiled import njit

WHOLE_GPU_MILLI = 1000
MAX_DEVICES = 62  # a set of devices is one signed 64-bit word
ANY_MODEL = -1  # all bits set: every model is accepted


class GpuNodeArrays(NamedTuple):
    """One row per node: N nodes, at most D devices each. The `free` columns change, the others do not."""

    cpu_free: Int  # [N] milli-CPU
    memory_free: Int  # [N] bytes
    gpu_free: Int  # [N, D] milli-GPU per device, 0 where the node has no such device
    cpu: Int  # [N] milli-CPU, allocatable
    memory: Int  # [N] bytes, allocatable
    gpu_count: Int  # [N] devices
    model: Int  # [N] position of the model's bit


class GpuShapes(NamedTuple):
    """One row per shape (pods with equal requests have one shape). K shapes."""

    cpu: Int  # [K] milli-CPU
    memory: Int  # [K] bytes
    gpu_count: Int  # [K] devices, 0 = CPU only
    gpu_milli: Int  # [K] milli-GPU of each device; below 1000 only with one device
    models: Int  # [K] bits of the accepted models, ANY_MODEL = all


class Misfit(IntEnum):
    """Why a pod does not fit a node: the first reason in this order."""

    FITS = 0
    MODEL = 1  # the node's GPU model is not among the requested ones
    DEVICES = 2  # the node has fewer devices than requested, even when empty
    GPU = 3  # too few devices with enough left
    CPU = 4
    MEMORY = 5


MISFIT_TEXT = {
    Misfit.MODEL: "GPU model not among those asked for",
    Misfit.DEVICES: "fewer GPUs on the node than asked for",
    Misfit.GPU: "too few GPUs with enough left",
    Misfit.CPU: "CPU short",
    Misfit.MEMORY: "memory short",
}


@njit
def misfit(nodes: GpuNodeArrays, n: int, shapes: GpuShapes, k: int) -> int:
    """Return why shape `k` does not fit node `n` (a `Misfit`); 0 = it fits."""
    wanted = shapes.gpu_count[k]
    if wanted > 0:
        if (shapes.models[k] >> nodes.model[n]) & 1 == 0:
            return 1
        if nodes.gpu_count[n] < wanted:
            return 2
        milli = shapes.gpu_milli[k]
        enough = 0
        for i in range(nodes.gpu_count[n]):
            if nodes.gpu_free[n, i] >= milli:
                enough += 1
        if enough < wanted:
            return 3
    if nodes.cpu_free[n] < shapes.cpu[k]:
        return 4
    if nodes.memory_free[n] < shapes.memory[k]:
        return 5
    return 0


@njit
def first_devices(nodes: GpuNodeArrays, n: int, count: int, milli: int) -> int:
    """Return the mask of the first `count` devices of node `n` with `milli` left (fewer bits where there are not so
    many).
    """
    mask = 0
    for i in range(nodes.gpu_count[n]):
        if count > 0 and nodes.gpu_free[n, i] >= milli:
            mask |= 1 << i
            count -= 1
    return mask


@njit
def tightest_device(nodes: GpuNodeArrays, n: int, milli: int) -> int:
    """Return the mask of the one device of node `n` with least left among those with `milli` left; 0 = none."""
    best = -1
    for i in range(nodes.gpu_count[n]):
        free = nodes.gpu_free[n, i]
        if free >= milli and (best < 0 or free < nodes.gpu_free[n, best]):
            best = i
    return 0 if best < 0 else 1 << best


@njit
def take(nodes: GpuNodeArrays, n: int, shapes: GpuShapes, k: int, devices: int, sign: int) -> None:
    """Add (`sign` = 1) or remove (-1) shape `k` on the devices of the mask, in place."""
    nodes.cpu_free[n] -= sign * shapes.cpu[k]
    nodes.memory_free[n] -= sign * shapes.memory[k]
    for i in range(nodes.gpu_count[n]):
        if (devices >> i) & 1:
            nodes.gpu_free[n, i] -= sign * shapes.gpu_milli[k]
