"""Controllers of the workload kinds: map events to keys and gather the inputs of each reconcile function.

One class per kind; the rules are in `workloads/{deployment,replicaset,statefulset,daemonset,job}.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cotenant_local.controllers.runtime.actions import (
    CLAIMS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    REVISIONS,
    STATEFUL_SETS,
    Plan,
)
from cotenant_local.controllers.runtime.cache import CachedObjects, Key, NamedObject
from cotenant_local.controllers.runtime.controller import GONE, ResourceController
from cotenant_local.controllers.runtime.runner import Enqueue
from cotenant_local.controllers.views.core import SelectorView
from cotenant_local.controllers.views.nodes import NodeObjectView
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.views.workloads import (
    ControllerRevision,
    DaemonSet,
    DeploymentView,
    JobView,
    PodGroupView,
    ReplicaSet,
    StatefulSet,
)
from cotenant_local.controllers.workloads import daemonset, deployment, job, replicaset, statefulset


class _Owner(ResourceController):
    """Has children that name it as their controller or that it may adopt."""

    kind: str

    def _child(self, old: NamedObject | None, new: NamedObject | None) -> None:
        """Queue the owners of a changed child, or the objects that may adopt it."""
        for obj in (old, new):
            if obj is None:
                continue
            controller = obj.metadata.controller
            if controller is not None and controller.kind == self.kind:
                self._enqueue((obj.metadata.namespace, controller.name))
        seen = new or old
        if seen is not None and seen.metadata.controller is None:
            self._orphan(seen)

    def _orphan(self, obj: NamedObject) -> None:
        """It has no controller: any object whose selector matches may adopt it."""
        for owner in self._own.store.by("namespace", obj.metadata.namespace):
            selector: SelectorView = owner.spec.selector
            if not selector.is_empty and selector.matches(obj.metadata.labels):
                self._enqueue(owner.metadata.key)


class ReplicaSets(_Owner):
    """ReplicaSet."""

    resource, kind, name = REPLICA_SETS, "ReplicaSet", "replicaset-controller"

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to ReplicaSets and pods."""
        super().attach(enqueue)
        self._pods: CachedObjects[PodObjectView] = self._informers.store(PODS)
        self._informers.of(PODS).subscribe(self._child)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `replicaset.reconcile`."""
        rs: ReplicaSet | None = self._own.store.get(*key)
        if rs is None:
            return GONE
        return replicaset.reconcile(rs, self._pods.owned(rs.metadata.uid, key[0]), now_s, self._related(rs))

    def _related(self, rs: ReplicaSet) -> Iterable[PodObjectView]:
        """Pods of the sibling sets of the same Deployment, generated lazily."""
        owner = rs.metadata.controller
        if owner is None:
            return
        for sibling in self._own.store.by("owner", owner.uid):
            if sibling.metadata.uid != rs.metadata.uid:
                yield from self._pods.by("owner", sibling.metadata.uid)


class Deployments(_Owner):
    """Deployment."""

    resource, kind, name = DEPLOYMENTS, "Deployment", "deployment-controller"

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to Deployments, ReplicaSets, and for Recreate to pods that finish."""
        super().attach(enqueue)
        self._sets: CachedObjects[ReplicaSet] = self._informers.store(REPLICA_SETS)
        self._pods: CachedObjects[PodObjectView] = self._informers.store(PODS)
        self._informers.of(REPLICA_SETS).subscribe(self._child)
        self._informers.of(PODS).subscribe(self._pod)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `deployment.reconcile`."""
        found: DeploymentView | None = self._own.store.get(*key)
        if found is None:
            return GONE
        candidates = self._sets.owned(found.metadata.uid, key[0])

        def taken(name: str) -> bool:
            return self._sets.get(key[0], name) is not None

        return deployment.reconcile(found, candidates, now_s, taken, self._unfinished)

    def _unfinished(self, old: Sequence[ReplicaSet]) -> int:
        return sum(not p.finished for rs in old for p in self._pods.by("owner", rs.metadata.uid))

    def _pod(self, old: PodObjectView | None, new: PodObjectView | None) -> None:
        if old is None or (new is not None and new.finished == old.finished):
            return
        owner = old.metadata.controller
        rs = self._sets.get(old.metadata.namespace, owner.name) if owner is not None else None
        deployment_reference = rs.metadata.controller if rs is not None else None
        if deployment_reference is None:
            return
        found: DeploymentView | None = self._own.store.get(old.metadata.namespace, deployment_reference.name)
        if found is not None and found.spec.strategy.type == "Recreate":
            self._enqueue(found.metadata.key)


class StatefulSets(_Owner):
    """StatefulSet."""

    resource, kind, name = STATEFUL_SETS, "StatefulSet", "statefulset-controller"

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to StatefulSets, pods and revisions."""
        super().attach(enqueue)
        self._pods: CachedObjects[PodObjectView] = self._informers.store(PODS)
        self._claims: CachedObjects[NamedObject] = self._informers.store(CLAIMS)
        self._revisions: CachedObjects[ControllerRevision] = self._informers.store(REVISIONS)
        self._informers.of(PODS).subscribe(self._child)
        self._informers.of(REVISIONS).subscribe(self._child)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `statefulset.reconcile`."""
        found: StatefulSet | None = self._own.store.get(*key)
        if found is None:
            return GONE
        uid = found.metadata.uid

        def claim_exists(name: str) -> bool:
            return self._claims.get(key[0], name) is not None

        pods = self._pods.owned(uid, key[0])
        return statefulset.reconcile(found, pods, self._revisions.by("owner", uid), now_s, claim_exists)


class DaemonSets(_Owner):
    """DaemonSet."""

    resource, kind, name = DAEMON_SETS, "DaemonSet", "daemonset-controller"

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to DaemonSets, pods, revisions, and to nodes whose eligibility may have changed."""
        super().attach(enqueue)
        self._pods: CachedObjects[PodObjectView] = self._informers.store(PODS)
        self._nodes: CachedObjects[NodeObjectView] = self._informers.store(NODES)
        self._revisions: CachedObjects[ControllerRevision] = self._informers.store(REVISIONS)
        self._informers.of(PODS).subscribe(self._child)
        self._informers.of(REVISIONS).subscribe(self._child)
        self._informers.of(NODES).subscribe(self._node)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `daemonset.reconcile`."""
        found: DaemonSet | None = self._own.store.get(*key)
        if found is None:
            return GONE
        uid = found.metadata.uid
        pods = self._pods.owned(uid, key[0])
        return daemonset.reconcile(found, pods, self._nodes, self._revisions.by("owner", uid), now_s)

    def _node(self, old: NodeObjectView | None, new: NodeObjectView | None) -> None:
        if old is not None and new is not None and _eligibility(old) == _eligibility(new):
            return
        for key in self._own.store.keys():  # noqa: SIM118  the keys of a Store are a list
            self._enqueue(key)


def _eligibility(node: NodeObjectView) -> tuple[object, ...]:
    return node.metadata.labels, node.spec


class JobController(_Owner):
    """Job."""

    resource, kind, name = JOBS, "Job", "job-controller"
    with_groups = False

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to jobs and pods, and to PodGroups where jobs get them."""
        super().attach(enqueue)
        self._pods: CachedObjects[PodObjectView] = self._informers.store(PODS)
        self._informers.of(PODS).subscribe(self._child)
        self._groups: CachedObjects[PodGroupView] | None = None
        if self.with_groups:
            self._groups = self._informers.store(POD_GROUPS)
            self._informers.of(POD_GROUPS).subscribe(self._child)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `job.reconcile`."""
        found: JobView | None = self._own.store.get(*key)
        if found is None:
            return GONE
        groups = self._groups.get if self._groups is not None else None
        return job.reconcile(found, self._pods.owned(found.metadata.uid, key[0]), now_s, groups)


class GroupedJobs(JobController):
    """Job, on a cluster with WorkloadWithJob."""

    with_groups = True
