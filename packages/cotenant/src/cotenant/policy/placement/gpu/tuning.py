"""The weights of Phi for a cluster and its usual pods: one rule for all workloads.

CPU left without GPU is waste where GPUs need more CPU than they find, but not where pods without GPU want more CPU than
there is. A switch between the two at equal demand is worse than either: on a list with a CPU demand of 0.998 of the GPU
demand, pods were first refused at 41 % load. The weights depend on one number, the CPU demand of the known mix over its
GPU demand, both relative to the cluster's capacity, by two ramps. From 0.82 to 0.90 `surplus` fades to zero and
`shortage` to 3. From 0.90 to 1.00 `shortage` and `hole` fade too, the step of the score becomes finer and `several`
falls to 1: there CPU runs out first, and GPU that the balance saves is paid for with refused CPU-only pods. Only the
mix is used, which FGD needs too: how many pods of each shape usually arrive; never the arrivals of a run.

A pod of several GPUs counts four times in the mix (`several`). Counted once, such pods are too rare for F to keep nodes
idle for them: on the published lists 8-GPU pods were refused up to 25 points of load earlier than by FGD. The price is
a few hundredths of a point of allocation.

The constants were found by random search on the lists default, cpu050, gpuspec10, multigpu20 and multigpu50, those
above 0.82 on gpushare80, cpu250, cpu300 and copies of cpu250 with fewer CPU-only pods, with the seeds 2000 to 2003;
docs/results.md reports other seeds, and says which lists were not used. `unit` must match the sizes: from 215 to 225
the hole price gains a quarter of a point, at 210 and at 230 almost nothing: 0.22 makes the hole beside a 0.81 pod
worthless, charges a 0.47 pod half a device, and counts the remainder of a 0.32 pod as three slots of four. Limits:
sizes that do not pack in such steps need another `unit`, found by trying; for a mix whose CPU and GPU demand cross over
time the rule must be applied again.
"""

from __future__ import annotations

from math import ceil

from cotenant.model.arrays import Int
from cotenant.policy.placement.gpu.fragmentation import GpuWeights
from cotenant.policy.placement.gpu.state import WHOLE_GPU_MILLI, GpuNodeArrays, GpuShapes

BALANCED = GpuWeights(shortage=7.7, surplus=0.69, hole=7.1, unit=220, quantum=0.06, several=4)
SCARCE_CPU = BALANCED._replace(shortage=0.0, surplus=0.0, hole=0.0, quantum=0.02, several=1)
SURPLUS_RAMP = (0.82, 0.90)  # CPU demand / GPU demand at which the surplus term begins to fade, and at which it is gone
BALANCE_RAMP = (0.90, 1.00)  # the same for shortage, hole, the coarse step and `several`
SHORTAGE_ALONE = (
    3.0  # `shortage` where surplus is gone: without its counterpart a larger one spreads pods over large nodes
)


def cpu_per_gpu(nodes: GpuNodeArrays, shapes: GpuShapes, pods: Int) -> float:
    """Return (CPU asked / CPU there) / (GPU asked / GPU there) of a mix; infinite without any GPU demand. `pods` is
    [K].
    """
    cpu_asked = float((pods * shapes.cpu).sum()) / float(nodes.cpu.sum())
    gpu_asked = float((pods * shapes.gpu_count * shapes.gpu_milli).sum()) / float(
        nodes.gpu_count.sum() * WHOLE_GPU_MILLI
    )
    return cpu_asked / gpu_asked if gpu_asked else float("inf")


def weights_for(nodes: GpuNodeArrays, shapes: GpuShapes, pods: Int) -> GpuWeights:
    """Return the weights for a mix of `pods[k]` pods of shape k on these nodes."""
    ratio = cpu_per_gpu(nodes, shapes, pods)
    surplus, rest = _left(ratio, SURPLUS_RAMP), _left(ratio, BALANCE_RAMP)
    return BALANCED._replace(
        shortage=rest * (surplus * BALANCED.shortage + (1.0 - surplus) * SHORTAGE_ALONE),
        surplus=surplus * BALANCED.surplus,
        hole=rest * BALANCED.hole,
        quantum=rest * BALANCED.quantum + (1.0 - rest) * SCARCE_CPU.quantum,
        several=ceil(rest * BALANCED.several + (1.0 - rest) * SCARCE_CPU.several),
    )


def _left(ratio: float, ramp: tuple[float, float]) -> float:
    """One before the ramp, zero behind it, linear between."""
    begin, end = ramp
    return min(1.0, max(0.0, (end - ratio) / (end - begin)))
