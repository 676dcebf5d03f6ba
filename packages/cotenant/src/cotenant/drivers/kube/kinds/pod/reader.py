"""Pods as the model's values.

Scheduling wants few facts of a pod, wants them fast (every start reads all pods), and must not place a pod that it read
only in part. What equal pods share (their spec without the node, and their classes) is read once and kept by its
encoded form, which costs a few microseconds to make and cannot be confused; what is each pod's own is filled in.
Whatever cannot be read or is not supported becomes a sentence in `unsupported`: a reason on the pod, never an exception
and never a wrong placement.
Limits: an unreadable part of a bound pod counts as absent (it takes what could be read). The class of a pod without
Koordinator labels is not derived from its requests.
Source: Kubernetes API reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from math import nan
from typing import TypeVar

import msgspec
from msgspec.structs import replace as replace_fields

from cotenant.drivers.kube.kinds.kueue_workload import KueueIndex
from cotenant.drivers.kube.kinds.parts import OwnerReference
from cotenant.drivers.kube.kinds.pod.annotations import NO_HINTS, Hints, read_hints
from cotenant.drivers.kube.kinds.pod.by_scheduler import PodsOfScheduler, with_added
from cotenant.drivers.kube.kinds.pod.claims import mapped, read_needs
from cotenant.drivers.kube.kinds.pod.groups import NO_TERMS, PodGroupIndex, of_group, of_workload
from cotenant.drivers.kube.kinds.pod.resources import is_deferred, resized
from cotenant.drivers.kube.kinds.pod.schema import PodAnnotations, PodObject, PodSpec, PodStatus
from cotenant.drivers.kube.kinds.pod.template import EqualPods, read_template
from cotenant.drivers.kube.kinds.pod.unknown_form import set_fields
from cotenant.drivers.kube.kinds.spread_selectors import SpreadSelectors
from cotenant.drivers.kube.kinds.storage.volume_index import VolumeIndex
from cotenant.drivers.kube.kinds.workload.index import NO_MEMBERSHIP, Membership, WorkloadIndex
from cotenant.drivers.seals.seals import NO_SEALS, Seals
from cotenant.model.cluster.affinity import SpreadConstraint
from cotenant.model.cluster.annotations import EXTENDED_SPEC, TENANT
from cotenant.model.cluster.demands import NO_HOLDINGS, Demands, Holdings
from cotenant.model.cluster.entitlement import entitled
from cotenant.model.cluster.labels import NO_LABELS, PRIORITY_CLASS, QOS_CLASS, SUB_PRIORITY, Labels, LabelSelector
from cotenant.model.cluster.observed import ObservedPod, OwnedBy, PodPhase, VolumeNeed
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.seal import SETTLED, SETTLED_LABELS, SealStanding, settled_values
from cotenant.model.groups.quota import NAME as QUOTA

SPREAD_KINDS = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})  # as kube-scheduler's default selector
_USUAL_GRACE_S = 30  # Kubernetes' default of terminationGracePeriodSeconds
_UNKNOWN = "this version does not know the field, which the server describes as one about scheduling"
REMEMBERED = 16384  # templates, label sets and hints kept; all are dropped when there are more
T = TypeVar("T")
K = TypeVar("K")
_PHASES = {phase.value: phase for phase in PodPhase}


_NO_VOLUMES: tuple[tuple[VolumeNeed, ...], tuple[str, ...]] = ((), ())
_NOTHING_OWN = PodsOfScheduler()


class PodReader:
    """Turns structs into the model's values.

    `volumes`, `groups`, `workloads` and `extended` are kept up to date by their owner.
    """

    def __init__(
        self,
        volumes: VolumeIndex | None = None,
        *,
        by_scheduler: Mapping[str, PodsOfScheduler] | None = None,
        seals: Seals = NO_SEALS,
        workloads: WorkloadIndex | None = None,
    ) -> None:
        """`by_scheduler`: what pods of a `spec.schedulerName` have of their own. Replicas are those of ReplicaSets,
        ReplicationControllers and StatefulSets.

        `seals`: how far what pods' annotations say that they hold is believed; without keys, what each pod is entitled
        to.
        """
        self._by_scheduler = by_scheduler or {}
        self._seals = seals
        self.volumes = volumes or VolumeIndex()
        self.groups = PodGroupIndex()
        self.workloads = workloads or WorkloadIndex()
        self.extended: frozenset[str] = frozenset()  # extended resources that classes of devices stand for
        self.spread_selectors = SpreadSelectors()
        self.kueue = KueueIndex()
        self._encoder = msgspec.json.Encoder()
        self._buffer = bytearray()
        self._templates: dict[bytes, EqualPods] = {}
        self._labels: dict[tuple[tuple[str, str], ...], Labels] = {}
        self._hints: dict[PodAnnotations, Hints] = {}
        self._settled: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = {}
        self._owned: dict[tuple[OwnerReference, ...], tuple[OwnedBy, ...]] = {}

    @property
    def spreads_by_default(self) -> bool:
        """Whether pods of some scheduler name are spread by what selects them."""
        return any(own.is_spread for own in self._by_scheduler.values())

    def depends_on(self, obj: PodObject) -> tuple[str, ...]:
        """The names of what else the reading of a pod depends on: its workload, its PodGroup, and while it has no node
        what selects it and what Kueue says of it. It is read again where one changes.
        """
        meta, spec = obj.metadata, obj.spec or PodSpec()
        namespace, labels, owners = meta.namespace or "default", meta.labels or {}, meta.owner_references or ()
        names = self.workloads.depends_on(namespace, labels, owners) if self.workloads.kinds else ()
        if spec.scheduling_group is not None:
            names = (*names, f"PodGroup {namespace}/{spec.scheduling_group.pod_group_name}")
        if spec.node_name:
            return names
        own = self._by_scheduler.get(spec.scheduler_name or "default-scheduler", _NOTHING_OWN)
        if own.is_spread and self.spread_selectors.is_on:
            names = (*names, *self.spread_selectors.depends_on(namespace, owners))
        annotated = (meta.annotations.kueue_workload or "") if meta.annotations is not None else ""
        if not (labels or annotated or spec.scheduling_gates):  # Kueue leaves a mark on every pod of its own
            return names
        gates = [gate.name for gate in spec.scheduling_gates or ()]
        return (*names, *self.kueue.depends_on(namespace, meta.uid or "", labels, annotated, owners, gates))

    def pod(self, obj: PodObject) -> ObservedPod:
        """A pod. Never fails: what is not supported is named in `unsupported`."""
        meta, spec, status = obj.metadata, obj.spec or PodSpec(), obj.status or PodStatus()
        labels: Mapping[str, str] = meta.labels or {}
        namespace, owners = meta.namespace or "default", meta.owner_references or ()
        member = self.workloads.of(namespace, labels, owners) if self.workloads.kinds else NO_MEMBERSHIP
        if member.quota and QUOTA not in labels:
            labels = {**labels, QUOTA: member.quota}
        annotations = meta.annotations
        scheduler, created_s = spec.scheduler_name or "default-scheduler", _unix(meta.creation_timestamp)
        settled = _settled(labels, annotations)
        relabelled: tuple[str, ...] = ()
        if spec.node_name and self._seals.checks:
            statement = annotations.settled if annotations is not None else None
            counts = self._seals.settled(meta.uid or "", spec.node_name, scheduler, created_s, settled, statement or "")
            if counts is not None:
                relabelled = tuple(sorted(dict(settled.items() ^ counts.items())))
                labels, annotations = _as_settled(labels, annotations, counts)
                settled = counts
        template = self._template(spec, status, labels)
        annotated = (annotations.kueue_workload or "") if annotations is not None else ""
        hints = NO_HINTS if annotations is None else self._hints_of(annotations)
        brought = (SETTLED,) if annotations is not None and annotations.settled else ()
        own = self._by_scheduler.get(scheduler, _NOTHING_OWN)
        unsupported = template.unsupported + hints.wrong if hints.wrong else template.unsupported
        if type(spec) is not PodSpec:
            unsupported += tuple(f"{path}: {_UNKNOWN}" for path in set_fields(spec))
        by_group = self.groups.of(namespace, spec.scheduling_group) if spec.scheduling_group is not None else NO_TERMS
        needs, beyond = self.volumes.needs(meta, spec.volumes) if spec.volumes else _NO_VOLUMES
        unsupported += beyond
        fellows, spread = self._spread(own, namespace, labels, owners, template.spread)
        responders = tuple(responder.name for responder in spec.eviction_responders) if spec.eviction_responders else ()
        demands = self._demands(obj, hints, template, member, own)
        affinity = template.node_affinity
        pod = Pod(
            name=meta.name or "?",
            namespace=namespace,
            requests=template.requests if own.ignored is None else own.ignored.without(template.requests),
            limits=template.limits,
            has_whole_cpus=template.has_whole_cpus,
            qos=template.qos,
            priority_class=template.priority_class,
            priority=(spec.priority or 0) if by_group.priority is None else by_group.priority,
            sub_priority=template.sub_priority,
            labels=self._label_set(labels),
            node_selector=template.node_selector,
            node_affinity=affinity if (added := own.added_affinity) is None else with_added(affinity, added),
            tolerations=template.tolerations,
            affinity=template.affinity,
            anti_affinity=template.anti_affinity,
            spread=spread,
            host_ports=template.host_ports,
            images=template.images,
            tenant=hints.tenant,
            group=hints.group,
            group_limit=hints.group_limit,
            estimate=hints.estimate,
            deadline_s=hints.deadline_s,
            objective_p99_ms=hints.objective_p99_ms,
            load_limit=hints.load_limit,
            replica_of=_controller(owners) if own.spread_replicas and not self.spread_selectors.is_on else "",
            default_selector=fellows if own.spread_replicas else None,
            scored_by=own.scored_by,
            unfiltered=own.unfiltered,
            is_daemon=bool(owners) and any(owner.kind == "DaemonSet" for owner in owners),
        )
        return ObservedPod(
            pod=pod,
            uid=meta.uid or "",
            scheduler=scheduler,
            created_s=created_s,
            node=spec.node_name or "",
            phase=_PHASES.get(status.phase or "Pending", PodPhase.UNKNOWN),
            ends_s=_unix(meta.deletion_timestamp),
            grace_s=meta.deletion_grace_period_seconds or 0,
            gates=template.gates,
            nominated_node=status.nominated_node_name or "",
            expected_room=hints.expected_room,
            started_s=_unix(status.start_time),
            preempts=own.preempts and by_group.preempts and spec.preemption_policy != "Never",
            volumes=needs,
            demands=demands,
            # without a node it holds nothing, whatever it says
            holds=self._believed(meta.uid or "", spec.node_name, created_s, pod, hints)
            if spec.node_name and hints.holding_texts
            else NO_HOLDINGS,
            written=(*hints.holding_texts, *brought),
            settled=self._pairs(settled) if settled else (),
            relabelled=relabelled,
            owned_by=self._owned_by(meta.owner_references) if meta.owner_references else (),
            workload=member.workload,
            in_queue=self.kueue.of(namespace, meta.uid or "", labels, annotated, owners, template.gates)
            if labels or annotated or template.gates or self.kueue.known
            else None,
            marks=hints.marks,
            refused=_refusal(status) if status.phase == "Failed" else "",
            evicted=status.phase == "Failed" and status.reason == "Evicted",
            responders=responders,
            awaits_resize=status.conditions is not None and is_deferred(status.conditions),
            unsupported=unsupported,
        )

    def _hints_of(self, annotations: PodAnnotations) -> Hints:
        """What the annotations ask for, without those that are each pod's own: equal pods share the rest."""
        if annotations.kueue_workload or annotations.settled:
            annotations = replace_fields(annotations, kueue_workload=None, settled=None)
        found = self._hints.get(annotations)
        return found or _remember(self._hints, annotations, read_hints(annotations))

    def _spread(
        self,
        own: PodsOfScheduler,
        namespace: str,
        labels: Mapping[str, str],
        owners: tuple[OwnerReference, ...],
        given: tuple[SpreadConstraint, ...],
    ) -> tuple[LabelSelector | None, tuple[SpreadConstraint, ...]]:
        """What selects a pod that is spread by default, and the constraints that count."""
        if not own.is_spread or given or not self.spread_selectors.is_on:
            return None, given
        fellows = self.spread_selectors.of(namespace, labels, owners)
        if fellows is None or not own.constraints:
            return fellows, given
        return fellows, tuple(replace(constraint, selector=fellows) for constraint in own.constraints)

    def _demands(
        self, obj: PodObject, hints: Hints, template: EqualPods, member: Membership, own: PodsOfScheduler
    ) -> Demands:
        """What a pod needs beyond its requests."""
        spec, demands = obj.spec or PodSpec(), hints.demands
        if spec.scheduling_group is not None:
            demands = of_group(demands, spec.scheduling_group)
        if member.gang is not None:
            demands = of_workload(demands, member.gang)
        if own.ignored is not None and (beyond := own.ignored.among(template.requests)):
            demands = replace(demands, beyond=beyond)  # resources that only extenders look at
        if template.asks_lent_gpu:
            grace_s = spec.termination_grace_period_seconds
            demands = replace(demands, lent_gpu_grace_s=max(0, _USUAL_GRACE_S if grace_s is None else grace_s))
        if not spec.resource_claims and not template.extended:
            return demands
        terms = self.groups.of(obj.metadata.namespace or "default", spec.scheduling_group)
        extended = mapped(template.extended, self.extended)
        claims = read_needs(obj.metadata, spec, obj.status or PodStatus(), extended, terms)
        return demands if claims is None else replace(demands, claims=claims)

    def _believed(self, uid: str, node: str, created_s: float, pod: Pod, hints: Hints) -> Holdings:
        match self._seals.standing(uid, node, created_s, hints.holding_texts):
            case SealStanding.SEALED:
                return hints.holds
            case SealStanding.CHECKED:
                return entitled(pod, hints.demands, hints.holds)
            case SealStanding.REFUSED:
                return NO_HOLDINGS

    def _owned_by(self, written: tuple[OwnerReference, ...]) -> tuple[OwnedBy, ...]:
        return self._owned.get(written) or _remember(self._owned, written, tuple(map(_owned, written)))

    def _label_set(self, labels: Mapping[str, str]) -> Labels:
        if not labels:
            return NO_LABELS
        pairs = tuple(labels.items())
        return self._labels.get(pairs) or _remember(self._labels, pairs, Labels(pairs))

    def _pairs(self, settled: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        pairs = tuple(sorted(settled.items()))
        return self._settled.get(pairs) or _remember(self._settled, pairs, pairs)

    def _template(self, spec: PodSpec, status: PodStatus, labels: Mapping[str, str]) -> EqualPods:
        shared = (
            spec.containers,
            spec.init_containers,
            spec.overhead,
            spec.resources,
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
            spec.host_network,
            spec.scheduling_gates,
            spec.workload_ref is not None,
            spec.scheduling_group is not None and not spec.scheduling_group.pod_group_name,
            spec.priority,
            labels.get(QOS_CLASS),
            labels.get(PRIORITY_CLASS),
            labels.get(SUB_PRIORITY),
            resized(status),
        )
        self._encoder.encode_into(shared, self._buffer)
        key = bytes(self._buffer)
        if b'atchLabelKeys":[' in key:  # of affinity or spread: their selectors depend on the pod's labels
            key += self._encoder.encode(labels)
        return self._templates.get(key) or _remember(self._templates, key, read_template(spec, status, labels))


def reads_alike(old: PodObject, new: PodObject) -> bool:
    """Whether nothing that is read of a pod has changed: most updates are of conditions, or of others' annotations."""
    before = replace_fields(old.metadata, resource_version=new.metadata.resource_version)
    return before == new.metadata and old.spec == new.spec and old.status == new.status


def _settled(labels: Mapping[str, str], annotations: PodAnnotations | None) -> Mapping[str, str]:
    if annotations is None:
        return settled_values(labels, {}) if labels else {}
    return settled_values(labels, {TENANT: annotations.tenant, EXTENDED_SPEC: annotations.extended_spec})


def _as_settled(
    labels: Mapping[str, str], annotations: PodAnnotations | None, counts: Mapping[str, str]
) -> tuple[Mapping[str, str], PodAnnotations | None]:
    """Labels and annotations with what counts of class, quota and tenant."""
    others = {name: value for name, value in labels.items() if name not in SETTLED_LABELS}
    stated = {name: counts[name] for name in SETTLED_LABELS if name in counts}
    tenant, extended = counts.get(TENANT), counts.get(EXTENDED_SPEC)
    return {**others, **stated}, replace_fields(annotations or PodAnnotations(), tenant=tenant, extended_spec=extended)


def _refusal(status: PodStatus) -> str:
    """Why a kubelet did not start a failed pod, for lack of something."""
    reason = status.reason or ""
    return reason if reason.startswith("OutOf") else ""


def _owned(written: OwnerReference) -> OwnedBy:
    return OwnedBy(written.api_version, written.kind, written.name, written.uid, bool(written.controller))


def _controller(owners: tuple[OwnerReference, ...]) -> str:
    """The uid of the controller whose replicas are spread by default, empty if there is none."""
    return next((owner.uid for owner in owners if owner.controller and owner.kind in SPREAD_KINDS), "")


def _unix(time: datetime | None) -> float:
    return nan if time is None else time.timestamp()


def _remember(known: dict[K, T], key: K, value: T) -> T:
    if len(known) >= REMEMBERED:
        known.clear()
    known[key] = value
    return value
