"""Controllers of nodes, taints, budgets, unserved and orphaned pods, namespaces and volumes: map events to keys and
gather the inputs of each rule.

The rules are in `cluster/{node_lifecycle,disruption,unserved_pods,volumes}.py` and `cleanup/{pod_gc,namespaces}.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cotenant_local.apiserver.contract import ListOptions, RequestTarget, Resource, ResourceScope
from cotenant_local.controllers.cleanup import namespaces, pod_gc
from cotenant_local.controllers.cluster import disruption, node_lifecycle, unserved_pods, volumes
from cotenant_local.controllers.runtime.actions import (
    BUDGETS,
    CLAIMS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUMES,
    Plan,
    ResourceName,
)
from cotenant_local.controllers.runtime.cache import CachedObjects, Key, NamedObject
from cotenant_local.controllers.runtime.controller import GONE, ResourceController
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.runtime.runner import Enqueue
from cotenant_local.controllers.views.cluster import (
    BudgetView,
    NamespaceView,
    PersistentVolumeView,
    StorageClassView,
    VolumeClaimView,
)
from cotenant_local.controllers.views.core import OwnerReferenceView
from cotenant_local.controllers.views.nodes import LeaseView, NodeObjectView
from cotenant_local.controllers.views.pods import PodObjectView

LEASE_NAMESPACE = "kube-node-lease"


class NodeLifecycle(ResourceController):
    """Watches the nodes' Leases and marks nodes without a heartbeat."""

    resource, name = NODES, "node-controller"

    def __init__(
        self, informers: Informers, clock: Callable[[], float], grace_s: float = node_lifecycle.GRACE_S
    ) -> None:
        super().__init__(informers, clock)
        self._grace_s = grace_s

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to nodes; a Lease is only looked up when its node's grace period would end."""
        self._since_s = self._clock()
        self._leases: CachedObjects[LeaseView] = self._informers.store(LEASES)
        super().attach(enqueue)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `node_lifecycle.reconcile_node`."""
        node: NodeObjectView | None = self._own.store.get(*key)
        if node is None:
            return GONE
        lease = self._leases.get(LEASE_NAMESPACE, key[1])
        return node_lifecycle.reconcile_node(node, lease, now_s, self._since_s, self._grace_s)


class TaintEviction(ResourceController):
    """Evicts pods from nodes whose NoExecute taints they do not, or no longer, tolerate."""

    resource, name = NODES, "taint-eviction-controller"

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to nodes that are not ready or have such taints, and to pods assigned to them."""
        self._pods: CachedObjects[PodObjectView] = self._informers.store(PODS)
        self._unreachable: set[str] = set()
        super().attach(enqueue)
        self._informers.of(PODS).subscribe(self._pod)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `node_lifecycle.evict` and `mark_pods_not_ready`."""
        node: NodeObjectView | None = self._own.store.get(*key)
        if node is None:
            return GONE
        pods = self._pods.by("node", key[1])
        first = node_lifecycle.mark_pods_not_ready(node, pods, now_s)
        if node_lifecycle.is_full_disruption(len(self._unreachable), len(self._own.store)):
            requeue_at = now_s + 10.0
            return Plan(first.actions, "most nodes are unreachable: no pod is evicted", requeue_at)
        then = node_lifecycle.evict(node, pods, now_s)
        return Plan(first.actions + then.actions, f"{first.reason}; {then.reason}", then.requeue_at_s)

    def _changed(self, old: NamedObject | None, new: NamedObject | None) -> None:
        seen = new or old
        assert isinstance(seen, NodeObjectView)
        ready = seen.condition("Ready")
        if new is not None and ready is not None and ready.status == "Unknown":
            self._unreachable.add(seen.metadata.name)
        else:
            self._unreachable.discard(seen.metadata.name)
        if new is not None and self._matters(seen):
            self._enqueue(seen.metadata.key)

    def _pod(self, old: PodObjectView | None, new: PodObjectView | None) -> None:
        if new is None or not new.spec.node_name:
            return
        node = self._own.store.get("", new.spec.node_name)
        if node is not None and self._matters(node):
            self._enqueue(node.metadata.key)

    @staticmethod
    def _matters(node: NodeObjectView) -> bool:
        ready = node.condition("Ready")
        not_ready = ready is not None and ready.status != "True"
        return not_ready or any(t.effect == "NoExecute" for t in node.spec.taints)


class BudgetController(ResourceController):
    """Updates the status of PodDisruptionBudgets."""

    resource, name = BUDGETS, "disruption-controller"

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to budgets, the pods that they select, and the scale of the pods' controllers."""
        self._pods: CachedObjects[PodObjectView] = self._informers.store(PODS)
        super().attach(enqueue)
        self._informers.of(PODS).subscribe(self._pod)
        for resource in (REPLICA_SETS, STATEFUL_SETS):
            self._informers.of(resource).subscribe(self._scaled)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `disruption.reconcile`."""
        budget: BudgetView | None = self._own.store.get(*key)
        if budget is None:
            return GONE
        return disruption.reconcile(budget, self._pods.by("namespace", key[0]), now_s, self._scale)

    def _scale(self, namespace: str, owner: OwnerReferenceView) -> int | None:
        resource = {"ReplicaSet": REPLICA_SETS, "StatefulSet": STATEFUL_SETS}.get(owner.kind)
        found = self._informers.store(resource).get(namespace, owner.name) if resource is not None else None
        return int(found.spec.replicas) if found is not None and found.metadata.uid == owner.uid else None

    def _pod(self, old: PodObjectView | None, new: PodObjectView | None) -> None:
        seen = new or old
        if seen is None or (old is not None and new is not None and _health(old) == _health(new)):
            return
        for budget in self._own.store.by("namespace", seen.metadata.namespace):
            selector = budget.spec.selector
            if selector is not None and any(p is not None and selector.matches(p.metadata.labels) for p in (old, new)):
                self._enqueue(budget.metadata.key)

    def _scaled(self, old: NamedObject | None, new: NamedObject | None) -> None:
        seen = new or old
        if seen is not None:
            for budget in self._own.store.by("namespace", seen.metadata.namespace):
                self._enqueue(budget.metadata.key)


def _health(pod: PodObjectView) -> tuple[object, ...]:
    return pod.ready, pod.finished, pod.metadata.terminating, pod.metadata.labels


class UnservedPods(ResourceController):
    """Says on pods which no scheduler looks at that their scheduler is not running."""

    resource, name = PODS, "unserved-pod-controller"

    def __init__(self, informers: Informers, clock: Callable[[], float], served: tuple[str, ...]) -> None:
        """`served`: the names that the cluster's own scheduler serves."""
        super().__init__(informers, clock)
        self._served = served
        self._others: set[str] = set()  # names of which a pod has been looked at: the user's own schedulers

    def all_keys(self) -> Iterable[Key]:
        """Only pods that no scheduler has looked at."""
        return [p.metadata.key for p in self._own.store if unserved_pods.may_be_unserved(p, self._served)]

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `unserved_pods.reconcile`."""
        pod: PodObjectView | None = self._own.store.get(*key)
        if pod is None:
            return GONE
        return unserved_pods.reconcile(pod, self._served, pod.spec.scheduler_name in self._others, now_s)

    def _changed(self, old: NamedObject | None, new: NamedObject | None) -> None:
        if not isinstance(new, PodObjectView) or new.spec.scheduler_name in self._served:
            return
        if unserved_pods.has_mark(new):
            self._others.add(new.spec.scheduler_name)
        elif not isinstance(old, PodObjectView) or old.spec.scheduling_gates != new.spec.scheduling_gates:
            self._enqueue(new.metadata.key)


class PodCollector(ResourceController):
    """Deletes pods that no kubelet will terminate."""

    resource, name = PODS, "pod-garbage-collector"

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to pods that are bound or being deleted, and to deleted nodes."""
        self._nodes: CachedObjects[NodeObjectView] = self._informers.store(NODES)
        self._missing: dict[str, float] = {}  # nodes that pods name and that do not exist -> since when
        super().attach(enqueue)
        self._informers.of(NODES).subscribe(self._node)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `pod_gc.orphaned`."""
        pod: PodObjectView | None = self._own.store.get(*key)
        if pod is None:
            return GONE
        name = pod.spec.node_name
        if name and self._nodes.get("", name) is None:
            self._missing.setdefault(name, now_s)
        else:
            self._missing.pop(name, None)
        return pod_gc.orphaned(pod, lambda n: self._nodes.get("", n) is not None, self._missing.get(name), now_s)

    def all_keys(self) -> Iterable[Key]:
        """Only pods whose node does not exist."""
        return [
            p.metadata.key
            for p in self._own.store
            if p.spec.node_name and self._nodes.get("", p.spec.node_name) is None
        ]

    def _changed(self, old: NamedObject | None, new: NamedObject | None) -> None:
        if not isinstance(new, PodObjectView):
            return
        name = new.spec.node_name
        if (name and self._nodes.get("", name) is None) or (new.metadata.terminating and not name):
            self._enqueue(new.metadata.key)

    def _node(self, old: NodeObjectView | None, new: NodeObjectView | None) -> None:
        if new is None and old is not None:
            self._missing[old.metadata.name] = self._clock()
            for pod in self._own.store.by("node", old.metadata.name):
                self._enqueue(pod.metadata.key)
        elif old is None and new is not None:
            self._missing.pop(new.metadata.name, None)


class FinishedPods(ResourceController):
    """Deletes the oldest finished pods when there are too many."""

    resource, name = PODS, "finished-pod-collector"
    _ALL: Key = ("", "all")

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to finished pods, which are reconciled together."""
        self._finished = 0
        super().attach(enqueue)

    def all_keys(self) -> Iterable[Key]:
        """One key for all pods."""
        return (self._ALL,)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `pod_gc.surplus`."""
        return pod_gc.surplus(self._own.store)

    def _changed(self, old: NamedObject | None, new: NamedObject | None) -> None:
        self._finished += int(isinstance(new, PodObjectView) and new.finished) - int(
            isinstance(old, PodObjectView) and old.finished
        )
        if self._finished > pod_gc.MAX_FINISHED:
            self._enqueue(self._ALL)


class Namespaces(ResourceController):
    """Deletes the content of namespaces that are being deleted."""

    resource, name = NAMESPACES, "namespace-controller"

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `namespaces.reconcile`. Objects are counted on the server, not in a cache, so that none is missed."""
        namespace: NamespaceView | None = self._own.store.get(*key)
        if namespace is None:
            return GONE
        left: dict[ResourceName, tuple[int, int]] = {}
        if namespace.metadata.terminating:
            for resource in self._contents():
                page = await self._informers.api.list(RequestTarget(resource, key[1]), ListOptions())
                not_deleted = sum(b'"deletionTimestamp"' not in item.raw for item in page.items)
                left[(resource.group, resource.plural)] = (len(page.items), not_deleted)
        return namespaces.reconcile(namespace, left, now_s)

    def _contents(self) -> Iterable[Resource]:
        seen: set[tuple[str, str]] = set()
        registry = self._informers.api.registry
        for resource in registry.resources():
            if (
                resource.scope is ResourceScope.NAMESPACED
                and {"list", "delete"} <= resource.verbs
                and resource.storage not in seen
            ):
                seen.add(resource.storage)
                yield registry.hub(resource)

    def _changed(self, old: NamedObject | None, new: NamedObject | None) -> None:
        if new is not None and new.metadata.terminating:
            self._enqueue(new.metadata.key)


