"""EvictionRequest and Eviction of lifecycle.k8s.io/v1alpha1 (Kubernetes 1.37): reading them, and writing a request.

Limits: of an Eviction only the active responder's report is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from math import nan

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Text, Time
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.cluster.eviction_request import API_GROUP, REQUESTS, EvictionProgress, EvictionRequest
from cotenant.model.errors import InvalidInput

_VERSION = "v1alpha1"


class PodTarget(ApiStruct, frozen=True):
    """A pod by name and UID."""

    name: Text = None
    uid: Text = None


class EvictionTarget(ApiStruct, frozen=True):
    """What is to be evicted."""

    pod: PodTarget | None = None


class RequestSpec(ApiStruct, frozen=True):
    """Who wants it."""

    target: EvictionTarget = EvictionTarget()
    requester: Text = None
    intent: Text = None


class RequestCondition(ApiStruct, frozen=True):
    """How it ended, or that it has not."""

    type: str = ""
    status: str = ""
    reason: Text = None
    message: Text = None


class RequestStatus(ApiStruct, frozen=True):
    """Whether it was done."""

    conditions: tuple[RequestCondition, ...] | None = None


class EvictionRequestObject(ApiStruct, frozen=True):
    """lifecycle.k8s.io/v1alpha1 EvictionRequest."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RequestSpec = RequestSpec()
    status: RequestStatus | None = None


class ActiveResponder(ApiStruct, frozen=True):
    """A responder and its turn."""

    name: str = ""
    state: Text = None


class ResponderReport(ApiStruct, frozen=True):
    """What a responder says."""

    name: str = ""
    start_time: Time | None = None
    heartbeat_time: Time | None = None
    expected_completion_time: Time | None = None
    message: Text = None


class EvictionStatus(ApiStruct, frozen=True):
    """Responders, in no certain order."""

    target_responders: tuple[ActiveResponder, ...] | None = None
    responders: tuple[ResponderReport, ...] | None = None


class EvictionSpec(ApiStruct, frozen=True):
    """Its pod."""

    target: EvictionTarget = EvictionTarget()


class EvictionObject(ApiStruct, frozen=True):
    """lifecycle.k8s.io/v1alpha1 Eviction."""

    metadata: ObjectMeta = ObjectMeta()
    spec: EvictionSpec = EvictionSpec()
    status: EvictionStatus | None = None


EVICTION_REQUESTS = Kind("EvictionRequest", API_GROUP, _VERSION, REQUESTS, True, EvictionRequestObject)
EVICTIONS = Kind("Eviction", API_GROUP, _VERSION, "evictions", True, EvictionObject)


def read_eviction_request(obj: EvictionRequestObject) -> EvictionRequest:
    """A request. Raises `InvalidInput` without a pod."""
    meta, spec = obj.metadata, obj.spec
    if spec.target.pod is None or not spec.target.pod.uid:
        raise InvalidInput(f"EvictionRequest {meta.namespace}/{meta.name}: spec.target", "", "a pod with its uid")
    conditions = (obj.status.conditions if obj.status is not None else None) or ()
    true = {condition.type: condition for condition in conditions if condition.status == "True"}
    failed = true.get("Failed")
    return EvictionRequest(
        meta.namespace or "default",
        meta.name or "",
        meta.uid or "",
        spec.requester or "",
        spec.target.pod.uid,
        spec.target.pod.name or "",
        _unix(meta.creation_timestamp),
        withdrawn=spec.intent != "Eviction" or meta.deletion_timestamp is not None,
        evicted="TargetEvicted" in true,
        failed=(failed.reason or "Failed") if failed is not None else "",
        message=(failed.message or "") if failed is not None else "",
    )


def read_eviction_progress(obj: EvictionObject) -> EvictionProgress:
    """The progress of an Eviction. Raises `InvalidInput` without a pod."""
    meta, pod, status = obj.metadata, obj.spec.target.pod, obj.status or EvictionStatus()
    key = f"{meta.namespace or 'default'}/{meta.name}"
    if pod is None or not pod.uid:
        raise InvalidInput(f"Eviction {key}: spec.target", "", "a pod with its uid")
    turns = status.target_responders or ()
    active = next((turn.name for turn in turns if turn.state == "Active"), "")
    said = next((report for report in status.responders or () if report.name == active), ResponderReport())
    return EvictionProgress(
        key,
        pod.uid,
        active,
        _unix(said.start_time),
        _unix(said.heartbeat_time),
        _unix(said.expected_completion_time),
        said.message or "",
        sum(turn.state == "Inactive" for turn in turns),
        _unix(meta.creation_timestamp),
    )


def request_manifest(
    name: str, namespace: str, pod: str, uid: str, requester: str, labels: Mapping[str, str]
) -> dict[str, object]:
    """A request for the eviction of this pod."""
    return {
        "apiVersion": EVICTION_REQUESTS.api_version,
        "kind": EVICTION_REQUESTS.name,
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {"target": {"pod": {"name": pod, "uid": uid}}, "requester": requester, "intent": "Eviction"},
    }


def _unix(at: datetime | None) -> float:
    return nan if at is None else at.timestamp()
