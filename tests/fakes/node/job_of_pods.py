"""One best-effort pod of a state as several pods of one Job that do its work together."""

from __future__ import annotations

from dataclasses import replace

from cotenant.model.machine.node_state import NodeState, PodUse

WORKLOAD = "Job batch/hogs"


def as_job(state: NodeState, name: str, pods: int = 4) -> NodeState:
    """The state with the pod `name` of `batch` as so many pods, which have equal parts of its CPU and of its blame."""
    found: list[PodUse] = []
    for entry in state.pods:
        if entry.pod.name != name:
            found.append(entry)
            continue
        for number in range(pods):
            pod = replace(
                entry.pod,
                uid=f"{entry.pod.uid}-{number}",
                name=f"{name}-{number}",
                group=f"{entry.pod.group}-{number}",
                workload=WORKLOAD,
            )
            found.append(
                replace(entry, pod=pod, use=replace(entry.use, group=pod.group, cpu_m=(entry.use.cpu_m or 0) // pods))
            )
    blame = state.blame and tuple(
        replace(element, culprit=f"batch/{name}-{number}", ran_us=element.ran_us // pods)
        if element.culprit == f"batch/{name}"
        else element
        for element in state.blame
        for number in range(pods if element.culprit == f"batch/{name}" else 1)
    )
    return replace(state, pods=tuple(found), blame=blame)
