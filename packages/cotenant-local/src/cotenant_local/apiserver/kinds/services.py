"""Services: allocation of cluster IPs, which are then immutable.

Nothing routes to these addresses in a local cluster; they are allocated because clients wait for one and print it.
Source: Kubernetes documentation "Service ClusterIP allocation".
"""

from __future__ import annotations

import ipaddress

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.kinds.behaviour import KindBehaviour, ObjectLookup
from cotenant_local.apiserver.verbs.errors import shown

_RANGE = ipaddress.IPv4Network("10.96.0.0/16")
_FIRST = 256  # lower addresses are reserved for services that request one


class ServiceBehaviour(KindBehaviour):
    """A service."""

    has_status = True
    may_create_on_update = True

    def __init__(self) -> None:
        super().__init__()
        self._next = _FIRST

    def prepare_create(self, obj: Manifest, world: ObjectLookup) -> None:
        """Allocate an address and set the IP family fields."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        obj["status"] = {"loadBalancer": {}}
        if spec["type"] == "ExternalName":
            return
        if not spec.get("clusterIP"):
            spec["clusterIP"] = self._unused_address(world)
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")

    def prepare_update(self, obj: Manifest, old: Manifest, world: ObjectLookup) -> None:
        """Keep the present address if the update leaves it out."""
        spec, before = obj.setdefault("spec", {}), old.get("spec") or {}
        if spec.get("type", "ClusterIP") != "ExternalName":
            for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                if not spec.get(name) and before.get(name):
                    spec[name] = before[name]

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[FieldError]:
        """The address is immutable unless the type changes."""
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        if (
            before.get("clusterIP")
            and spec.get("clusterIP") != before["clusterIP"]
            and spec.get("type") != "ExternalName"
        ):
            if before.get("type") == "ExternalName":
                return []
            why = f"Invalid value: {shown([spec.get('clusterIP')])}: may not change once set"
            return [FieldError("FieldValueInvalid", why, "spec.clusterIPs[0]")]
        return []

    def _unused_address(self, world: ObjectLookup) -> str:
        used = {(service.get("spec") or {}).get("clusterIP") for service in world.scan("", "services")}
        size = _RANGE.num_addresses - 1 - _FIRST
        for _ in range(size):
            address = str(_RANGE[self._next])
            self._next = _FIRST + (self._next + 1 - _FIRST) % size
            if address not in used:
                return address
        return "None"
