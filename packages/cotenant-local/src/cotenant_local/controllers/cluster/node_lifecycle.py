"""Node life cycle: marks nodes without a heartbeat as unreachable, and evicts their pods.

A dead node sends no message. The heartbeat is the node's Lease; when neither the Lease was renewed nor the node's Ready
condition was updated for the grace period, the conditions become Unknown, taints follow from the Ready condition, and
pods are evicted as their tolerations say. The grace period is the larger of the configured one (40 s) and the Lease's
own `leaseDurationSeconds`, so that a large simulated cluster may renew less often. When more than half of the nodes are
unreachable at once no pod is evicted: the fault is then more likely on the control plane's side (upstream's
full-disruption rule, here with the cluster as one zone).
Source: Kubernetes documentation "Nodes" (heartbeats, node controller), "Taints and Tolerations" (taint-based evictions,
tolerationSeconds).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.runtime.actions import NODES, PODS, Delete, Draft, EmitEvent, Patch, Plan
from cotenant_local.controllers.views.core import ConditionView, seconds, stamp
from cotenant_local.controllers.views.nodes import LeaseView, NodeObjectView, TaintView
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.workloads.pods import conditions_with
from cotenant_local.controllers.workloads.scheduling import covers

GRACE_S = 40.0
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_TAINT_OF_CONDITION = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_MANAGED_TAINTS = {NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_TAINT_OF_CONDITION.values()}
_KUBELET_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """A node's last heartbeat, and its grace period."""

    heartbeat_s: float
    grace_s: float

    @property
    def expires_at_s(self) -> float:
        """From when on the node counts as unreachable, Unix time."""
        return self.heartbeat_s + self.grace_s


def health(node: NodeObjectView, lease: LeaseView | None, since_s: float = 0.0, grace_s: float = GRACE_S) -> NodeHealth:
    """The last heartbeat from Lease, Ready condition and creation time. `since_s`: start of the controller; a
    heartbeat missed before that is ignored.
    """
    ready = node.condition("Ready")
    heartbeat_s = max(node.metadata.created_s, since_s)
    if ready is not None and ready.status != "Unknown":
        heartbeat_s = max(heartbeat_s, seconds(ready.last_heartbeat_time) or 0.0)
    grace = grace_s
    if lease is not None:
        heartbeat_s = max(heartbeat_s, seconds(lease.spec.renew_time) or 0.0)
        grace = max(grace, float(lease.spec.lease_duration_seconds or 0))
    return NodeHealth(heartbeat_s, grace)


def reconcile_node(
    node: NodeObjectView, lease: LeaseView | None, now_s: float, since_s: float = 0.0, grace_s: float = GRACE_S
) -> Plan:
    """Set an unreachable node's conditions to Unknown, and keep the taints that its conditions require."""
    draft = Draft()
    health_now = health(node, lease, since_s, grace_s)
    conditions = node.status.conditions
    if now_s >= health_now.expires_at_s:
        conditions = _set_unknown(draft, node, conditions, now_s)
    else:
        draft.requeue_at(health_now.expires_at_s)
    _taint(draft, node, conditions, now_s)
    return draft.plan("heartbeat within the grace period")


def _set_unknown(
    draft: Draft, node: NodeObjectView, conditions: tuple[ConditionView, ...], now_s: float
) -> tuple[ConditionView, ...]:
    if all((c := node.condition(kind)) is not None and c.status == "Unknown" for kind in _KUBELET_CONDITIONS):
        return conditions
    was_ready = (c := node.condition("Ready")) is not None and c.status == "True"
    out: list[Manifest] = []
    views = conditions
    for kind in _KUBELET_CONDITIONS:
        never = node.condition(kind) is None
        reason = "NodeStatusNeverUpdated" if never else "NodeStatusUnknown"
        message = "Kubelet never posted node status." if never else "Kubelet stopped posting node status."
        out = conditions_with(views, kind, "Unknown", reason, message, stamp(now_s))
        views = msgspec.convert(out, tuple[ConditionView, ...])
    for condition in out:
        condition.pop("lastUpdateTime", None)
    body: Manifest = {"status": {"conditions": out}}
    version = node.metadata.resource_version  # the kubelet may have updated it since
    draft.add(Patch(NODES, "", node.metadata.name, body, "status", version), "no heartbeat within the grace period")
    if was_ready:
        text = f"Node {node.metadata.name} status is now: NodeNotReady"
        draft.add(EmitEvent(node, "Node", "v1", "Normal", "NodeNotReady", text))
    return views


