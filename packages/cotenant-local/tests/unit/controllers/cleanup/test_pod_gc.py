"""Deletion of pods of missing nodes, of finished pods, and of the content of terminating namespaces."""

from typing import Any

import msgspec

from cotenant_local.controllers.cleanup import namespaces, pod_gc
from cotenant_local.controllers.runtime.actions import (
    CLAIMS,
    PODS,
    Delete,
    DeleteAll,
    FinalizeNamespace,
    Patch,
)
from cotenant_local.controllers.views.cluster import (
    NamespaceView,
)
from cotenant_local.controllers.views.core import stamp
from cotenant_local.controllers.views.pods import PodObjectView

NOW = 1_800_000_000.0


def pod(name: str, ready: bool = True, owner: str = "rs", **more: Any) -> PodObjectView:
    meta: dict[str, Any] = {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}}
    if owner:
        meta["ownerReferences"] = [{"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}]
    if more.pop("ending", False):
        meta["deletionTimestamp"] = stamp(NOW)
    status = {"phase": more.pop("phase", "Running"), "conditions": [{"type": "Ready", "status": str(ready)}]}
    return msgspec.convert(
        {"metadata": meta, "spec": {"nodeName": more.pop("node", "n")}, "status": status}, PodObjectView
    )


def test_a_pod_of_a_missing_node_is_failed_and_deleted_after_the_quarantine() -> None:
    lost = pod("p")
    assert pod_gc.orphaned(lost, lambda n: True, None, NOW).actions == ()
    waits = pod_gc.orphaned(lost, lambda n: False, NOW, NOW + 1)
    assert (waits.actions, waits.requeue_at_s) == ((), NOW + pod_gc.QUARANTINE_S)
    plan = pod_gc.orphaned(lost, lambda n: False, NOW, NOW + pod_gc.QUARANTINE_S)
    assert [type(a) for a in plan.actions] == [Patch, Delete]
    assert isinstance(plan.actions[1], Delete)
    assert plan.actions[1].grace_s == 0


def test_a_terminating_unassigned_pod_is_deleted_immediately() -> None:
    plan = pod_gc.orphaned(pod("p", node="", ending=True), lambda n: False, None, NOW)
    assert [type(a) for a in plan.actions] == [Delete]


def test_the_oldest_finished_pods_beyond_the_limit_are_deleted() -> None:
    pods = [pod(f"p{i}", phase="Succeeded") for i in range(5)] + [pod("runs")]
    plan = pod_gc.surplus(pods, limit=3)
    assert [a.name for a in plan.actions if isinstance(a, Delete)] == ["p0", "p1"]


def test_a_namespace_is_finalized_when_it_is_empty() -> None:
    meta = {"name": "x", "deletionTimestamp": stamp(NOW)}
    going = msgspec.convert({"metadata": meta, "spec": {"finalizers": ["kubernetes"]}}, NamespaceView)
    full = namespaces.reconcile(going, {PODS: (3, 2), CLAIMS: (1, 0)}, NOW)
    assert full.actions == (DeleteAll(PODS, "x"),)
    assert full.requeue_at_s is not None
    assert namespaces.reconcile(going, {PODS: (0, 0)}, NOW).actions == (FinalizeNamespace("x"),)
    active = msgspec.convert({"metadata": {"name": "x"}, "spec": {"finalizers": ["kubernetes"]}}, NamespaceView)
    assert namespaces.reconcile(active, {PODS: (3, 3)}, NOW).actions == ()
