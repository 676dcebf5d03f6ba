"""A reservation on another node for a pod that is to be evicted.

A rebalancer that evicts before capacity is reserved may leave services without capacity. Reserve first: the pod's own
demands as the template, its controller (or, without one, a pod of its name) as the owner, used once, never on its
current node. The caller waits for the phase Available, evicts, and the replacement is placed there.
Limits: labels of gangs and quotas are removed from the template, so the reservation is charged to no quota and is no
member; the replacement is.

Source: Koordinator, the ReservationFirst mode of PodMigrationJob.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.model.cluster.affinity import NAME_FIELD, NodeAffinity, NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.demands import NO_DEMANDS
from cotenant.model.cluster.labels import Labels, Requirement, SelectorOperator
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups import quota
from cotenant.model.groups.gang import LIGHT_MATCH_POLICY, LIGHT_MIN_AVAILABLE, LIGHT_NAME, POD_GROUP
from cotenant.model.groups.reservation import ControllerOwner, ObjectOwner, Reservation, ReservationOwner

MIGRATION_TTL_S = 300.0  # upstream's lifetime of a migration
GANG_LABELS = frozenset({POD_GROUP, LIGHT_NAME, LIGHT_MIN_AVAILABLE, LIGHT_MATCH_POLICY})


def reservation_for(
    seen: ObservedPod, name: str, now_s: float, ttl_s: float = MIGRATION_TTL_S, uid: str = "", elsewhere: bool = True
) -> Reservation:
    """A reservation for the replacement of this pod. `elsewhere`: not on its node."""
    pod = without_labels(seen.pod, GANG_LABELS | {quota.NAME})
    if elsewhere and seen.node:
        pod = replace(pod, node_affinity=not_on(pod.node_affinity, seen.node))
    return Reservation(
        name=name,
        uid=uid,
        pod=replace(pod, name=name),
        owners=(owner_like(seen),),
        created_s=now_s,
        scheduler=seen.scheduler,
        ttl_s=ttl_s,
        allocate_once=True,
        demands=replace(seen.demands, gang=None) if seen.demands != NO_DEMANDS else NO_DEMANDS,
    )


def owner_like(seen: ObservedPod) -> ReservationOwner:
    """The owner entry for the replacement: the next pod of its controller, or a pod of its name."""
    for by in seen.owned_by:
        if by.controller:
            return ReservationOwner(
                controller=ControllerOwner(
                    by.name, seen.pod.namespace, by.uid, by.kind, by.api_version, controller=True
                )
            )
    return ReservationOwner(object=ObjectOwner(seen.pod.name, seen.pod.namespace))


def not_on(affinity: NodeAffinity | None, node: str) -> NodeAffinity:
    """The same affinity excluding this node. Terms that select nodes by field are unchanged."""
    away = Requirement(NAME_FIELD, SelectorOperator.NOT_IN, (node,))
    terms = affinity.required.terms if affinity is not None and affinity.required is not None else (NodeSelectorTerm(),)
    narrowed = tuple(NodeSelectorTerm(term.expressions, (*term.fields, away)) for term in terms)
    return NodeAffinity(NodeSelector(narrowed), affinity.preferred if affinity is not None else ())


def without_labels(pod: Pod, names: frozenset[str]) -> Pod:
    """The pod without these labels."""
    kept = tuple(pair for pair in pod.labels if pair[0] not in names)
    return pod if len(kept) == len(pod.labels.items) else replace(pod, labels=Labels(kept))
