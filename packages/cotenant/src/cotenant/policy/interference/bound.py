"""What a pod's time is bound by: CPU, memory, memory bandwidth, disk, network, as shares of one window.

A pod that computes and one that waits for a disk may use the same CPU, and are no rivals for each other. Of the window,
per resource, the part in which the pod was held by it: for CPU what it ran and waited to run, as threads, at most all
of the time; of the part that it ran, what cycles per instruction above `BASE_CPI` cost counts as memory bandwidth; for
memory and disk the time in which some task waited (PSI), a wait for pages that are read again as memory; for the
network its share of the uplink. The shares are of the sum of these parts. A window in which the parts are below
`MIN_HELD` says nothing: the pod was idle, or waited for others.

`disk_alone` is what a pod would use of the disks without neighbours. Its observed use is understated where it has to
queue: with c of computing and d of disk (c + d = 1) for a unit of progress, and a disk slower by a factor s, a share
u = d / (c + s d) of the disk is seen, and a share w = s d / (c + s d) of waiting; so d = u / (u + 1 - w).
Limits: without a PMU memory bandwidth is part of CPU; cycles per instruction also rise by bad branches; PSI's `some`
of a pod with many threads is not the share of each; d holds for one thread that computes or waits, so it is used only
where the pod waits longer than the disk works for it.
Source: PSI, Linux admin-guide; operational laws: Denning and Buzen, Computing Surveys 1978.
"""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.model.cluster.workload_profile import ProfileAxis, ProfileFigure, Reading, WorkloadBound, WorkloadProfile
from cotenant.model.machine.node_metric import PodSignals

BASE_CPI = 1.0
MIN_HELD = 0.05
MIN_SHARE = 500  # thousandths from which one resource is said to bind a workload
MIN_DISK_SHARE = 300  # ... and from which a workload is a rival at the disk
LONGEST_WAIT = 0.99  # of the time


def shares(cpu_m: int, signals: PodSignals) -> Mapping[WorkloadBound, float]:
    """Shares of 1 by resource; empty for an idle window. A resource that is not measured has none."""
    cores = max(0.0, cpu_m / 1000.0)
    waited = cores * (signals.wait_per_cpu or 0.0)
    busy = min(1.0, cores + waited)
    running = busy * cores / (cores + waited) if cores > 0.0 else 0.0
    cpi = signals.cycles_per_instruction
    stalled = running * max(0.0, 1.0 - BASE_CPI / cpi) if cpi is not None and cpi > 0.0 else None
    held: dict[WorkloadBound, float] = {WorkloadBound.CPU: busy - (stalled or 0.0)}
    if stalled is not None:
        held[WorkloadBound.MEMORY_BANDWIDTH] = stalled
    if signals.memory_stall is not None:
        held[WorkloadBound.MEMORY] = signals.memory_stall
    if signals.disk_stall is not None:
        held[WorkloadBound.DISK] = max(0.0, signals.disk_stall - (signals.memory_stall or 0.0))
    if signals.network_use is not None:
        held[WorkloadBound.NETWORK] = signals.network_use
    total = sum(held.values())
    return {} if total < MIN_HELD else {resource: part / total for resource, part in held.items()}


def disk_alone(signals: PodSignals) -> float | None:
    """The share of the disks' time that the pod would use without neighbours; None where it is not measured."""
    use, wait = signals.disk_use, signals.disk_stall
    if use is None or wait is None or wait <= use:
        return use
    wait = min(wait, LONGEST_WAIT)
    return use / (use + 1.0 - wait)


def bound_by(found: Mapping[WorkloadBound, Reading]) -> str:
    """The resource that binds the workload, "mixed" without such a one; "" where nothing is known."""
    known = {resource: reading for resource, reading in found.items() if isinstance(reading, ProfileFigure)}
    if not known:
        return ""
    resource = max(known, key=lambda name: known[name].value)
    return resource.value if known[resource].value >= MIN_SHARE else "mixed"


def disk_demand(profile: WorkloadProfile) -> int:
    """Thousandths of a node's disks that a pod of the workload wants; 0 = it is no rival there, or it is not known.

    What was learned counts where the waits say that the disk matters to it; what was declared or measured by a run
    counts as it is.
    """
    tendency = profile.axis(ProfileAxis.DISK).tendency
    if not isinstance(tendency, ProfileFigure):
        return 0
    share = profile.bound.get(WorkloadBound.DISK)
    if tendency.samples and isinstance(share, ProfileFigure) and share.value < MIN_DISK_SHARE:
        return 0
    return tendency.value
