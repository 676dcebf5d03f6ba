"""Deletion of namespaces: first the content, then the namespace.

Pods terminate gracefully, finalizers hold objects back, and the namespace must stay until the last object is deleted. A
pure function of how many objects of each resource are left, repeated while there are any.
Source: Kubernetes documentation "Namespaces" (deletion).
"""

from __future__ import annotations

from collections.abc import Mapping

from cotenant_local.controllers.runtime.actions import DeleteAll, Draft, FinalizeNamespace, Plan, ResourceName
from cotenant_local.controllers.views.cluster import NamespaceView

RETRY_S = 0.5


def reconcile(namespace: NamespaceView, left: Mapping[ResourceName, tuple[int, int]], now_s: float) -> Plan:
    """`left`: for each resource, how many objects exist and how many of them are not being deleted yet."""
    draft = Draft()
    if not namespace.metadata.terminating:
        return draft.plan("the namespace is active")
    if not namespace.spec.finalizers:
        return draft.plan("its finalizers are removed")
    present = {resource: count for resource, (count, _) in left.items() if count}
    for resource, (_, not_deleted) in left.items():
        if not_deleted:
            draft.add(DeleteAll(resource, namespace.metadata.name), f"delete {not_deleted} {resource[1]}")
    if present:
        draft.requeue_at(now_s + RETRY_S)
        return draft.plan("waiting for " + ", ".join(f"{n} {r[1]}" for r, n in present.items()))
    draft.add(FinalizeNamespace(namespace.metadata.name), "no content is left")
    return draft.plan()
