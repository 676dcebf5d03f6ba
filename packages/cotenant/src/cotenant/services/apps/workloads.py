"""The pods of a release's workloads, found by who owns them, and why a workload is not ready.

Labels would find pods that only look like a release's; owners are written by controllers, with UIDs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.drivers.kube.client.errors import Forbidden
from cotenant.drivers.kube.client.objects import Objects, ServedKind
from cotenant.engine.apps.obstacles import reasons_of
from cotenant.engine.apps.readiness import standing_of
from cotenant.model.apps.objects import ObjectRef, ref_of
from cotenant.model.fleet.identity import container_guid
from cotenant.model.json_object import JsonMapping, JsonObject

PODS = ServedKind("v1", "pods", True)
_SETS = ServedKind("apps/v1", "replicasets", True)
_JOBS = ServedKind("batch/v1", "jobs", True)
_EVENTS = ServedKind("v1", "events", True)
_CLAIMS = ServedKind("v1", "persistentvolumeclaims", True)
WORKLOADS = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod"})


@dataclass(frozen=True, slots=True)
class OwnedPods:
    """The pods of one workload, and what made them."""

    ref: ObjectRef
    pods: tuple[JsonObject, ...]
    makers: frozenset[str]  # UIDs of the workload and of what it makes


def guid_of(pod: JsonMapping) -> str:
    """A pod's guid: its first image's name and the first eight digits of its UID, the same for everyone who asks."""
    containers = (pod.get("spec") or {}).get("containers") or [{}]
    digits = "".join(str(pod["metadata"].get("uid") or "").split("-"))[:8].ljust(8, "0")
    try:
        random = bytes.fromhex(digits)
    except ValueError:
        random = digits.encode()[:4]
    return container_guid(str(containers[0].get("image") or ""), random)


async def pods_of(objects: Objects, lives: Iterable[JsonMapping]) -> list[OwnedPods]:
    """The pods of these live workloads, in their order."""
    wanted = [live for live in lives if live.get("kind") in WORKLOADS]
    by_namespace: dict[str, tuple[list[JsonObject], list[JsonObject]]] = {}
    for namespace in sorted({live["metadata"]["namespace"] for live in wanted}):
        kinds = {live["kind"] for live in wanted if live["metadata"]["namespace"] == namespace}
        makers = await objects.every(_SETS, namespace) if "Deployment" in kinds else []
        if "CronJob" in kinds:
            makers += await objects.every(_JOBS, namespace)
        by_namespace[namespace] = (makers, await objects.every(PODS, namespace))
    found = []
    for live in wanted:
        makers, pods = by_namespace[live["metadata"]["namespace"]]
        uids = {live["metadata"]["uid"]}
        uids |= {maker["metadata"]["uid"] for maker in makers if _owner(maker) in uids}
        mine = [pod for pod in pods if _owner(pod) in uids or pod["metadata"]["uid"] == live["metadata"]["uid"]]
        mine.sort(key=lambda pod: str(pod["metadata"]["name"]))
        found.append(OwnedPods(ref_of(live), tuple(mine), frozenset(uids)))
    return found


async def why_not_ready(objects: Objects, live: JsonMapping) -> list[str]:
    """Why a workload's pods are not ready, by its pods, its claims and the Events about it."""
    owned = await pods_of(objects, [live])
    if not owned:
        return []
    unready = [pod for pod in owned[0].pods if not _is_ready(pod)]
    namespace = live["metadata"]["namespace"]
    claims = await objects.every(_CLAIMS, namespace) if any(_names_claims(pod) for pod in unready) else []
    warnings: list[JsonObject] = []
    if standing_of(live).wanted > len(owned[0].pods):
        try:
            events = await objects.every(_EVENTS, namespace, {"fieldSelector": "type=Warning"})
        except Forbidden:
            events = []
        warnings = [one for one in events if (one.get("involvedObject") or {}).get("uid") in owned[0].makers]
    if owned[0].pods and not unready and not warnings:
        return []
    return reasons_of(unready, claims, warnings)


def _owner(obj: JsonMapping) -> str:
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((str(one.get("uid")) for one in owners if one.get("controller")), "")


def _is_ready(pod: JsonMapping) -> bool:
    status = pod.get("status") or {}
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ())
    return ready or status.get("phase") == "Succeeded"


def _names_claims(pod: JsonMapping) -> bool:
    return any(volume.get("persistentVolumeClaim") for volume in (pod.get("spec") or {}).get("volumes") or ())
