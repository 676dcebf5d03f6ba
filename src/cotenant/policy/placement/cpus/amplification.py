"""Whether a pod fits a node that promises more CPU than it has.

Problem: a node whose cores are faster than the reference (or shared harder) offers its CPU times a ratio; a pod with CPUs of its own takes
real ones. Choice: what is bound is counted times the ratio, on both sides; what is not bound as it was asked. Limits: one ratio a node.

Source: Koordinator, NodeNUMAResource (amplified CPU) and apis/extension/node_resource_amplification.go; there the ratio is a float, here
millionths, rounded up as there.
"""

from __future__ import annotations

from cotenant.policy.placement.refusal import Refusal

ONE = 1_000_000  # the ratio that changes nothing


def amplified_m(cpu_m: int, ratio_ppm: int) -> int:
    """So many real milli-CPU, in the node's promised ones; a ratio of one or less changes nothing."""
    return cpu_m if ratio_ppm <= ONE else -(-cpu_m * ratio_ppm // ONE)


def amplified_fit(
    request_m: int, bound: bool, allocatable_m: int, requested_m: int, requested_bound_m: int, ratio_ppm: int
) -> Refusal | None:
    """None where a pod fits by CPU.

    `allocatable_m` is the promised amount; `requested_m` what all pods of the node asked for, of which `requested_bound_m` by pods with CPUs
    of their own. All in milli-CPU.
    """
    wanted_m = amplified_m(request_m, ratio_ppm) if bound else request_m
    used_m = requested_m - requested_bound_m + amplified_m(requested_bound_m, ratio_ppm)
    missing_m = wanted_m - (allocatable_m - used_m)
    if missing_m <= 0:
        return None
    return Refusal(
        "insufficient amplified CPU",
        f"{missing_m}m short: {wanted_m}m asked, {allocatable_m - used_m}m of {allocatable_m}m left",
        missing_m,
    )
