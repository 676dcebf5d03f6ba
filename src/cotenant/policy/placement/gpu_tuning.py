"""The weights of Phi for a cluster and the pods that usually come: one rule for all workloads.

Problem: CPU left without GPU is waste where GPUs need more CPU than they find, and no waste where pods without GPU want more CPU
than there is. Choice: the balance terms and the hole price are constants found on the default openb list; the surplus term is
left out where the known mix asks for more of the CPU than of the GPU (as shares of what the cluster has). Only the mix is
used, which FGD needs too: how many pods of each shape usually come. Limits: `unit` suits sizes that pack in steps of about 0.22
GPU, as those of openb do.
"""

from __future__ import annotations

from cotenant.model.arrays import Int
from cotenant.policy.placement.gpu_fragmentation import GpuWeights
from cotenant.policy.placement.gpu_state import WHOLE_GPU_MILLI, GpuNodes, GpuShapes

BALANCED = GpuWeights(shortage=5.0, surplus=0.9, hole=7.0, unit=220, quantum=0.08)


def cpu_per_gpu(nodes: GpuNodes, shapes: GpuShapes, pods: Int) -> float:
    """Return (CPU asked / CPU there) / (GPU asked / GPU there) of a mix; infinite without any GPU demand. `pods` is [K]."""
    cpu_asked = float((pods * shapes.cpu).sum()) / float(nodes.cpu.sum())
    gpu_asked = float((pods * shapes.gpu_count * shapes.gpu_milli).sum()) / float(
        nodes.gpu_count.sum() * WHOLE_GPU_MILLI
    )
    return cpu_asked / gpu_asked if gpu_asked else float("inf")


def weights_for(nodes: GpuNodes, shapes: GpuShapes, pods: Int) -> GpuWeights:
    """Return the weights for a mix of `pods[k]` pods of shape k on these nodes."""
    return BALANCED._replace(surplus=0.0) if cpu_per_gpu(nodes, shapes, pods) > 1.0 else BALANCED
