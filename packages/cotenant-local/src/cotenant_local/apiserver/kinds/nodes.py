"""Nodes: tainted at creation until the node controller finds them ready.

Sources: Kubernetes documentation "Nodes", "Taint Nodes by Condition" (the admission controller TaintNodesByCondition).
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.kinds.behaviour import KindBehaviour, ObjectLookup

NOT_READY = "node.kubernetes.io/not-ready"
_SET_ONCE = ("podCIDR", "podCIDRs", "providerID")
_MUTABLE = ("taints", "unschedulable", "configSource")


class NodeBehaviour(KindBehaviour):
    """A node. Its status may be set on create, as a kubelet does."""

    has_status = True
    keeps_first_status = True

    def __init__(self, *, taints_new: bool) -> None:
        super().__init__()
        self._taints_new = taints_new  # False if no node controller would remove the taint

    def admit(self, obj: Manifest, old: Manifest | None, world: ObjectLookup) -> None:
        """Add the not-ready taint to a new node, whatever its conditions."""
        if old is not None or not self._taints_new:
            return
        spec = obj.get("spec")
        if not isinstance(spec, dict):
            spec = obj["spec"] = {}
        taints = spec.get("taints") or []
        if not any(taint.get("key") == NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
            spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[FieldError]:
        """Pod CIDRs and the provider ID are set once; of the rest of the spec only taints and cordon may change."""
        new, before = obj.get("spec") or {}, old.get("spec") or {}
        for name in new.keys() | before.keys():
            if name in _MUTABLE or new.get(name) == before.get(name) or (name in _SET_ONCE and not before.get(name)):
                continue
            why = "Forbidden: node updates may only change labels, taints, or capacity"
            if name in _SET_ONCE:
                what = "providerID" if name == "providerID" else "podCIDR"
                why = f'Forbidden: node updates may not change {what} except from "" to valid'
                return [
                    FieldError(
                        "FieldValueForbidden", why, "spec.providerID" if name == "providerID" else "spec.podCIDRs"
                    )
                ]
            return [FieldError("FieldValueForbidden", why, "")]
        return []
