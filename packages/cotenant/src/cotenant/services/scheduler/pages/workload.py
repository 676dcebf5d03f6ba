"""What an explanation says of the workload of a declared kind that a pod belongs to."""

from __future__ import annotations

from collections.abc import Callable

from cotenant.model.cluster.observed import PodWorkload
from cotenant.model.decisions.answers import Concern
from cotenant.model.groups.workload_kind import WorkloadState


def workload_concern(workload: PodWorkload | None, state_of: Callable[[str], WorkloadState | None]) -> Concern | None:
    """The paragraph; None for a pod of no declared workload."""
    if workload is None:
        return None
    state = state_of(workload.owner.uid)
    lines = []
    if workload.role:
        lines.append(f"the pod is its {workload.role}")
    if workload.through:
        lines.append(f"it owns the pod through {', '.join(workload.through)}")
    if workload.refused:
        lines.append(f"its owners are not walked further: {workload.refused}")
    words = "it has gone"
    if state is not None:
        wants = "an unknown number of pods" if state.replicas is None else f"{state.replicas} pods"
        words = f"it wants {wants}" + (f", {state.ready} are ready" if state.ready is not None else "")
        if state.minimum > 1:
            lines.append(f"at least {state.minimum} of a group must run together")
        if state.is_paused:
            words += "; it is paused"
    name = f"{workload.owner.kind} {workload.owner.name}"
    return Concern("workload", name, False, words, tuple(lines))
