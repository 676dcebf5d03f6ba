"""What keeps a pod with claims from starting on its node: a claim that is missing, not allocated, not held for it, or
whose devices cannot be prepared.

An annotation of the node says that preparing fails, and why. Any driver's devices can be prepared on a simulated node.
"""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.model.cluster.annotations import FAIL_PREPARE
from cotenant_local.controllers.claims.from_templates import claim_names
from cotenant_local.controllers.runtime.cache import Key
from cotenant_local.controllers.views.claims import ResourceClaimView
from cotenant_local.controllers.views.pods import PodObjectView


class Preparations:
    """The claims of a cluster, as its kubelets know them."""

    def __init__(self) -> None:
        self._claims: dict[Key, ResourceClaimView] = {}

    def observe(self, old: ResourceClaimView | None, new: ResourceClaimView | None) -> None:
        """Record a claim."""
        if new is not None:
            self._claims[new.metadata.key] = new
        elif old is not None:
            self._claims.pop(old.metadata.key, None)

    def problem(self, pod: PodObjectView, annotations: Mapping[str, str]) -> str:
        """Why a pod cannot start on a node with these annotations; empty if it can."""
        if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
            return ""
        names = claim_names(pod)
        if len(names) < len(pod.spec.resource_claims):
            waits = {status.name for status in pod.status.resource_claim_statuses}
            missing = [
                claim.name
                for claim in pod.spec.resource_claims
                if not claim.resource_claim_name and claim.name not in waits
            ]
            if missing:
                return f"the ResourceClaim for {missing[0]} has not been made yet"
        for name in names:
            if why := self._of_claim(self._claims.get((pod.metadata.namespace, name)), name, pod):
                return why
        failure = annotations.get(FAIL_PREPARE, "")
        return f"NodePrepareResources failed for ResourceClaim {names[0]}: {failure}" if failure and names else ""

    def _of_claim(self, claim: ResourceClaimView | None, name: str, pod: PodObjectView) -> str:
        if claim is None:
            return f"ResourceClaim {name} does not exist"
        if claim.status.allocation is None:
            return f"ResourceClaim {name} is not allocated"
        if all(holder.uid != pod.metadata.uid for holder in claim.status.reserved_for):
            return f"ResourceClaim {name} is not reserved for the pod"
        return ""
