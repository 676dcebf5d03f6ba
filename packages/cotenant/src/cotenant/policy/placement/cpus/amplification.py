"""CPU fit on a node with amplified CPU (more advertised than physical).

A node whose cores are faster than the reference (or shared more densely) advertises its CPU times a ratio; a pod with
own CPUs takes physical ones. Bound CPUs are counted times the ratio, on both sides; other requests as they are.
Limits: one ratio per node.

Source: Koordinator, NodeNUMAResource (amplified CPU) and apis/extension/node_resource_amplification.go; upstream's
ratio is a float, here it is in millionths, rounded up like upstream.
"""

from __future__ import annotations

from cotenant.model.cpus.amplification import amplified
from cotenant.policy.placement.refusal import Refusal

INSUFFICIENT_AMPLIFIED = "Insufficient amplified cpu"


def amplified_fit(
    request_m: int, bound: bool, allocatable_m: int, requested_m: int, requested_bound_m: int, ratio_ppm: int
) -> Refusal | None:
    """None where the pod's CPU fits, else the reason.

    `allocatable_m` is the advertised amount; `requested_m` is requested by all pods of the node, of it
    `requested_bound_m` by pods with own CPUs. All in milli-CPU.
    """
    wanted_m = amplified(request_m, ratio_ppm) if bound else request_m
    used_m = requested_m - requested_bound_m + amplified(requested_bound_m, ratio_ppm)
    missing_m = wanted_m - (allocatable_m - used_m)
    if missing_m <= 0:
        return None
    return Refusal(
        "insufficient amplified CPU",
        f"{missing_m}m short: {wanted_m}m asked, {allocatable_m - used_m}m of {allocatable_m}m left",
        missing_m,
    )
