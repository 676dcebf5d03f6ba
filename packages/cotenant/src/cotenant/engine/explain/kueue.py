"""What Kueue says of a pod, in sentences: why it holds a pod, or with which flavors it let it start.

Words of Kueue are repeated as they are. The order follows its states: finished, deactivated, evicted, without quota,
with checks that are not ready, admitted.
"""

from __future__ import annotations

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.decisions.answers import Concern
from cotenant.model.groups.kueue import GATES, TOPOLOGY_GATE, InQueue, KueueCondition, KueueWorkload


def kueue_concern(entry: PodInfo, our_quota: str = "") -> Concern | None:
    """Kueue's part, None for a pod that is none of its. `our_quota`: the quota of this scheduler that counts it too."""
    seen = entry.seen
    if seen.in_queue is None:
        return None
    holds = bool(GATES.intersection(seen.gates)) and not seen.node
    words = why_held(seen.in_queue, seen.gates) if holds else _admitted(seen.in_queue)
    lines = [*_checks(seen.in_queue.workload)]
    if seen.in_queue.group:
        lines.append(
            f"the pod group {seen.in_queue.group} is Kueue's: its pods are admitted together, and placed singly"
        )
    if our_quota:
        lines.append(f"quota {our_quota} of this scheduler counts the pod too: it must fit both")
    return Concern("kueue", seen.in_queue.queue, holds, words, tuple(lines))


def why_gated(entry: PodInfo) -> str:
    """Why Kueue keeps its gates on the pod; empty where it has none."""
    seen = entry.seen
    if seen.in_queue is None or not GATES.intersection(seen.gates):
        return ""
    return why_held(seen.in_queue, seen.gates)


def why_held(pod: InQueue, gates: tuple[str, ...]) -> str:
    """Why Kueue keeps its gate on the pod."""
    workload = pod.workload
    if workload is None:
        queue = f"queue {pod.queue}" if pod.queue else "its queue"
        return f"Kueue holds it, and no Workload of it is known: does Kueue run, and is {queue} in this namespace?"
    return f"Kueue holds it because {_because(workload, gates)} (Workload {workload.key}{_queue(workload)})"


def _because(workload: KueueWorkload, gates: tuple[str, ...]) -> str:
    for type_ in ("Finished", "BlockedOnPreemptionGates"):
        if (found := workload.condition(type_)) is not None and found.is_true:
            return _said(found)
    if not workload.is_active:
        deactivated = workload.condition("Evicted") or workload.condition("DeactivationTarget")
        return "its Workload is deactivated" + (f": {_said(deactivated)}" if deactivated is not None else "")
    quota, admitted = workload.condition("QuotaReserved"), workload.condition("Admitted")
    evicted = workload.condition("Evicted")
    before = f"it was evicted: {_said(evicted)}; " if evicted is not None and evicted.is_true else ""
    if quota is None:
        return f"{before}its Workload has not been judged yet"
    if not quota.is_true:
        return before + _said(quota)
    if admitted is None or not admitted.is_true:
        waiting = [check for check in workload.checks if check.state != "Ready"]
        if waiting:
            listed = "; ".join(
                f"admission check {check.name} is {check.state}" + (f": {check.message}" if check.message else "")
                for check in waiting
            )
            return before + listed
        return before + (_said(admitted) if admitted is not None else "it has quota and is not admitted yet")
    replaced = workload.condition("WaitingForReplacementPods")
    if replaced is not None and replaced.is_true:
        return _said(replaced)
    if TOPOLOGY_GATE in gates:
        return "it is admitted, and the pod's place in the topology is not assigned yet"
    return "it is admitted, and the gate is not removed yet"


def _admitted(pod: InQueue) -> str:
    workload = pod.workload
    if workload is None:
        return "Kueue does not hold it, and no Workload of it is known"
    flavors = ", ".join(f"{resource}: {flavor}" for resource, flavor in workload.flavors)
    given = f", flavors {flavors}" if flavors else ""
    by = f" by {workload.cluster_queue}" if workload.cluster_queue else ""
    late = workload.condition("PodsReady")
    ready = f"; {_said(late)}" if late is not None and not late.is_true and late.message else ""
    if workload.is_so("Admitted"):
        return f"Kueue admitted it{by}{given} (Workload {workload.key}); where it runs is decided here{ready}"
    return f"Kueue does not hold the pod, but: {_because(workload, ())} (Workload {workload.key})"


def _checks(workload: KueueWorkload | None) -> tuple[str, ...]:
    checks = workload.checks if workload is not None else ()
    return tuple(
        f"admission check {check.name}: {check.state}" + (f", {check.message}" if check.message else "")
        for check in checks
    )


def _queue(workload: KueueWorkload) -> str:
    return f", queue {workload.queue}" if workload.queue else ""


def _said(condition: KueueCondition) -> str:
    reason = f"{condition.type}={'True' if condition.is_true else 'False'}, {condition.reason}"
    return f"{condition.message} ({reason})" if condition.message else f"of {reason}"
