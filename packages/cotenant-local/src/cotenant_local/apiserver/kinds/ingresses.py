"""Ingresses get the cluster's default class; a class's controller does not change.

Source: Kubernetes documentation "Ingress" (default IngressClass) and of the admission controller DefaultIngressClass.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.kinds.behaviour import KindBehaviour, ObjectLookup, SpecBehaviour
from cotenant_local.apiserver.verbs.errors import immutable

_CLASSES = ("networking.k8s.io", "ingressclasses")
_DEFAULT = "ingressclass.kubernetes.io/is-default-class"
_OLD_NAME = "kubernetes.io/ingress.class"


class IngressBehaviour(SpecBehaviour):
    """An Ingress."""

    def __init__(self) -> None:
        super().__init__({"loadBalancer": {}}, needs_version=True)

    def admit(self, obj: Manifest, old: Manifest | None, world: ObjectLookup) -> None:
        """Name the default class in a new one that names none; of several the newest."""
        spec = obj.get("spec")
        annotations = obj["metadata"].get("annotations") or {}
        if old is not None or not isinstance(spec, dict) or spec.get("ingressClassName") or _OLD_NAME in annotations:
            return
        defaults = [
            found["metadata"]
            for found in world.scan(*_CLASSES)
            if (found["metadata"].get("annotations") or {}).get(_DEFAULT) == "true"
        ]
        if defaults:
            newest = max(one["creationTimestamp"] for one in defaults)
            spec["ingressClassName"] = min(one["name"] for one in defaults if one["creationTimestamp"] == newest)


class IngressClassBehaviour(KindBehaviour):
    """An IngressClass."""

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[FieldError]:
        """Refuse another controller."""
        new, before = (obj.get("spec") or {}).get("controller"), (old.get("spec") or {}).get("controller")
        return [immutable("spec.controller", new)] if new != before else []
