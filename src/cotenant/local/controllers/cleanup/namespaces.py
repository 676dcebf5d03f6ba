"""A namespace that is being deleted: first its content goes, then it.

Problem: pods end gracefully, finalizers hold objects back, and the namespace must stay until the last is gone. Choice: a pure function of how
much is left of each resource; looked at again as long as something is. Source: Kubernetes documentation "Namespaces" (deletion).
"""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.local.controllers.runtime.actions import Draft, Empty, Finalize, Plan, ResourceName
from cotenant.local.controllers.views.cluster import Namespace

AGAIN_S = 0.5


def reconcile(namespace: Namespace, left: Mapping[ResourceName, tuple[int, int]], now_s: float) -> Plan:
    """`left`: of each resource, how many objects there are and how many of them are not being deleted yet."""
    draft = Draft()
    if not namespace.metadata.terminating:
        return draft.plan("it is active")
    if not namespace.spec.finalizers:
        return draft.plan("it is going")
    present = {resource: count for resource, (count, _) in left.items() if count}
    for resource, (_, fresh) in left.items():
        if fresh:
            draft.add(Empty(resource, namespace.metadata.name), f"delete {fresh} {resource[1]}")
    if present:
        draft.again(now_s + AGAIN_S)
        return draft.plan("waits for " + ", ".join(f"{n} {r[1]}" for r, n in present.items()))
    draft.add(Finalize(namespace.metadata.name), "its content is gone")
    return draft.plan()
