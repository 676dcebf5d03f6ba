"""PersistentVolumes and claims: they begin Pending; a bound claim's spec stays.

Source: Kubernetes documentation "Persistent Volumes".
"""

from __future__ import annotations

from cotenant.local.apiserver.contract import Cause, Manifest
from cotenant.local.apiserver.kinds.behaviour import Behaviour, World

_CLAIM_FREE = ("resources", "volumeAttributesClassName")


class VolumeBehaviour(Behaviour):
    """A PersistentVolume."""

    has_status = True

    def prepare_create(self, obj: Manifest, world: World) -> None:
        """Pending until a controller has seen it."""
        obj["status"] = {"phase": "Pending"}


class ClaimBehaviour(VolumeBehaviour):
    """A PersistentVolumeClaim."""

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[Cause]:
        """Only the size may grow; a controller fills the volume's name in once, and the class where it was left out."""
        new, was = obj.get("spec") or {}, old.get("spec") or {}
        for name in new.keys() | was.keys():
            if name in _CLAIM_FREE or new.get(name) == was.get(name):
                continue
            if name in ("volumeName", "storageClassName") and not was.get(name):
                continue
            why = "Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
            return [Cause("FieldValueForbidden", why, "spec")]
        return []
