"""Controllers of EvictionRequests and Evictions: map events to keys and gather the inputs of each rule.

The rules are in `cluster/eviction_requests.py`.
"""

from __future__ import annotations

from cotenant_local.controllers.cluster import eviction_requests
from cotenant_local.controllers.runtime.actions import EVICTION_REQUESTS, EVICTIONS, PODS, Plan
from cotenant_local.controllers.runtime.cache import CachedObjects, Key
from cotenant_local.controllers.runtime.controller import GONE, ResourceController
from cotenant_local.controllers.runtime.runner import Enqueue
from cotenant_local.controllers.views.evictions import EvictionRequestView, EvictionView
from cotenant_local.controllers.views.pods import PodObjectView


class EvictionRequestController(ResourceController):
    """Begins an Eviction for a request, and tells the request how it stands."""

    resource, name = EVICTION_REQUESTS, "evictionrequest-controller"

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to requests and Evictions."""
        self._pods: CachedObjects[PodObjectView] = self._informers.store(PODS)
        self._evictions: CachedObjects[EvictionView] = self._informers.store(EVICTIONS)
        super().attach(enqueue)
        self._informers.of(EVICTIONS).subscribe(self._eviction)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `eviction_requests.reconcile_request`."""
        request: EvictionRequestView | None = self._own.store.get(*key)
        if request is None:
            return GONE
        target = request.spec.target.pod
        of_target = [one for one in self._evictions.by("namespace", key[0]) if one.spec.target.pod.uid == target.uid]
        return eviction_requests.reconcile_request(request, of_target, self._pods.get(key[0], target.name), now_s)

    def _eviction(self, old: EvictionView | None, new: EvictionView | None) -> None:
        seen = new or old
        if seen is not None:
            for request in self._own.store.by("namespace", seen.metadata.namespace):
                if request.spec.target.pod.uid == seen.spec.target.pod.uid:
                    self._enqueue(request.metadata.key)


class EvictionController(ResourceController):
    """Lets the responders of an Eviction act one after another, and evicts the pod at last."""

    resource, name = EVICTIONS, "eviction-controller"

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to Evictions, requests, and the end of pods."""
        self._pods: CachedObjects[PodObjectView] = self._informers.store(PODS)
        self._requests: CachedObjects[EvictionRequestView] = self._informers.store(EVICTION_REQUESTS)
        super().attach(enqueue)
        self._informers.of(EVICTION_REQUESTS).subscribe(self._request)
        self._informers.of(PODS).subscribe(self._pod)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `eviction_requests.reconcile_eviction`."""
        eviction: EvictionView | None = self._own.store.get(*key)
        if eviction is None:
            return GONE
        target = eviction.spec.target.pod
        asked = [one for one in self._requests.by("namespace", key[0]) if one.spec.target.pod.uid == target.uid]
        return eviction_requests.reconcile_eviction(eviction, asked, self._pods.get(key[0], target.name), now_s)

    def _request(self, old: EvictionRequestView | None, new: EvictionRequestView | None) -> None:
        seen = new or old
        if seen is not None:
            self._of_target(seen.metadata.namespace, seen.spec.target.pod.uid)

    def _pod(self, old: PodObjectView | None, new: PodObjectView | None) -> None:
        if old is not None and len(self._own.store) and (new is None or new.finished or new.metadata.terminating):
            self._of_target(old.metadata.namespace, old.metadata.uid)

    def _of_target(self, namespace: str, uid: str) -> None:
        for eviction in self._own.store.by("namespace", namespace):
            if eviction.spec.target.pod.uid == uid:
                self._enqueue(eviction.metadata.key)
