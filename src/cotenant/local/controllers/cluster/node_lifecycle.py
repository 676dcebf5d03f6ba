"""Node life cycle: a node that falls silent is marked, and what runs there is sent elsewhere.

Problem: a dead node cannot report that it is dead. Choice: the node is watched through its Lease; when neither the Lease was renewed nor the node's Ready
condition was touched for the grace period, the conditions become Unknown, taints follow from the Ready condition, and pods leave as their
tolerations say. The grace is the larger of 40 s and the Lease's own `leaseDurationSeconds`, so that a large simulated cluster may renew
less often and still not be taken for dead. When more than half of the nodes are silent at once, no pod is evicted: then it is
more likely that this side is cut off (upstream's full-disruption rule, here for the cluster as one zone).

Source: Kubernetes documentation "Nodes" (heartbeats, node controller), "Taints and Tolerations" (taint-based evictions, tolerationSeconds).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from cotenant.local.apiserver.contract import Manifest
from cotenant.local.controllers.runtime.actions import NODES, PODS, Delete, Draft, Note, Patch, Plan
from cotenant.local.controllers.views.core import Condition, Lease, NodeView, Pod, TaintView, seconds, stamp
from cotenant.local.controllers.workloads.pods import conditions_with
from cotenant.local.controllers.workloads.scheduling import covers

GRACE_S = 40.0
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_PRESSURE = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_OURS = {NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_PRESSURE.values()}
_KUBELET = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(frozen=True, slots=True)
class Health:
    """When a node was last heard, and for how long its silence is accepted."""

    heard_s: float
    grace_s: float

    @property
    def silent_at_s(self) -> float:
        """From when on it counts as silent."""
        return self.heard_s + self.grace_s


def health(node: NodeView, lease: Lease | None, since_s: float = 0.0) -> Health:
    """From its Lease, its Ready condition, its creation. `since_s`: when we began to listen, as silence before that proves nothing."""
    ready = node.condition("Ready")
    heard = max(node.metadata.created_s, since_s)
    if ready is not None and ready.status != "Unknown":
        heard = max(heard, seconds(ready.last_heartbeat_time) or 0.0)
    grace = GRACE_S
    if lease is not None:
        heard = max(heard, seconds(lease.spec.renew_time) or 0.0)
        grace = max(grace, float(lease.spec.lease_duration_seconds or 0))
    return Health(heard, grace)


def reconcile_node(node: NodeView, lease: Lease | None, now_s: float, since_s: float = 0.0) -> Plan:
    """Mark a silent node's conditions Unknown, and keep the taints that its conditions ask for."""
    draft = Draft()
    seen = health(node, lease, since_s)
    conditions = node.status.conditions
    if now_s >= seen.silent_at_s:
        conditions = _unknown(draft, node, conditions, now_s)
    else:
        draft.again(seen.silent_at_s)
    _taint(draft, node, conditions, now_s)
    return draft.plan("heard in time")


def _unknown(draft: Draft, node: NodeView, conditions: tuple[Condition, ...], now_s: float) -> tuple[Condition, ...]:
    if all((c := node.condition(kind)) is not None and c.status == "Unknown" for kind in _KUBELET):
        return conditions
    was_ready = (c := node.condition("Ready")) is not None and c.status == "True"
    out: list[Manifest] = []
    views = conditions
    for kind in _KUBELET:
        never = node.condition(kind) is None
        reason = "NodeStatusNeverUpdated" if never else "NodeStatusUnknown"
        message = "Kubelet never posted node status." if never else "Kubelet stopped posting node status."
        out = conditions_with(views, kind, "Unknown", reason, message, stamp(now_s))
        views = msgspec.convert(out, tuple[Condition, ...])
    for condition in out:
        condition.pop("lastUpdateTime", None)
    body: Manifest = {"status": {"conditions": out}}
    version = node.metadata.resource_version  # the kubelet may have written since
    draft.add(Patch(NODES, "", node.metadata.name, body, "status", version), "silent for longer than its grace")
    if was_ready:
        text = f"Node {node.metadata.name} status is now: NodeNotReady"
        draft.add(Note(node, "Node", "v1", "Normal", "NodeNotReady", text))
    return views


