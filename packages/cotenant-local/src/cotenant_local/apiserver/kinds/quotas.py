"""Quotas at work: a new object that would exceed a ResourceQuota of its namespace is refused.

What is used is counted from what is stored at that moment, not taken from a status that a controller writes later: a
quota counts from the moment it is there, and two objects cannot both take the last place.
Limits: a change of an object (a larger claim, a resized pod) is not refused.
Source: Kubernetes documentation "Resource Quotas", and the words of the admission controller ResourceQuota.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.contract import RequestTarget
from cotenant_local.apiserver.kinds.behaviour import ObjectLookup
from cotenant_local.apiserver.kinds.quota_sums import QuotaSums
from cotenant_local.apiserver.kinds.quota_usage import is_about, lacking, shown, usage_of
from cotenant_local.apiserver.schema.kinds.field_errors import nano

_STORAGE = ("", "resourcequotas")


class ResourceQuotas:
    """The quotas of each namespace, cached until one changes."""

    def __init__(self, sums: QuotaSums) -> None:
        self._sums = sums
        self._version = -1
        self._by_namespace: dict[str, list[Manifest]] = {}

    def check(self, target: RequestTarget, obj: Manifest, world: ObjectLookup) -> None:
        """Raises ApiError 403 for a new object that a quota has no room for."""
        quotas = self._of(target.namespace, world)
        if not quotas:
            return
        group, plural = target.resource.storage
        wanted = usage_of(group, plural, obj)
        for quota in quotas:
            if not is_about(quota, group, plural, obj):
                continue
            hard = (quota.get("spec") or {}).get("hard") or {}
            name = quota["metadata"]["name"]
            unstated = lacking(hard, obj) if (group, plural) == ("", "pods") else []
            if unstated:
                raise _forbidden(target, f"failed quota: {name}: must specify {'; '.join(unstated)}")
            counted = {key: amount for key, amount in wanted.items() if key in hard}
            if not counted:
                continue
            used = self._sums.used_of(quota, group, plural)
            over = [key for key, amount in sorted(counted.items()) if used.get(key, 0) + amount > nano(hard[key])]
            if over:
                listed = [
                    ",".join(f"{key}={shown(key, of[key])}" for key in over)
                    for of in (counted, {key: used.get(key, 0) for key in over}, {key: nano(hard[key]) for key in over})
                ]
                why = f"exceeded quota: {name}, requested: {listed[0]}, used: {listed[1]}, limited: {listed[2]}"
                raise _forbidden(target, why)

    def _of(self, namespace: str, world: ObjectLookup) -> list[Manifest]:
        version = world.version(*_STORAGE)
        if version != self._version:
            self._by_namespace = {}
            for found in world.scan(*_STORAGE):
                self._by_namespace.setdefault(found["metadata"]["namespace"], []).append(found)
            self._version = version
            self._sums.keep(quota for quotas in self._by_namespace.values() for quota in quotas)
        return self._by_namespace.get(namespace, []) if namespace else []


def _forbidden(target: RequestTarget, why: str) -> ApiError:
    resource = target.resource
    plural = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    message = f'{plural} "{target.name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, name=target.name, group=resource.group, kind=resource.plural)
