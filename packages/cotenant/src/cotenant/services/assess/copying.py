"""A cluster's copy in the scheduling engine: the same engine, readers and policies as in a cluster, fed from lists.

Nothing runs: lists are handed to the watches of a scheduler as if a server had sent them, and the time is that of the
copy. Pods of every scheduler name are the engine's, since the question is where it would place them.
Limits: volumes are counted as the copy has them and nothing is provisioned; load thresholds and quotas that a
cluster's scheduler was started with are not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.client.errors import UNREADABLE
from cotenant.drivers.kube.kinds.custom.device import DEVICES, DeviceObject, read_devices
from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS, read_node_metric
from cotenant.drivers.kube.kinds.kind import AnyKind
from cotenant.drivers.kube.kinds.managed_node import read_managed_node
from cotenant.drivers.kube.kinds.node import NODES, NodeObject
from cotenant.drivers.kube.kinds.pod.eviction import EVICTION_PODS, EvictionPod, read_eviction_notes
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.drivers.kube.kinds.resource_quota import RESOURCE_QUOTAS, ResourceQuota, read_resource_quota
from cotenant.drivers.kube.kinds.workload.index import WorkloadIndex
from cotenant.drivers.kube.kinds.workloads import (
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    WorkloadObject,
    replicas_of,
)
from cotenant.drivers.kube.snapshot.kinds import key_of
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot
from cotenant.engine.cluster import Cluster
from cotenant.engine.state.reports import NodeReports
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.managed import ManagedNode
from cotenant.model.cluster.namespace_quota import NamespaceQuota
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.workload_kind import WorkloadState
from cotenant.model.machine.node_metric import NodeMetric
from cotenant.services.heap import uncollected
from cotenant.services.kube_process.watches import ObjectHandler, Watches
from cotenant.services.scheduling.claims import ClaimBinder
from cotenant.services.scheduling.engine import scheduling_engine
from cotenant.services.scheduling.names import DEFAULT_SCHEDULER, by_requests, cluster_profile
from cotenant.services.scheduling.options import Options
from cotenant.services.scheduling.watches import EngineWatches
from cotenant.services.scheduling.workload_watches import WorkloadWatches

PROFILE = "cotenant"
_NOWHERE = Access("http://copy.invalid", FixedCredential(Credential("")))  # of a client that is never used
_CONTROLLERS = (REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS, JOBS)


@dataclass(frozen=True, slots=True)
class CopiedOwner:
    """The controller of an object."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class CopiedController:
    """What makes pods, and how many it wants at a time."""

    namespace: str
    kind: str
    name: str
    replicas: int


@dataclass(frozen=True, slots=True)
class ClusterCopy:
    """An engine with everything in it, and what the figures read beside it."""

    engine: Cluster
    now_s: float
    managed: Mapping[str, ManagedNode]  # nodes with capacity and reservation
    metrics: Mapping[str, NodeMetric]  # by node, of NodeMetric objects
    devices: Mapping[str, NodeDevices]
    notes: Mapping[str, EvictionNotes]  # by namespace/name of the pod
    controllers: Mapping[str, CopiedController]  # by UID
    owners: Mapping[str, CopiedOwner]  # controller's UID -> what controls it
    workloads: Mapping[str, int]  # of declared kinds, by UID: pods that they want at a time
    quotas: tuple[NamespaceQuota, ...]
    unusable: tuple[str, ...]  # why nodes, or parts of objects, are not used

    def notes_of(self, key: str) -> EvictionNotes:
        """The eviction notes of a pod."""
        return self.notes.get(key) or EvictionNotes()


def copied(snapshot: ClusterSnapshot, profile_name: str = PROFILE) -> ClusterCopy:
    """Build the engine. Raises `CotenantError`."""
    now_s = snapshot.taken_s
    profile = by_requests(cluster_profile("--profile", profile_name))
    engine = scheduling_engine(profile, Options(schedulers=_schedulers(snapshot)))
    client = Client(_NOWHERE, qps=1.0, burst=1, in_flight=1)
    watches = Watches(client)
    reader = PodReader(workloads=WorkloadIndex(snapshot.workloads, (kind.name for kind in _CONTROLLERS)))
    kept = _Kept(now_s)
    binder = ClaimBinder(client, reader.volumes)
    engine_watches = EngineWatches(watches, engine, reader, binder, NodeReports(), lambda: now_s, kept.declared_seen)
    kept.watch(watches, engine_watches.workloads)
    with uncollected():
        watches.replay(lambda kind: snapshot.pages(key_of(kind)))
    return ClusterCopy(
        engine,
        now_s,
        kept.managed,
        kept.metrics,
        kept.devices,
        kept.notes,
        kept.controllers,
        kept.owners,
        kept.workloads,
        tuple(kept.quotas),
        (*(f"{count:,} of {kind}" for kind, count in sorted(watches.malformed.items())), *kept.unreadable[:5]),
    )


