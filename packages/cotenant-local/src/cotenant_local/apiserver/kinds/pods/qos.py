"""A pod's quality-of-service class, from its containers' CPU and memory.

Source: Kubernetes documentation "Pod Quality of Service Classes".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonValue
from cotenant.model.quantities import parse_quantity

_COUNTED = ("cpu", "memory")


@lru_cache(maxsize=4096)
def _amount(value: str | int | float) -> int:
    try:
        return parse_quantity(value).nano
    except InvalidInput:
        return 0  # the schema refuses it


def _containers(spec: Manifest) -> Iterator[object]:
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def qos_class(spec: Manifest) -> str:
    """Guaranteed, Burstable or BestEffort. A missing request counts as the limit; pod-level resources, if set,
    decide alone.
    """
    if isinstance(spec.get("resources"), dict) and spec["resources"]:
        return _class_of([spec["resources"]])
    return _class_of(
        [container.get("resources") or {} for container in _containers(spec) if isinstance(container, dict)]
    )


def _class_of(resources: list[JsonValue]) -> str:
    is_any_set = False
    is_guaranteed = bool(resources)
    for resource in resources:
        requests, limits = resource.get("requests") or {}, resource.get("limits") or {}
        for name in _COUNTED:
            limit = _amount(limits[name]) if name in limits else 0
            request = _amount(requests[name]) if name in requests else limit
            if limit or request:
                is_any_set = True
            if not limit or limit != request:
                is_guaranteed = False
    if not is_any_set:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"
