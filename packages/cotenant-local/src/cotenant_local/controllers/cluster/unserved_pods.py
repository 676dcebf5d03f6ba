"""Pods whose scheduler is not running: a Warning event that says so.

A pod whose `spec.schedulerName` no scheduler serves stays Pending without condition and without event. A scheduler
leaves a mark on every pod that it looks at: a node, a nomination or the condition PodScheduled. A name of which no pod
has such a mark, and which the cluster's own scheduler does not serve, has no scheduler: after `GRACE_S` its pods get
the event that a scheduler would write.
Limits: a scheduler of the user's that has not looked at any pod within `GRACE_S` is taken to be away until it does; one
that is away although it served the name before is not noticed.
Source: kube-scheduler's event FailedScheduling.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant_local.controllers.runtime.actions import Draft, EmitEvent, Plan
from cotenant_local.controllers.views.pods import PodObjectView

GRACE_S = 5.0
REASON = "FailedScheduling"


def has_mark(pod: PodObjectView) -> bool:
    """Whether a scheduler has looked at the pod. The condition of a pod with scheduling gates is the API server's."""
    scheduled = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
    looked_at = scheduled is not None and scheduled.reason != "SchedulingGated"
    return bool(pod.spec.node_name or pod.status.nominated_node_name) or looked_at


def may_be_unserved(pod: PodObjectView, served: Sequence[str]) -> bool:
    """Whether the pod waits for a scheduler other than the `served` ones, and none has looked at it."""
    is_over = pod.finished or pod.metadata.terminating or bool(pod.spec.scheduling_gates)
    return not is_over and pod.spec.scheduler_name not in served and not has_mark(pod)


def reconcile(pod: PodObjectView, served: Sequence[str], has_scheduler: bool, now_s: float) -> Plan:
    """Emit the event once the grace period is over. `has_scheduler`: a scheduler has looked at another pod with the
    same name of a scheduler.
    """
    draft = Draft()
    if has_scheduler or not may_be_unserved(pod, served):
        return draft.plan("a scheduler has it")
    due_s = pod.metadata.created_s + GRACE_S
    if now_s < due_s:
        draft.requeue_at(due_s)
        return draft.plan("a scheduler may still look at it")
    names = " and ".join(served)
    text = (
        f'no scheduler serves this pod: its spec.schedulerName is "{pod.spec.scheduler_name}", and this cluster\'s '
        f"scheduler serves {names}. "
        "Name one of these, start a scheduler of that name, or give the name to `cotenant up --scheduler-name`."
    )
    draft.add(EmitEvent(pod, "Pod", "v1", "Warning", REASON, text), "no scheduler serves it")
    return draft.plan()
