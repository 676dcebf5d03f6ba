"""Rollouts in place of evictions: the Deployment of a single replica is rolled out anew, and back.

A label of the pod template, with the job's UID, is what changes it: the Deployment's controller starts the replacement
beside the pod and ends the pod when the replacement is ready, as `kubectl rollout restart` would have it. Replicas are
not touched, so autoscalers of pods and quotas see an ordinary rollout: the replacement passes the same admission as any
pod. What the label was before is an annotation of the Deployment, so any rebalancer can undo it. Only a strategy under
which the pod stays until its replacement is ready will do.
Limits: the label stays after a move; Deployments only.
Source: Kubernetes documentation, "Deployments" (rolling update: maxSurge is rounded up, maxUnavailable down).
"""

from __future__ import annotations

import msgspec

from cotenant.drivers.kube.client.client import JSON_PATCH, Client
from cotenant.drivers.kube.client.errors import Conflict, Invalid, NotFound
from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind
from cotenant.drivers.kube.kinds.parts import ObjectMeta, Something
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.drivers.kube.kinds.workloads import REPLICA_SETS
from cotenant.model.errors import Unsupported
from cotenant.model.groups.migration import SURGED, MigrationJob
from cotenant.model.json_object import JsonObject

BEFORE = "cotenant.io/surge-before"  # annotation of a Deployment: the label's value before the present one


class RollingUpdate(ApiStruct, frozen=True):
    """How many pods more, and how many fewer, a rollout may have."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class DeploymentStrategy(ApiStruct, frozen=True):
    """How a Deployment is rolled out."""

    type: str | None = None
    rolling_update: RollingUpdate | None = None


class DeploymentTemplate(ApiStruct, frozen=True):
    """The pod template's metadata."""

    metadata: ObjectMeta = ObjectMeta()


class DeploymentSpec(ApiStruct, frozen=True):
    """What a rollout depends on."""

    replicas: int | None = None
    paused: bool | None = None
    strategy: DeploymentStrategy = DeploymentStrategy()
    template: DeploymentTemplate = DeploymentTemplate()
    selector: Something | None = None


class Deployment(ApiStruct, frozen=True):
    """apps/v1 Deployment."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()


class _Listed(ApiStruct, frozen=True):
    items: tuple[Deployment, ...] = ()


DEPLOYMENTS = Kind("Deployment", "apps", "v1", "deployments", True, Deployment)


async def start_surge(client: Client, job: MigrationJob) -> None:
    """Roll out, unless this job did. Raises `Unsupported` where a rollout would end the pod first."""
    found = await _deployment(client, job)
    if found is None:
        raise Unsupported(f"{job.pod.key} belongs to no Deployment", "a Deployment, whose rollout starts a pod first")
    labels, notes = found.spec.template.metadata.labels or {}, found.metadata.annotations or {}
    if labels.get(SURGED) == job.uid:
        return
    why = unsuited(found)
    if why:
        raise Unsupported(f"Deployment {found.metadata.namespace}/{found.metadata.name} {why}", "a rollout that surges")
    await _write(client, found, {**labels, SURGED: job.uid}, {**notes, BEFORE: labels.get(SURGED, "")})


async def undo_surge(client: Client, job: MigrationJob) -> None:
    """Give the template back, if it still is the one of this job."""
    found = await _deployment(client, job) or await _by_label(client, job)
    if found is None:
        return
    labels, notes = dict(found.spec.template.metadata.labels or {}), dict(found.metadata.annotations or {})
    if labels.get(SURGED) != job.uid:
        return
    before = notes.pop(BEFORE, "")
    del labels[SURGED]
    await _write(client, found, {**labels, SURGED: before} if before else labels, notes)


def unsuited(found: Deployment) -> str:
    """Why a rollout of this Deployment would not start its pod's replacement first; empty = it does."""
    spec, replicas = found.spec, 1 if found.spec.replicas is None else found.spec.replicas
    if replicas != 1:
        return f"has {replicas} replicas"
    if spec.paused:
        return "is paused"
    if (spec.strategy.type or "RollingUpdate") != "RollingUpdate":
        return f"has the strategy {spec.strategy.type}"
    limits = spec.strategy.rolling_update or RollingUpdate()
    if _of_one("25%" if limits.max_surge is None else limits.max_surge, up=True) < 1:
        return "has a maxSurge of 0"
    if _of_one("25%" if limits.max_unavailable is None else limits.max_unavailable, up=False) > 0:
        return "has a maxUnavailable that lets the only pod go first"
    return ""


def _of_one(share: int | str, *, up: bool) -> int:
    """A number of pods, or a percentage of one pod."""
    if isinstance(share, int):
        return share
    text = share.removesuffix("%")
    percent = int(text) if text.isdigit() and len(text) < 10 else 0
    return -(-percent // 100) if up else percent // 100


async def _deployment(client: Client, job: MigrationJob) -> Deployment | None:
    """The Deployment above the job's pod; None once the pod is gone."""
    owner = await _owner_name(client, job)
    if not owner:
        return None
    try:
        return await client.get(DEPLOYMENTS, job.pod.namespace, owner)
    except NotFound:
        return None


async def _by_label(client: Client, job: MigrationJob) -> Deployment | None:
    """The Deployment that this job rolled out, whatever became of the pod."""
    listed = await client.request("GET", DEPLOYMENTS.path(job.pod.namespace))
    every = msgspec.json.decode(listed, type=_Listed).items
    return next((one for one in every if (one.spec.template.metadata.labels or {}).get(SURGED) == job.uid), None)


async def _owner_name(client: Client, job: MigrationJob) -> str:
    try:
        pod: JsonObject = msgspec.json.decode(await client.request("GET", PODS.path(job.pod.namespace, job.pod.name)))
        meta = msgspec.convert(pod.get("metadata") or {}, ObjectMeta)
        if meta.uid != job.pod.uid:
            return ""
        sets = [entry for entry in meta.owner_references or () if entry.controller and entry.kind == "ReplicaSet"]
        if not sets:
            return ""
        replica_set = await client.get(REPLICA_SETS, job.pod.namespace, sets[0].name)
    except NotFound:
        return ""
    above = replica_set.metadata.owner_references or ()
    return next((entry.name for entry in above if entry.controller and entry.kind == "Deployment"), "")


async def _write(client: Client, found: Deployment, labels: dict[str, str], notes: dict[str, str]) -> None:
    meta = found.metadata
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": meta.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version},
        {"op": "add", "path": "/spec/template/metadata/labels", "value": labels},
        {"op": "add", "path": "/metadata/annotations", "value": notes},
    ]
    try:
        await client.patch(
            DEPLOYMENTS, meta.namespace or "", meta.name or "", msgspec.json.encode(patch), content_type=JSON_PATCH
        )
    except Invalid as error:
        if error.code == 422 and not any(cause.field for cause in error.causes):
            raise Conflict(str(error), error.code, error.reason) from None
        raise
