"""What is written of Reservation objects: annotations, the status, and a manifest to create one.

A status that keeps old fields is wrong, and what a reservation was allocated by number must be stored before its status
counts. The status is written whole; allocations are a merge patch of annotations that also removes old ones.
Limits: a manifest has owners by object or controller only.
Source: Koordinator, apis/scheduling/v1alpha1/reservation_types.go.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite

import msgspec

from cotenant.drivers.kube.kinds.custom.reservation import RESERVATIONS
from cotenant.drivers.kube.kinds.pod.demands import written_holdings
from cotenant.drivers.kube.kinds.pod.schema import PodObject, PodSpec
from cotenant.model.cluster.affinity import NodeSelector
from cotenant.model.cluster.demands import GPU_SHARE, Holdings
from cotenant.model.cluster.labels import Requirement
from cotenant.model.cpus.spec import RESOURCE_STATUS
from cotenant.model.devices.allocation import DEVICE_ALLOCATED
from cotenant.model.groups.reservation import (
    KIND,
    CurrentOwner,
    Reservation,
    ReservationCondition,
    ReservationOwner,
    ReservationPhase,
)
from cotenant.model.json_object import JsonObject
from cotenant.model.resources import Amounts, format_amount


def holdings_patch(uid: str, holds: Holdings, version: str = "") -> dict[str, object]:
    """A merge patch of the annotations with its CPUs and devices; older ones are removed. With a version only of
    that one.
    """
    nothing: dict[str, str | None] = {RESOURCE_STATUS: None, DEVICE_ALLOCATED: None, GPU_SHARE: None}
    metadata: dict[str, object] = {"uid": uid, "annotations": nothing | written_holdings(holds)}
    if version:
        metadata["resourceVersion"] = version
    return {"metadata": metadata}


def written_status(
    phase: ReservationPhase,
    node: str,
    allocatable: Amounts,
    allocated: Amounts,
    owners: tuple[CurrentOwner, ...],
    conditions: tuple[ReservationCondition, ...],
) -> dict[str, object]:
    """The whole status."""
    status: JsonObject = {"phase": phase.value, "conditions": [_written(condition) for condition in conditions]}
    if node:
        status["nodeName"] = node
        status["allocatable"] = {name: format_amount(name, amount) for name, amount in allocatable}
        status["allocated"] = {name: format_amount(name, allocated.get(name)) for name, _ in allocatable}
        status["currentOwners"] = [
            {"apiVersion": "v1", "kind": "Pod", "namespace": o.namespace, "name": o.name, "uid": o.uid} for o in owners
        ]
    return status


def _written(condition: ReservationCondition) -> dict[str, object]:
    at = _stamp(condition.since_s)
    return {
        "type": condition.type,
        "status": str(condition.status),
        "reason": condition.reason,
        "message": condition.message,
        **({"lastProbeTime": at, "lastTransitionTime": at} if at else {}),
    }


def _stamp(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if isfinite(at_s) else ""


def manifest(reservation: Reservation, like: PodObject) -> JsonObject:
    """A Reservation to create, for a rebalancer: its template is the spec of a pod, with the labels and node
    affinity of `reservation`.
    """
    spec = msgspec.to_builtins(
        msgspec.structs.replace(
            like.spec or PodSpec(), node_name=None, volumes=None, scheduling_gates=None, affinity=None
        )
    )
    affinity = like.spec.affinity if like.spec is not None else None
    written: JsonObject = msgspec.to_builtins(affinity) if affinity is not None else {}
    if reservation.pod.node_affinity is not None:
        node = written.setdefault("nodeAffinity", {})
        required = reservation.pod.node_affinity.required
        if required is not None:
            node["requiredDuringSchedulingIgnoredDuringExecution"] = _node_selector(required)
    if written:
        spec["affinity"] = written
    spec.setdefault("schedulerName", reservation.scheduler)
    return {
        "apiVersion": f"{RESERVATIONS.group}/{RESERVATIONS.version}",
        "kind": KIND,
        "metadata": {"name": reservation.name},
        "spec": {
            "template": {
                "metadata": {"namespace": reservation.pod.namespace, "labels": dict(reservation.pod.labels)},
                "spec": spec,
            },
            "owners": [_owner_of(owner) for owner in reservation.owners],
            "ttl": f"{reservation.ttl_s:.0f}s",
            "allocateOnce": reservation.allocate_once,
        },
    }


def _owner_of(owner: ReservationOwner) -> dict[str, object]:
    """The manifest of an owner: an object or a controller. Selectors are written by users only."""
    found: JsonObject = {}
    if owner.object is not None:
        one = owner.object
        found["object"] = _given(name=one.name, namespace=one.namespace, uid=one.uid)
    if owner.controller is not None:
        by = owner.controller
        found["controller"] = {
            **_given(name=by.name, namespace=by.namespace, uid=by.uid, kind=by.kind, apiVersion=by.api_version),
            **({} if by.controller is None else {"controller": by.controller}),
        }
    return found


def _given(**fields: str) -> dict[str, str]:
    return {name: text for name, text in fields.items() if text}


def _node_selector(selector: NodeSelector) -> dict[str, object]:
    def expressions(requirements: tuple[Requirement, ...]) -> list[dict[str, object]]:
        return [{"key": r.key, "operator": r.operator.value, "values": list(r.values)} for r in requirements]

    terms_ = []
    for term in selector.terms:
        written: JsonObject = {}
        if term.expressions:
            written["matchExpressions"] = expressions(term.expressions)
        if term.fields:
            written["matchFields"] = expressions(term.fields)
        terms_.append(written)
    return {"nodeSelectorTerms": terms_}
