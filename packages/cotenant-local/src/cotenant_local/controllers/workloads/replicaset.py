"""ReplicaSet: keeps the requested number of pods.

Pods are created, fail, are relabelled and deleted by others, and the number must be kept. A pure function of the set
and its candidate pods. At most `BURST` pods are created or deleted at a time, as upstream.
Limits: the events name only the first pods of a burst.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.runtime.actions import PODS, REPLICA_SETS, Delete, Draft, EmitEvent, Patch, Plan
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.views.workloads import ReplicaSet
from cotenant_local.controllers.workloads.pods import claim, create_pods, deletion_order, pod_from

KIND, API_VERSION = "ReplicaSet", "apps/v1"
BURST = 500


def reconcile(
    rs: ReplicaSet, candidates: Iterable[PodObjectView], now_s: float, related: Iterable[PodObjectView] = ()
) -> Plan:
    """Bring the number of active pods to `spec.replicas` and the status up to date.

    `candidates`: pods of the namespace controlled by it or without a controller. `related`: pods of sibling sets, for
    the deletion order.
    """
    draft = Draft()
    claimed = claim(rs.metadata, KIND, API_VERSION, rs.spec.selector, candidates)
    for patch in claimed.actions:
        draft.add(patch, f"claim {patch.name}")
    active = [p for p in claimed.owned if p.active]
    _status(draft, rs, active, now_s)  # before the creations, so that it is written even if those are refused
    if not rs.metadata.terminating:
        _adjust_pods(draft, rs, active, [*related, *active], now_s)
    return draft.plan("the number of pods is as specified")


def _adjust_pods(
    draft: Draft, rs: ReplicaSet, active: list[PodObjectView], related: list[PodObjectView], now_s: float
) -> None:
    difference = rs.spec.replicas - len(active)
    if difference > 0:
        count = min(difference, BURST)
        pod = pod_from(rs.spec.template, rs.metadata, KIND, API_VERSION)
        create_pods(draft, rs.metadata.namespace, [pod] * count, f"{len(active)} of {rs.spec.replicas} exist")
        draft.add(_event(rs, "SuccessfulCreate", f"Created {count} pod{'s' if count > 1 else ''}"))
    elif difference < 0:
        victims = deletion_order(active, related, now_s)[: min(-difference, BURST)]
        for victim in victims:
            draft.add(Delete(PODS, rs.metadata.namespace, victim.metadata.name, victim.metadata.uid))
        draft.reasons.append(f"delete {len(victims)}: {len(active)} of {rs.spec.replicas} exist")
        named = ", ".join(v.metadata.name for v in victims[:3]) + (", ..." if len(victims) > 3 else "")
        draft.add(_event(rs, "SuccessfulDelete", f"Deleted pod{'s' if len(victims) > 1 else ''}: {named}"))


def _status(draft: Draft, rs: ReplicaSet, active: list[PodObjectView], now_s: float) -> None:
    labels = ((rs.spec.template.get("metadata") or {}).get("labels") or {}).items()
    available = 0
    for pod in active:
        if pod.available(rs.spec.min_ready_seconds, now_s):
            available += 1
        else:
            draft.requeue_at(pod.available_at(rs.spec.min_ready_seconds))
    desired: Manifest = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(labels <= p.metadata.labels.items() for p in active),
        "readyReplicas": sum(p.ready for p in active),
        "availableReplicas": available,
        "observedGeneration": rs.metadata.generation,
    }
    status = rs.status
    current = (
        status.replicas,
        status.fully_labeled_replicas,
        status.ready_replicas,
        status.available_replicas,
        status.observed_generation,
    )
    if current != tuple(desired.values()):
        draft.add(Patch(REPLICA_SETS, rs.metadata.namespace, rs.metadata.name, {"status": desired}, "status"))


def _event(rs: ReplicaSet, reason: str, message: str) -> EmitEvent:
    return EmitEvent(rs, KIND, API_VERSION, "Normal", reason, message)
