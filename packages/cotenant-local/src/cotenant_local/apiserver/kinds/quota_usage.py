"""What an object counts for in a ResourceQuota, and whether a quota is about it.

Limits: the scopes VolumeAttributesClass and CrossNamespacePodAffinity match nothing; claims of devices are not counted.
Source: Kubernetes documentation "Resource Quotas".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.quantities import NANO, Quantity, QuantityFormat
from cotenant_local.apiserver.kinds.pods.qos import qos_class
from cotenant_local.apiserver.schema.kinds.field_errors import nano

_PLAIN = frozenset({"services", "configmaps", "secrets", "persistentvolumeclaims", "resourcequotas"})
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_OF_CLASS = ".storageclass.storage.k8s.io/"


def count_name(group: str, plural: str) -> str:
    """The name by which every kind can be counted."""
    return f"count/{plural}.{group}" if group else f"count/{plural}"


def usage_of(group: str, plural: str, obj: Manifest) -> dict[str, int]:
    """What an object counts for, in nano units by name."""
    found = {count_name(group, plural): NANO}
    if group:
        return found
    if plural in _PLAIN:
        found[plural] = NANO
    if plural == "pods":
        found |= _of_pod(obj)
    elif plural == "persistentvolumeclaims":
        found |= _of_claim(obj)
    elif plural == "services":
        spec = obj.get("spec") or {}
        kind = spec.get("type")
        ports = sum(bool(port.get("nodePort")) for port in spec.get("ports") or ())
        if kind == "LoadBalancer":
            found["services.loadbalancers"] = NANO
        if kind in ("NodePort", "LoadBalancer"):
            found["services.nodeports"] = (ports or len(spec.get("ports") or ())) * NANO
    return found


def is_about(quota: Manifest, group: str, plural: str, obj: Manifest) -> bool:
    """Whether a quota's scopes take an object in. Only pods have scopes."""
    spec = quota.get("spec") or {}
    scopes = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    if not scopes:
        return True
    return (group, plural) == ("", "pods") and all(_is_in(scope, obj) for scope in scopes)


def lacking(hard: Iterable[str], pod: Manifest) -> list[str]:
    """The names of a quota that some container must state, each with those that do not: `NAME for: CONTAINERS`."""
    spec, found = pod.get("spec") or {}, []
    for name in sorted(hard):
        field, compute = _field(name)
        if compute not in ("cpu", "memory"):
            continue
        without = [
            str(container.get("name"))
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
            if compute not in ((container.get("resources") or {}).get(field) or {})
        ]
        if without:
            found.append(f"{name} for: {','.join(sorted(without))}")
    return found


def shown(name: str, amount_nano: int) -> str:
    """An amount as a quota has it."""
    is_bytes = name.endswith(("memory", "storage")) and not name.startswith("count/")
    return str(Quantity(amount_nano, QuantityFormat.BINARY if is_bytes else QuantityFormat.DECIMAL))


def _field(name: str) -> tuple[str, str]:
    """Of which amounts of a container a name is, and of which resource."""
    if name.startswith("limits."):
        return "limits", name.removeprefix("limits.")
    return "requests", name.removeprefix("requests.")


def _of_pod(pod: Manifest) -> dict[str, int]:
    """Of a pod that has not ended."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return {}
    found = {"pods": NANO}
    for field in ("requests", "limits"):
        for resource, amount in _total(pod.get("spec") or {}, field).items():
            if field == "requests" or resource in _COMPUTE:
                found[f"{field}.{resource}"] = amount
            if field == "requests" and resource in _COMPUTE:
                found[resource] = amount
    return found


def _total(spec: Manifest, field: str) -> dict[str, int]:
    """Containers and sidecars together, or the largest initial container; and the pod's overhead."""
    total: dict[str, int] = {}
    largest: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, _amounts(container, field))
    for container in spec.get("initContainers") or ():
        amounts = _amounts(container, field)
        if container.get("restartPolicy") == "Always":
            _add(total, amounts)
        for name, amount in amounts.items():
            largest[name] = max(largest.get(name, 0), amount)
    for name, amount in largest.items():
        total[name] = max(total.get(name, 0), amount)
    _add(total, {name: nano(amount) for name, amount in (spec.get("overhead") or {}).items()})
    return total


def _amounts(container: Manifest, field: str) -> dict[str, int]:
    return {name: nano(amount) for name, amount in ((container.get("resources") or {}).get(field) or {}).items()}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _of_claim(claim: Manifest) -> dict[str, int]:
    spec = claim.get("spec") or {}
    storage = nano(((spec.get("resources") or {}).get("requests") or {}).get("storage", "0"))
    found = {"requests.storage": storage}
    if spec.get("storageClassName"):
        prefix = f"{spec['storageClassName']}{_OF_CLASS}"
        found |= {f"{prefix}requests.storage": storage, f"{prefix}persistentvolumeclaims": NANO}
    return found


def _is_in(scope: Manifest, pod: Manifest) -> bool:
    spec, name = pod.get("spec") or {}, scope.get("scopeName")
    if name in ("Terminating", "NotTerminating"):
        return (spec.get("activeDeadlineSeconds") is not None) == (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        return (qos_class(spec) == "BestEffort") == (name == "BestEffort")
    if name == "PriorityClass":
        value, values = spec.get("priorityClassName") or "", scope.get("values") or ()
        return {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": bool(value),
            "DoesNotExist": not value,
        }.get(str(scope.get("operator")), False)
    return False
