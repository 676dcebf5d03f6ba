"""Who holds a ResourceClaim: pods that ended and PodGroups that are gone hold none, and a claim that nobody holds any
more is given back.

An allocation is removed with the last holder, not merely where there is none: a scheduler may write it before the
first. A claim that was made for a pod ends with it, at once where the pod stays as finished. Only a claim with the
finalizer was allocated by a scheduler.

Source: KEP-4381, "Resource claim controller"; Kubernetes documentation, "Dynamic Resource Allocation".
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant_local.controllers.claims.from_templates import reference
from cotenant_local.controllers.runtime.actions import RESOURCE_CLAIMS, Delete, Draft, Patch, Plan
from cotenant_local.controllers.views.claims import ConsumerView, ResourceClaimView
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.views.workloads import PodGroupView

FINALIZER = "resource.kubernetes.io/delete-protection"


def reconcile(
    claim: ResourceClaimView,
    pod_of: Callable[[str], PodObjectView | None],
    *,
    is_given_back: bool,
    group_of: Callable[[str], PodGroupView | None] = lambda name: None,
) -> Plan:
    """`pod_of`, `group_of`: a pod or a PodGroup of the namespace by name. `is_given_back`: its allocation was removed
    by the last plan.
    """
    draft, meta, status = Draft(), claim.metadata, claim.status

    def holds(one: ConsumerView) -> bool:
        if one.is_group:
            group = group_of(one.name)
            return group is not None and group.metadata.uid == one.uid
        return not one.is_pod or _holds(pod_of(one.name), one.uid)

    left = [one for one in status.reserved_for if holds(one)]
    is_ours = FINALIZER in meta.finalizers
    if len(left) < len(status.reserved_for):
        body = {"reservedFor": [reference(one) for one in left] or None}
        if not left and is_ours:
            body["allocation"] = None
        _patch(draft, claim, {"status": body}, "status", "lets go of those that ended")
    elif is_ours and not left and (meta.terminating or is_given_back):
        if status.allocation is not None and meta.terminating:
            _patch(draft, claim, {"status": {"allocation": None}}, "status", "gives its devices back")
        elif status.allocation is None:
            rest = [one for one in meta.finalizers if one != FINALIZER]
            _patch(draft, claim, {"metadata": {"finalizers": rest or None}}, "", "may be deleted")
    owner = meta.controller
    if not left and not meta.terminating and owner is not None and (owner.kind, owner.api_version) == ("Pod", "v1"):
        pod = pod_of(owner.name)
        if pod is not None and not _holds(pod, owner.uid):
            draft.add(Delete(RESOURCE_CLAIMS, meta.namespace, meta.name, meta.uid), "its pod has ended")
    return draft.plan("it is held" if left else "nothing to do")


def is_done(pod: PodObjectView) -> bool:
    """Whether none of a pod's containers runs or will."""
    return pod.finished or (pod.metadata.terminating and not pod.spec.node_name)


def _holds(pod: PodObjectView | None, uid: str) -> bool:
    return pod is not None and pod.metadata.uid == uid and not is_done(pod)


def _patch(draft: Draft, claim: ResourceClaimView, body: dict[str, object], subresource: str, why: str) -> None:
    meta = claim.metadata
    draft.add(Patch(RESOURCE_CLAIMS, meta.namespace, meta.name, body, subresource, meta.resource_version), why)
