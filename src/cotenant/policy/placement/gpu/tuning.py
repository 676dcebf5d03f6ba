"""The weights of Phi for a cluster and its usual pods: one rule for all workloads.

Problem: CPU left without GPU is waste where GPUs need more CPU than they find, but not where pods without GPU want more CPU
than there is. Choice: the weights are constants; the surplus term is left out where the known mix requests more of the CPU than
of the GPU, relative to the cluster's capacity. Only the mix is used, which FGD needs too: how many pods of each shape usually
arrive; never the arrivals of a run.

The constants were found by random search on six of the openb lists and confirmed on all twelve published ones, with the seeds
2000 to 2005 that no table of ours reports. Halving or doubling one of them changes the default list by at most 0.1 points, with one
exception: `unit` must match the sizes. From 215 to 225 the hole price gains a quarter of a point, at 210 and at 230 almost nothing:
0.22 makes the hole beside a 0.81 pod worthless, charges a 0.47 pod half a device, and counts the remainder of a 0.32 pod as three slots
of four.
Limits: sizes that do not pack in such steps need another `unit`, found by trying; for a mix whose CPU and GPU demand cross over time
the rule must be applied again.
"""

from __future__ import annotations

from cotenant.model.arrays import Int
from cotenant.policy.placement.gpu.fragmentation import GpuWeights
from cotenant.policy.placement.gpu.state import WHOLE_GPU_MILLI, GpuNodes, GpuShapes

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