def _taint(draft: Draft, node: NodeObjectView, conditions: tuple[ConditionView, ...], now_s: float) -> None:
    ready = next((c for c in conditions if c.type == "Ready"), None)
    desired: list[tuple[str, str]] = []
    if ready is None or ready.status == "False":
        desired += [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]
    elif ready.status == "Unknown":
        desired += [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    if node.spec.unschedulable:
        desired.append((UNSCHEDULABLE, "NoSchedule"))
    desired += [
        (_TAINT_OF_CONDITION[c.type], "NoSchedule")
        for c in conditions
        if c.type in _TAINT_OF_CONDITION and c.status == "True"
    ]
    kept = [t for t in node.spec.taints if t.key not in _MANAGED_TAINTS or (t.key, t.effect) in desired]
    have = {(t.key, t.effect) for t in kept}
    taints: list[Manifest] = [_written(t) for t in kept]
    for key, effect in desired:
        if (key, effect) not in have:
            taints.append({"key": key, "effect": effect, "timeAdded": stamp(now_s)})
    if taints == [_written(t) for t in node.spec.taints]:
        return
    meta: Manifest = {"resourceVersion": node.metadata.resource_version}
    if any(isinstance(a, Patch) for a in draft.actions):
        meta = {}  # this plan changes the node already; only this controller and the user write taints
    body: Manifest = {"metadata": meta, "spec": {"taints": taints or None}}
    draft.add(
        Patch(NODES, "", node.metadata.name, body), "taints: " + (", ".join(f"{k}:{e}" for k, e in desired) or "none")
    )


def _written(taint: TaintView) -> Manifest:
    out: Manifest = {"key": taint.key, "effect": taint.effect}
    if taint.value:
        out["value"] = taint.value
    if taint.time_added is not None:
        out["timeAdded"] = stamp(taint.time_added.timestamp())
    return out


def is_full_disruption(unreachable: int, total: int) -> bool:
    """Whether so many nodes are unreachable (more than half, and more than two) that eviction is suspended."""
    return unreachable > 2 and unreachable > 0.5 * total


def eviction_due_s(pod: PodObjectView, taints: Iterable[TaintView], now_s: float) -> float | None:
    """When NoExecute taints evict the pod: the earliest end of its tolerations, Unix time; None means never."""
    earliest: float | None = None
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        matching = [t for t in pod.spec.tolerations if covers(t, taint)]
        if not matching:
            return now_s
        limits = [t.toleration_seconds for t in matching if t.toleration_seconds is not None]
        if limits:
            since = seconds(taint.time_added)
            end = (now_s if since is None else since) + max(0, min(limits))
            earliest = end if earliest is None else min(earliest, end)
    return earliest


def evict(node: NodeObjectView, pods: Iterable[PodObjectView], now_s: float) -> Plan:
    """Delete the pods of a node that do not, or no longer, tolerate its NoExecute taints."""
    draft = Draft()
    taints = [t for t in node.spec.taints if t.effect == "NoExecute"]
    if not taints:
        return draft.plan("no NoExecute taint")
    for pod in pods:
        if pod.metadata.terminating or pod.finished:
            continue
        due = eviction_due_s(pod, taints, now_s)
        if due is None:
            continue
        if due > now_s:
            draft.requeue_at(due)
            continue
        _set_disruption_target(draft, pod, now_s)
        delete = Delete(PODS, pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
        draft.add(delete, f"evict {pod.metadata.name}: {taints[0].key}")
        text = f"Marking for deletion Pod {pod.metadata.namespace}/{pod.metadata.name}"
        draft.add(EmitEvent(pod, "Pod", "v1", "Normal", "TaintManagerEviction", text))
    return draft.plan("every pod tolerates the taints")


def mark_pods_not_ready(node: NodeObjectView, pods: Iterable[PodObjectView], now_s: float) -> Plan:
    """Set Ready to False on the pods of a node that is not ready, so that services and budgets do not count them."""
    draft = Draft()
    ready = node.condition("Ready")
    if ready is None or ready.status == "True":
        return draft.plan("the node is ready")
    for pod in pods:
        if pod.ready:
            conditions = conditions_with(pod.status.conditions, "Ready", "False", "NodeNotReady", "", stamp(now_s))
            for condition in conditions:
                condition.pop("lastUpdateTime", None)
            meta = pod.metadata
            body: Manifest = {"status": {"conditions": conditions}}
            draft.add(
                Patch(PODS, meta.namespace, meta.name, body, "status", meta.resource_version), f"{meta.name} not ready"
            )
    return draft.plan("no pod is ready")


def _set_disruption_target(draft: Draft, pod: PodObjectView, now_s: float) -> None:
    message = "Taint manager: deleting due to NoExecute taint"
    conditions = conditions_with(
        pod.status.conditions, "DisruptionTarget", "True", "DeletionByTaintManager", message, stamp(now_s)
    )
    for condition in conditions:
        condition.pop("lastUpdateTime", None)
    body: Manifest = {"status": {"conditions": conditions}}
    draft.add(Patch(PODS, pod.metadata.namespace, pod.metadata.name, body, "status"))
