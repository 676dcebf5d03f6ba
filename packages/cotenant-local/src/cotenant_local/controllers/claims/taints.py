"""Pods whose devices have a NoExecute taint that their claim does not tolerate, or no longer, are deleted.

Source: KEP-5055, "Pod eviction"; kube-controller-manager's device-taint-eviction-controller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from math import inf

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.runtime.actions import PODS, Delete, Draft, EmitEvent, Patch, Plan
from cotenant_local.controllers.views.claims import DeviceTaintView, ResourceClaimView
from cotenant_local.controllers.views.core import seconds, stamp
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.workloads.pods import conditions_with

DeviceName = tuple[str, str, str]  # driver, pool, device


def reconcile(
    claim: ResourceClaimView,
    taints_of: Callable[[DeviceName], Iterable[DeviceTaintView]],
    pod_of: Callable[[str], PodObjectView | None],
    now_s: float,
) -> Plan:
    """`taints_of`: the taints of a device; `pod_of`: a pod of the claim's namespace."""
    draft = Draft()
    at_s = min((_until_s(result, taints_of) for result in results(claim)), default=inf)
    if at_s == inf:
        return draft.plan("its devices are fit for use")
    for holder in claim.status.reserved_for:
        pod = pod_of(holder.name) if holder.is_pod else None
        if pod is None or pod.metadata.uid != holder.uid or pod.metadata.terminating or pod.finished:
            continue
        if now_s < at_s:
            draft.requeue_at(at_s)
            continue
        meta = pod.metadata
        text = ("True", "DeletionByDeviceTaintManager", "Device Taint manager: deleting due to NoExecute taint")
        conditions = conditions_with(pod.status.conditions, "DisruptionTarget", *text, stamp(now_s))
        draft.add(EmitEvent(pod, "Pod", "v1", "Normal", "DeviceTaintManagerEviction", "Marking for deletion"))
        draft.add(Patch(PODS, meta.namespace, meta.name, {"status": {"conditions": conditions}}, "status"))
        draft.add(Delete(PODS, meta.namespace, meta.name, meta.uid), "a device of it must not be used")
    return draft.plan("nobody uses its tainted devices")


def results(claim: ResourceClaimView) -> list[Manifest]:
    """The devices that a claim has."""
    found: list[Manifest] = ((claim.status.allocation or {}).get("devices") or {}).get("results") or []
    return found


def device_name(result: Manifest) -> DeviceName:
    """Which device a result is about."""
    return result.get("driver", ""), result.get("pool", ""), result.get("device", "")


def _until_s(result: Manifest, taints_of: Callable[[DeviceName], Iterable[DeviceTaintView]]) -> float:
    """Until when the claim may keep a device, Unix seconds; inf = for good."""
    until_s = inf
    for taint in taints_of(device_name(result)):
        if taint.effect != "NoExecute":
            continue
        tolerating = [one for one in result.get("tolerations", ()) if _tolerates(one, taint)]
        limits = [one["tolerationSeconds"] for one in tolerating if one.get("tolerationSeconds") is not None]
        if not tolerating:
            return 0.0
        if limits:
            until_s = min(until_s, _added_s(taint.time_added) + min(limits))
    return until_s


def _added_s(added: datetime | None) -> float:
    return seconds(added) or 0.0


def _tolerates(toleration: Manifest, taint: DeviceTaintView) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.effect:
        return False
    if toleration.get("key") and toleration["key"] != taint.key:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.value
