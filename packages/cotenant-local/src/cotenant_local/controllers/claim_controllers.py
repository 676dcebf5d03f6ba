"""Controllers of ResourceClaims: map events to keys and gather the inputs of each rule in `claims/`."""

from __future__ import annotations

import msgspec

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.contract import RequestTarget
from cotenant_local.controllers.claims import from_templates, holders
from cotenant_local.controllers.runtime.actions import CLAIM_TEMPLATES, POD_GROUPS, PODS, RESOURCE_CLAIMS, Patch, Plan
from cotenant_local.controllers.runtime.cache import CachedObjects, Key
from cotenant_local.controllers.runtime.controller import GONE, ResourceController
from cotenant_local.controllers.runtime.runner import Enqueue
from cotenant_local.controllers.views.claims import ClaimTemplate, ResourceClaimView
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.views.workloads import PodGroupView

_pod = msgspec.json.Decoder(PodObjectView).decode


class PodClaimController(ResourceController):
    """Makes the claims of pods from templates."""

    resource, name = PODS, "resource-claim-controller"

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to pods with claims, to claims, and to templates that pods wait for."""
        self._claims: CachedObjects[ResourceClaimView] = self._informers.store(RESOURCE_CLAIMS)
        self._templates: CachedObjects[ClaimTemplate] = self._informers.store(CLAIM_TEMPLATES)
        self._groups: CachedObjects[PodGroupView] = self._informers.store(POD_GROUPS)
        super().attach(enqueue)
        self._informers.of(POD_GROUPS).subscribe(self._group)
        self._informers.of(RESOURCE_CLAIMS).subscribe(self._claim)
        self._informers.of(CLAIM_TEMPLATES).subscribe(self._template)

    def all_keys(self) -> list[Key]:
        """Only pods with claims."""
        return [pod.metadata.key for pod in self._own.store if pod.spec.resource_claims]

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `from_templates.of_pod`."""
        pod: PodObjectView | None = self._own.store.get(*key)
        if pod is None:
            return GONE
        namespace = key[0]
        group = (pod.spec.scheduling_group or {}).get("podGroupName")
        return from_templates.of_pod(
            pod,
            self._claims.by("owner", pod.metadata.uid),
            lambda name: self._claims.get(namespace, name),
            lambda name: self._templates.get(namespace, name),
            self._groups.get(namespace, group) if group else None,
        )

    def _group(self, old: PodGroupView | None, new: PodGroupView | None) -> None:
        if new is None or (old is not None and not new.spec.resource_claims):
            return
        for pod in self._own.store.by("namespace", new.metadata.namespace):
            its = (pod.spec.scheduling_group or {}).get("podGroupName")
            if pod.spec.resource_claims and its == new.metadata.name:
                self._enqueue(pod.metadata.key)

    def _changed(self, old: object, new: object) -> None:
        if isinstance(new, PodObjectView) and new.spec.resource_claims:
            self._enqueue(new.metadata.key)

    def _claim(self, old: ResourceClaimView | None, new: ResourceClaimView | None) -> None:
        seen = new or old
        if seen is None:
            return
        owner = seen.metadata.controller
        if owner is not None and owner.kind == "Pod":
            self._enqueue((seen.metadata.namespace, owner.name))

    def _template(self, old: ClaimTemplate | None, new: ClaimTemplate | None) -> None:
        if old is not None or new is None:
            return
        for pod in self._own.store.by("namespace", new.metadata.namespace):
            if any(one.resource_claim_template_name == new.metadata.name for one in pod.spec.resource_claims):
                self._enqueue(pod.metadata.key)


