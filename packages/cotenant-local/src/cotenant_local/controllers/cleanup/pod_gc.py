"""Pod garbage collection: pods of deleted nodes, and finished pods beyond a limit.

A pod bound to a deleted node has no kubelet to terminate it, and finished pods accumulate. A pure function of the pods
in question. A node must have been missing for a while, because a pod may be observed before its node.
Source: Kubernetes documentation "Pod Lifecycle" (garbage collection of Pods).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.runtime.actions import PODS, Delete, Draft, Patch, Plan
from cotenant_local.controllers.views.core import stamp
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.workloads.pods import conditions_with

QUARANTINE_S = 5.0  # how long a node must be missing; upstream: 40 s, followed by a live lookup
MAX_FINISHED = 12_500


def orphaned(
    pod: PodObjectView, node_exists: Callable[[str], bool], missing_since_s: float | None, now_s: float
) -> Plan:
    """Delete a pod whose node does not exist, after setting its phase to Failed so that its owner counts it."""
    draft = Draft()
    if pod.metadata.terminating and not pod.spec.node_name:
        draft.add(_force(pod), "being deleted and never assigned to a node")
        return draft.plan()
    if not pod.spec.node_name or node_exists(pod.spec.node_name) or missing_since_s is None:
        return draft.plan("its node exists")
    due = missing_since_s + QUARANTINE_S
    if now_s < due:
        draft.requeue_at(due)
        return draft.plan("its node may not have been observed yet")
    if not pod.finished:
        message = "PodGC: node no longer exists"
        conditions = conditions_with(
            pod.status.conditions, "DisruptionTarget", "True", "DeletionByPodGC", message, stamp(now_s)
        )
        for condition in conditions:
            condition.pop("lastUpdateTime", None)
        body: Manifest = {"status": {"phase": "Failed", "conditions": conditions}}
        draft.add(Patch(PODS, pod.metadata.namespace, pod.metadata.name, body, "status"))
    draft.add(_force(pod), f"node {pod.spec.node_name} does not exist")
    return draft.plan()


def surplus(pods: Iterable[PodObjectView], limit: int = MAX_FINISHED) -> Plan:
    """Delete the oldest finished pods beyond `limit`."""
    draft = Draft()
    done = [p for p in pods if p.finished and not p.metadata.terminating]
    if len(done) > limit:
        done.sort(key=lambda p: (p.metadata.created_s, p.metadata.name))
        for pod in done[: len(done) - limit]:
            draft.add(_force(pod), f"more than {limit} finished pods")
    return draft.plan(f"{len(done)} finished pods")


def _force(pod: PodObjectView) -> Delete:
    return Delete(PODS, pod.metadata.namespace, pod.metadata.name, pod.metadata.uid, grace_s=0)
