"""The scheduler's watches: from API objects to the engine's events.

The engine wants pods, nodes, claims and budgets in its own terms, a pod must be read again when a claim of it changes,
and one object that cannot be read must not stop the others. Each kind is bound to a handler of the process's `Watches`;
a node that cannot be read counts as gone (nothing is placed on it), other objects keep what was last read of them.
Limits: every pod with claims is read again after any change of volumes (those without a node after a change of free
storage); that is a few microseconds each, once a delivery.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from cotenant.drivers.kube.cache.cache import Changed, MalformedObject, Notification
from cotenant.drivers.kube.kinds.kueue_workload import (
    KUEUE_BETA1,
    KUEUE_BETA2,
    KueueWorkloadObject,
    read_kueue_workload,
)
from cotenant.drivers.kube.kinds.namespace import NAMESPACES, read_namespace
from cotenant.drivers.kube.kinds.node import NODES, NodeObject, read_node
from cotenant.drivers.kube.kinds.pod.reader import PodReader, reads_alike
from cotenant.drivers.kube.kinds.pod.schema import PODS, PodObject
from cotenant.drivers.kube.kinds.pod_disruption_budget import POD_DISRUPTION_BUDGETS, read_budget
from cotenant.drivers.kube.kinds.storage.csi import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
)
from cotenant.drivers.kube.kinds.storage.node_storage import NodeStorageIndex
from cotenant.drivers.kube.kinds.storage.persistent_volume import PERSISTENT_VOLUMES, PersistentVolume
from cotenant.drivers.kube.kinds.storage.persistent_volume_claim import PERSISTENT_VOLUME_CLAIMS
from cotenant.drivers.kube.kinds.storage.storage_class import STORAGE_CLASSES
from cotenant.engine.cluster import Cluster
from cotenant.engine.state.namespace_tenants import MAX_TENANTS, NamespaceTenants
from cotenant.engine.state.reports import NodeReports
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import NamespaceFacts, ObservedPod
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.model.groups.kueue import KueueWorkload
from cotenant.model.groups.workload_kind import WorkloadState
from cotenant.services.kube_process.watches import ObjectHandler, Watches
from cotenant.services.scheduling.claim_watches import ClaimWatches, requesting
from cotenant.services.scheduling.claims import ClaimBinder
from cotenant.services.scheduling.custom_kinds import CustomKind, custom_kinds, group_kinds
from cotenant.services.scheduling.dependents import Dependents
from cotenant.services.scheduling.spread_watches import SpreadWatches
from cotenant.services.scheduling.workload_groups import WorkloadGroups
from cotenant.services.scheduling.workload_watches import WorkloadWatches

_log = logging.getLogger(__name__)


class PodEvents(Protocol):
    """Who is told of pods: the engine, or what stands before it."""

    def pod_seen(self, seen: ObservedPod, now_s: float) -> None:
        """See `Cluster`."""
        ...

    def pod_gone(self, uid: str, now_s: float) -> None:
        """See `Cluster`."""
        ...


class NodeListener(Protocol):
    """Who is told of nodes: the engine, or what stands before it."""

    def node_seen(self, node: Node) -> None:
        """See `Cluster`."""
        ...

    def node_gone(self, name: str, now_s: float) -> None:
        """See `Cluster`."""
        ...


class EngineWatches:
    """Adds every watch that a scheduler needs, and reports to the engine what they deliver."""

    def __init__(
        self,
        watches: Watches,
        cluster: Cluster,
        reader: PodReader,
        claims: ClaimBinder,
        reports: NodeReports,
        now: Callable[[], float],
        workload_seen: Callable[[WorkloadState], None] = lambda state: None,
        pod_events: PodEvents | None = None,
        node_events: NodeListener | None = None,
        hearing: Callable[[CustomKind[Any, Any]], CustomKind[Any, Any]] = lambda custom: custom,
    ) -> None:
        """`pod_events`, `node_events`: who is told of pods and nodes in place of the engine; `hearing`: how it hears of
        custom kinds.
        """
        self._watches = watches
        self._cluster = cluster
        self._pods = pod_events or cluster
        self._nodes = node_events or cluster
        self._reader = reader
        self._claim_binder = claims
        self._reports = reports
        self._now = now
        self._with_claims: dict[str, PodObject] = {}  # by uid: pods that name claims
        self._dependents = Dependents()
        self._tenants = NamespaceTenants()
        self._volumes_at = self._capacity_at = 0  # versions of the index
        self._node_storage = NodeStorageIndex()
        index = reader.volumes
        self._put: dict[str, Callable[[str, Any], None]] = {
            PERSISTENT_VOLUMES.name: self._put_volume,
            PERSISTENT_VOLUME_CLAIMS.name: index.put_claim,
            STORAGE_CLASSES.name: index.put_class,
            CSI_DRIVERS.name: index.put_driver,
            CSI_STORAGE_CAPACITIES.name: index.put_capacity,
            CSI_NODES.name: self._node_storage.put_node,
            VOLUME_ATTACHMENTS.name: self._node_storage.put_attachment,
        }
        self._unusable = ""  # why the node that was read last is not used
        watches.handle(
            NODES,
            ObjectHandler(self._read_node, self._nodes.node_seen, self._node_gone, self._node_unreadable),
        )
        watches.handle(
            NAMESPACES,
            ObjectHandler(read_namespace, self._namespace_seen, cluster.namespace_gone, _keep),
        )
        for kind in (PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES):
            watches.deliver(kind, self._volumes)
        for entry in (CSI_DRIVERS, CSI_STORAGE_CAPACITIES, CSI_NODES, VOLUME_ATTACHMENTS):
            watches.deliver(entry, self._volumes, optional=True)
        watches.handle(
            POD_DISRUPTION_BUDGETS, ObjectHandler(read_budget, cluster.budget_seen, self._budget_gone, _keep)
        )
        gangs = cluster.plugins.gangs
        groups = WorkloadGroups(
            gangs.pod_group_seen,
            gangs.pod_group_gone,
            reader.groups,
            lambda key: self._read_again(f"PodGroup {key}"),
        )
        for custom in (*custom_kinds(cluster), *group_kinds(groups)):
            watches.handle(custom.kind, hearing(custom).handler(now), optional=True)
        self.device_claims = ClaimWatches(cluster.plugins.claims.facts, reader, now, self._read_requesting)
        self.device_claims.watch(watches)
        self.workloads = WorkloadWatches(reader.workloads, self._read_again, workload_seen)
        self.workloads.watch(watches)
        if reader.spreads_by_default:
            SpreadWatches(reader.spread_selectors, self._read_again).watch(watches)
        for queued in (KUEUE_BETA2, KUEUE_BETA1):
            watches.handle(queued, self._kueue_handler(queued.version), optional=True)
        # The oldest pods enter the queue first.
        self.pods = watches.deliver(PODS, self.pods_delivered, in_portions=True, first_by=_created_s)

    def _read_node(self, obj: NodeObject) -> Node:
        try:
            return read_node(obj)
        except InvalidInput as error:
            self._unusable = str(error)  # `_node_unreadable` is next
            raise

    def _node_gone(self, name: str) -> None:
        self._nodes.node_gone(name, self._now())
        self._reports.forget(name)
        self._claim_binder.changed()

    def _node_unreadable(self, name: str) -> None:
        why, self._unusable = self._unusable or f"node {name} cannot be read", ""
        self._cluster.node_unusable(name, why, self._now())

    def _namespace_seen(self, facts: NamespaceFacts) -> None:
        self._cluster.namespace_seen(facts)
        self._cluster.plugins.claims.facts.namespace_seen(facts.name, facts.labels)

    def _budget_gone(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        self._cluster.budget_gone(namespace, name)

    # ---- pods

    def pods_delivered(self, happened: Sequence[Notification[PodObject]]) -> None:
        """Hand on what a watch of pods delivered."""
        now_s = self._now()
        for changed in happened:
            if isinstance(changed, Changed):
                try:
                    self._pod(changed, now_s)
                except CotenantError:  # a defect of ours or of that one pod: the others must not wait for it
                    _log.exception("pod %s", changed.key)
                    self._watches.count(changed.kind)
            elif isinstance(changed, MalformedObject):
                self._watches.note(changed)

    def _pod(self, change: Changed[PodObject], now_s: float) -> None:
        if change.new is not None:
            if change.old is not None and reads_alike(change.old, change.new):
                return
            if change.new.spec is not None and change.new.spec.volumes:
                self._note_claims(change.new)
            names, read = self._reader.depends_on(change.new), self._reader.pod(change.new)
            if names or read.uid in self._dependents.names:
                self._dependents.put(change.new, names)
            self._pods.pod_seen(self._bounded(read) if read.pod.tenant else read, now_s)
        elif change.old is not None and change.old.metadata.uid:
            self._with_claims.pop(change.old.metadata.uid, None)
            self._dependents.drop(change.old.metadata.uid)
            self._tenants.gone(change.old.metadata.uid)
            self._pods.pod_gone(change.old.metadata.uid, now_s)

    def _seen(self, pod: PodObject, now_s: float) -> None:
        read = self._reader.pod(pod)
        self._pods.pod_seen(self._bounded(read) if read.pod.tenant else read, now_s)

    def _bounded(self, read: ObservedPod) -> ObservedPod:
        seen = self._tenants.bounded(read)
        if seen is not read and self._tenants.beyond[seen.pod.namespace] == 1:
            words = "namespace %s names more than %d tenants: pods of further ones count as the namespace's"
            _log.warning(words, seen.pod.namespace, MAX_TENANTS)
        return seen

    def _note_claims(self, pod: PodObject) -> None:
        uid = pod.metadata.uid or ""
        volumes = pod.spec.volumes if pod.spec is not None else None
        if any(v.persistent_volume_claim is not None or v.ephemeral is not None for v in volumes or ()):
            self._with_claims[uid] = pod

    def _read_again(self, name: str) -> None:
        now_s = self._now()
        for pod in self._dependents.of(name):
            self._seen(pod, now_s)

    def _read_requesting(self, resources: frozenset[str]) -> None:
        now_s = self._now()
        for pod in requesting(self.pods.cache, resources):
            self._seen(pod, now_s)

    def _kueue_handler(self, version: str) -> ObjectHandler[KueueWorkloadObject, KueueWorkload]:
        index = self._reader.kueue

        def reread(names: Sequence[str]) -> None:
            for name in names:
                self._read_again(name)

        return ObjectHandler(
            read_kueue_workload,
            lambda workload: reread(index.put(version, workload)),
            lambda key: reread(index.drop(version, key)),
            _keep,
        )

    # ---- volumes

    def _volumes(self, happened: Sequence[Notification[Any]]) -> None:
        index = self._reader.volumes
        for changed in happened:
            if isinstance(changed, Changed):
                self._put[changed.kind](changed.key, changed.new)
            elif isinstance(changed, MalformedObject):
                self._watches.note(changed)
        for storage in self._node_storage.take():
            self._cluster.node_storage_seen(storage)
        version, capacity = index.version, index.capacity_version
        if version == self._volumes_at and capacity == self._capacity_at:
            return
        only_capacity = version == self._volumes_at
        self._volumes_at, self._capacity_at = version, capacity
        if not only_capacity:
            self._claim_binder.changed()
        now_s = self._now()
        for pod in list(self._with_claims.values()):
            if not (only_capacity and pod.spec is not None and pod.spec.node_name):
                self._seen(pod, now_s)

    def _put_volume(self, name: str, volume: PersistentVolume | None) -> None:
        self._reader.volumes.put_volume(name, volume)
        self._node_storage.put_volume(name, volume)


def _keep(key: str) -> None:
    """An object that cannot be read: what was last read of it stays."""


def _created_s(pod: PodObject) -> float:
    created = pod.metadata.creation_timestamp
    return created.timestamp() if created is not None else 0.0