class GroupClaims(ResourceController):
    """Makes the claims that the pods of PodGroups share, from templates."""

    resource, name = POD_GROUPS, "pod-group-claim-controller"

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to PodGroups, to their claims, and to templates that they wait for."""
        self._claims: CachedObjects[ResourceClaimView] = self._informers.store(RESOURCE_CLAIMS)
        self._templates: CachedObjects[ClaimTemplate] = self._informers.store(CLAIM_TEMPLATES)
        super().attach(enqueue)
        self._informers.of(RESOURCE_CLAIMS).subscribe(self._claim)
        self._informers.of(CLAIM_TEMPLATES).subscribe(self._template)

    def all_keys(self) -> list[Key]:
        """Only groups with claims."""
        return [group.metadata.key for group in self._own.store if group.spec.resource_claims]

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `from_templates.of_group`."""
        group: PodGroupView | None = self._own.store.get(*key)
        if group is None:
            return GONE
        return from_templates.of_group(
            group,
            self._claims.by("owner", group.metadata.uid),
            lambda name: self._claims.get(key[0], name),
            lambda name: self._templates.get(key[0], name),
        )

    def _changed(self, old: object, new: object) -> None:
        if isinstance(new, PodGroupView) and new.spec.resource_claims:
            self._enqueue(new.metadata.key)

    def _claim(self, old: ResourceClaimView | None, new: ResourceClaimView | None) -> None:
        seen = new or old
        owner = seen.metadata.controller if seen is not None else None
        if seen is not None and owner is not None and owner.kind == "PodGroup":
            self._enqueue((seen.metadata.namespace, owner.name))

    def _template(self, old: ClaimTemplate | None, new: ClaimTemplate | None) -> None:
        if old is not None or new is None:
            return
        for group in self._own.store.by("namespace", new.metadata.namespace):
            if any(one.resource_claim_template_name == new.metadata.name for one in group.spec.resource_claims):
                self._enqueue(group.metadata.key)


class ResourceClaims(ResourceController):
    """Takes claims back from pods that ended."""

    resource, name = RESOURCE_CLAIMS, "resource-claim-release-controller"

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to claims, and to pods that end."""
        self._pods: CachedObjects[PodObjectView] = self._informers.store(PODS)
        self._groups: CachedObjects[PodGroupView] = self._informers.store(POD_GROUPS)
        self._given_back: dict[str, None] = {}  # UIDs of claims that lose their finalizer next
        super().attach(enqueue)
        self._informers.of(PODS).subscribe(self._pod_changed)
        self._informers.of(POD_GROUPS).subscribe(self._group_changed)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `holders.reconcile`."""
        claim: ResourceClaimView | None = self._own.store.get(*key)
        if claim is None:
            return GONE
        pods: dict[str, PodObjectView | None] = {}
        owner = claim.metadata.controller
        names = {one.name for one in claim.status.reserved_for if one.is_pod}
        for name in names | ({owner.name} if owner is not None else set()):
            pods[name] = await self._pod_now(key[0], name)
        plan = holders.reconcile(
            claim,
            pods.get,
            is_given_back=claim.metadata.uid in self._given_back,
            group_of=lambda name: self._groups.get(key[0], name),
        )
        for action in plan.actions:
            if not isinstance(action, Patch):
                continue
            if action.body.get("status", {}).get("allocation", claim) is None:
                self._given_back[claim.metadata.uid] = None
            elif "metadata" in action.body:
                self._given_back.pop(claim.metadata.uid, None)
        return plan

    async def _pod_now(self, namespace: str, name: str) -> PodObjectView | None:
        """A pod from the cache, or from the server: the cache may not have heard yet of one that a scheduler has."""
        found = self._pods.get(namespace, name)
        if found is not None:
            return found
        target = self._informers.api.target(*PODS)
        try:
            return _pod(await self._informers.api.get(RequestTarget(target.resource, namespace, name)))
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    def _group_changed(self, old: PodGroupView | None, new: PodGroupView | None) -> None:
        if old is None or new is not None:
            return
        for claim in self._own.store.by("namespace", old.metadata.namespace):
            if any(one.uid == old.metadata.uid for one in claim.status.reserved_for):
                self._enqueue(claim.metadata.key)

    def _pod_changed(self, old: PodObjectView | None, new: PodObjectView | None) -> None:
        if old is None or (new is not None and holders.is_done(new) == holders.is_done(old)):
            return
        for name in from_templates.claim_names(old):
            self._enqueue((old.metadata.namespace, name))
        for claim in self._own.store.by("owner", old.metadata.uid):
            self._enqueue(claim.metadata.key)