class _Kept:
    """What the figures read and the engine does not keep."""

    def __init__(self, now_s: float) -> None:
        self._now_s = now_s
        self.managed: dict[str, ManagedNode] = {}
        self.metrics: dict[str, NodeMetric] = {}
        self.devices: dict[str, NodeDevices] = {}
        self.notes: dict[str, EvictionNotes] = {}
        self.controllers: dict[str, CopiedController] = {}
        self.quotas: list[NamespaceQuota] = []
        self.unreadable: list[str] = []
        self.owners: dict[str, CopiedOwner] = {}
        self.workloads: dict[str, int] = {}

    def watch(self, watches: Watches, workloads: WorkloadWatches) -> None:
        """Add what is read here, and tell who owns controllers."""
        kinds: tuple[tuple[AnyKind, Callable[[Any], None]], ...] = (
            (NODES, self._node),
            (DEVICES, self._device),
            (EVICTION_PODS, self._pod),
            (RESOURCE_QUOTAS, self._quota),
            *((kind, partial(self._controller, workloads, kind.name)) for kind in _CONTROLLERS),
        )
        for kind, take in kinds:
            watches.handle(kind, ObjectHandler(_itself, take, _nothing, _nothing), optional=True)
        read = partial(read_node_metric, wall=lambda: self._now_s)
        watches.handle(NODE_METRICS, ObjectHandler(read, self._metric, _nothing, _nothing), optional=True)

    def _node(self, obj: NodeObject) -> None:
        try:
            node = read_managed_node(obj)
        except InvalidInput:
            return  # the engine's reading of it says what is wrong
        self.managed[node.name] = node

    def _metric(self, metric: NodeMetric) -> None:
        self.metrics[metric.node] = metric

    def _device(self, obj: DeviceObject) -> None:
        try:
            devices = read_devices(obj)
        except InvalidInput:
            return
        self.devices[devices.node] = devices

    def _pod(self, obj: EvictionPod) -> None:
        self.notes[f"{obj.metadata.namespace or 'default'}/{obj.metadata.name}"] = read_eviction_notes(obj)

    def _quota(self, obj: ResourceQuota) -> None:
        try:
            self.quotas.append(read_resource_quota(obj))
        except InvalidInput as error:
            self.unreadable.append(str(error))

    def declared_seen(self, state: WorkloadState) -> None:
        """A workload of a declared kind."""
        if state.replicas is not None:
            self.workloads[state.uid] = state.replicas

    def _controller(self, workloads: WorkloadWatches, kind: str, obj: WorkloadObject) -> None:
        meta = obj.metadata
        uid = meta.uid
        if not uid:
            return
        workloads.owner_seen(kind, meta)
        self.controllers[uid] = CopiedController(meta.namespace or "default", kind, meta.name or "", replicas_of(obj))
        for reference in meta.owner_references or ():
            if reference.controller:
                self.owners[uid] = CopiedOwner(reference.kind, reference.name)


def _itself(obj: object) -> Any:
    return obj


def _nothing(key: str) -> None:
    """Every object is read once and none goes away."""


def _schedulers(snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """The scheduler names of the copy's pods, the most frequent first."""
    decoder = msgspec.json.Decoder(_NamedScheduler)
    names: Counter[str] = Counter()
    for line in snapshot.objects.get(key_of(PODS), ()):
        try:
            names[decoder.decode(line).spec.name or DEFAULT_SCHEDULER] += 1
        except UNREADABLE:
            continue  # counted where pods are read
    return tuple(name for name, _ in names.most_common()) or (DEFAULT_SCHEDULER,)


class _SchedulerName(msgspec.Struct, frozen=True):
    name: str | None = msgspec.field(default=None, name="schedulerName")


class _NamedScheduler(msgspec.Struct, frozen=True):
    spec: _SchedulerName = _SchedulerName()