def _taint(draft: Draft, node: NodeView, conditions: tuple[Condition, ...], now_s: float) -> None:
    ready = next((c for c in conditions if c.type == "Ready"), None)
    wanted: list[tuple[str, str]] = []
    if ready is None or ready.status == "False":
        wanted += [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]
    elif ready.status == "Unknown":
        wanted += [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    if node.spec.unschedulable:
        wanted.append((UNSCHEDULABLE, "NoSchedule"))
    wanted += [(_PRESSURE[c.type], "NoSchedule") for c in conditions if c.type in _PRESSURE and c.status == "True"]
    kept = [t for t in node.spec.taints if t.key not in _OURS or (t.key, t.effect) in wanted]
    have = {(t.key, t.effect) for t in kept}
    taints: list[Manifest] = [_written(t) for t in kept]
    for key, effect in wanted:
        if (key, effect) not in have:
            taints.append({"key": key, "effect": effect, "timeAdded": stamp(now_s)})
    if taints == [_written(t) for t in node.spec.taints]:
        return
    meta: Manifest = {"resourceVersion": node.metadata.resource_version}
    if any(isinstance(a, Patch) for a in draft.actions):
        meta = {}  # this plan has just changed the node; taints belong to this controller alone but for the user's
    body: Manifest = {"metadata": meta, "spec": {"taints": taints or None}}
    draft.add(
        Patch(NODES, "", node.metadata.name, body), "taints: " + (", ".join(f"{k}:{e}" for k, e in wanted) or "none")
    )


def _written(taint: TaintView) -> Manifest:
    out: Manifest = {"key": taint.key, "effect": taint.effect}
    if taint.value:
        out["value"] = taint.value
    if taint.time_added is not None:
        out["timeAdded"] = stamp(taint.time_added.timestamp())
    return out


def is_full_disruption(silent: int, total: int) -> bool:
    """Whether so many nodes are silent (more than half, and more than two) that the fault is probably on this side and evicting would do harm."""
    return silent > 2 and silent > 0.5 * total


def leaves_at_s(pod: Pod, taints: Iterable[TaintView], now_s: float) -> float | None:
    """When the pod must leave because of NoExecute taints: the earliest end of its tolerations; None = never."""
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


def evict(node: NodeView, pods: Iterable[Pod], now_s: float) -> Plan:
    """Delete the pods of a node whose tolerations of its NoExecute taints have ended."""
    draft = Draft()
    taints = [t for t in node.spec.taints if t.effect == "NoExecute"]
    if not taints:
        return draft.plan("no NoExecute taint")
    for pod in pods:
        if pod.metadata.terminating or pod.finished:
            continue
        due = leaves_at_s(pod, taints, now_s)
        if due is None:
            continue
        if due > now_s:
            draft.again(due)
            continue
        _mark(draft, pod, now_s)
        delete = Delete(PODS, pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
        draft.add(delete, f"evict {pod.metadata.name}: {taints[0].key}")
        text = f"Marking for deletion Pod {pod.metadata.namespace}/{pod.metadata.name}"
        draft.add(Note(pod, "Pod", "v1", "Normal", "TaintManagerEviction", text))
    return draft.plan("every pod tolerates the taints")


def unready(node: NodeView, pods: Iterable[Pod], now_s: float) -> Plan:
    """Pods of an unreachable node are not ready any more: services and budgets must not count on them."""
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


def _mark(draft: Draft, pod: Pod, now_s: float) -> None:
    message = "Taint manager: deleting due to NoExecute taint"
    conditions = conditions_with(
        pod.status.conditions, "DisruptionTarget", "True", "DeletionByTaintManager", message, stamp(now_s)
    )
    for condition in conditions:
        condition.pop("lastUpdateTime", None)
    body: Manifest = {"status": {"conditions": conditions}}
    draft.add(Patch(PODS, pod.metadata.namespace, pod.metadata.name, body, "status"))