class VolumeClaimController(ResourceController):
    """Binds claims to volumes."""

    resource, name = CLAIMS, "persistentvolume-binder"

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to claims, volumes, classes, and pods that stop using a claim."""
        self._volumes: CachedObjects[PersistentVolumeView] = self._informers.store(VOLUMES)
        self._classes: CachedObjects[StorageClassView] = self._informers.store(STORAGE_CLASSES)
        self._pods: CachedObjects[PodObjectView] = self._informers.store(PODS)
        super().attach(enqueue)
        self._informers.of(VOLUMES).subscribe(self._volume)
        self._informers.of(STORAGE_CLASSES).subscribe(self._kind)
        self._informers.of(PODS).subscribe(self._pod)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `volumes.bind_claim`."""
        claim: VolumeClaimView | None = self._own.store.get(*key)
        if claim is None:
            return GONE

        def in_use(name: str) -> bool:
            return any(not p.finished and name in _claims_of(p) for p in self._pods.by("namespace", key[0]))

        return volumes.bind_claim(claim, self._volumes, lambda name: self._classes.get("", name), in_use)

    def _volume(self, old: PersistentVolumeView | None, new: PersistentVolumeView | None) -> None:
        seen = new or old
        if seen is None:
            return
        if seen.spec.claim_ref is not None:
            self._enqueue((seen.spec.claim_ref.namespace, seen.spec.claim_ref.name))
        else:
            self._enqueue_unbound()

    def _kind(self, old: NamedObject | None, new: NamedObject | None) -> None:
        self._enqueue_unbound()

    def _enqueue_unbound(self) -> None:
        for claim in self._own.store:
            if not claim.spec.volume_name:
                self._enqueue(claim.metadata.key)

    def _pod(self, old: PodObjectView | None, new: PodObjectView | None) -> None:
        if old is not None and (new is None or (new.finished and not old.finished)):
            for name in _claims_of(old):
                self._enqueue((old.metadata.namespace, name))


class VolumeController(ResourceController):
    """Updates volumes when their claims are created or deleted."""

    resource, name = VOLUMES, "persistentvolume-controller"

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to volumes and claims."""
        self._claims: CachedObjects[VolumeClaimView] = self._informers.store(CLAIMS)
        super().attach(enqueue)
        self._informers.of(CLAIMS).subscribe(self._claim)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `volumes.reconcile_volume`."""
        volume: PersistentVolumeView | None = self._own.store.get(*key)
        if volume is None:
            return GONE

        def uid(namespace: str, name: str) -> str | None:
            claim = self._claims.get(namespace, name)
            return claim.metadata.uid if claim is not None else None

        return volumes.reconcile_volume(volume, uid)

    def _claim(self, old: VolumeClaimView | None, new: VolumeClaimView | None) -> None:
        if new is None and old is not None and old.spec.volume_name:
            self._enqueue(("", old.spec.volume_name))


def _claims_of(pod: PodObjectView) -> set[str]:
    return {v.persistent_volume_claim.claim_name for v in pod.spec.volumes if v.persistent_volume_claim is not None}
