"""The controller of ResourceQuotas: writes what is used into their status.

Everything that a quota names is counted on the server, by the code that admits new objects. Pods and claims bring a
quota up to date at once; other kinds are counted again every ten seconds.
Source: Kubernetes documentation "Resource Quotas".
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.contract import ResourceScope
from cotenant_local.apiserver.kinds.quota_usage import count_name, shown
from cotenant_local.controllers.runtime.actions import CLAIMS, PODS, QUOTAS, Patch, Plan
from cotenant_local.controllers.runtime.cache import Key, NamedObject
from cotenant_local.controllers.runtime.controller import GONE, ResourceController
from cotenant_local.controllers.runtime.runner import Enqueue
from cotenant_local.controllers.views.cluster import ResourceQuotaView

AGAIN_S = 10.0
_CORE = ("pods", "services", "configmaps", "secrets", "persistentvolumeclaims", "resourcequotas")


class QuotaController(ResourceController):
    """ResourceQuota."""

    resource, name = QUOTAS, "resourcequota-controller"

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to quotas, pods and claims."""
        super().attach(enqueue)
        for resource in (PODS, CLAIMS):
            self._informers.of(resource).subscribe(self._counted)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """Count and write what differs."""
        quota: ResourceQuotaView | None = self._own.store.get(*key)
        if quota is None or quota.metadata.terminating:
            return GONE
        sums = self._informers.api.context.quota_sums
        hard = quota.spec.hard
        as_stored: Manifest = {
            "metadata": {"namespace": key[0]},
            "spec": {"scopes": list(quota.spec.scopes), "scopeSelector": quota.spec.scope_selector},
        }
        counts = [sums.used_of(as_stored, group, plural) for group, plural in self._kinds(hard)]
        used = {name: amount for of_kind in counts for name, amount in of_kind.items() if name in hard}
        known = {name for name in hard if name in used or not name.startswith("count/") or self._is_served(name)}
        status = {"hard": dict(hard), "used": {name: shown(name, used.get(name, 0)) for name in sorted(known)}}
        if quota.status.hard == status["hard"] and quota.status.used == status["used"]:
            return Plan(reason="up to date", requeue_at_s=now_s + AGAIN_S)
        gone = {name: None for name in quota.status.used if name not in status["used"]}
        gone_hard = {name: None for name in quota.status.hard if name not in hard}
        body = {"status": {"hard": {**gone_hard, **status["hard"]}, "used": {**gone, **status["used"]}}}
        return Plan((Patch(QUOTAS, *key, body, "status"),), "counted", now_s + AGAIN_S)

    def _kinds(self, hard: dict[str, str]) -> list[tuple[str, str]]:
        """The kinds that a quota counts: the few that have names of their own, and those that it counts by number."""
        counted = [
            resource.storage
            for resource in self._informers.api.registry.resources()
            if resource.scope is ResourceScope.NAMESPACED and count_name(*resource.storage) in hard
        ]
        return list(dict.fromkeys([*(("", plural) for plural in _CORE), *counted]))

    def _is_served(self, name: str) -> bool:
        return any(count_name(*one.storage) == name for one in self._informers.api.registry.resources())

    def _counted(self, old: NamedObject | None, new: NamedObject | None) -> None:
        seen = new or old
        if seen is not None:
            for quota in self._own.store.by("namespace", seen.metadata.namespace):
                self._enqueue(quota.metadata.key)
