"""PersistentVolumes and claims: phase Pending at creation; a claim's spec is mostly immutable.

Source: Kubernetes documentation "Persistent Volumes".
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.kinds.behaviour import KindBehaviour, ObjectLookup
from cotenant_local.apiserver.kinds.limit_ranges import LimitRanges

_CLAIM_MUTABLE = ("resources", "volumeAttributesClassName")


class VolumeBehaviour(KindBehaviour):
    """A PersistentVolume."""

    has_status = True

    def prepare_create(self, obj: Manifest, world: ObjectLookup) -> None:
        """Set phase Pending."""
        obj["status"] = {"phase": "Pending"}


class VolumeClaimBehaviour(VolumeBehaviour):
    """A PersistentVolumeClaim."""

    def __init__(self) -> None:
        super().__init__()
        self._limits = LimitRanges()

    def admit_last(self, obj: Manifest, old: Manifest | None, world: ObjectLookup) -> None:
        """Refuse a new claim that is out of its namespace's bounds."""
        if old is None:
            self._limits.check_claim(obj, world)

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[FieldError]:
        """Only resources and attributes class may change; the volume name, and an absent storage class, may be set
        once.
        """
        new, before = obj.get("spec") or {}, old.get("spec") or {}
        for name in new.keys() | before.keys():
            if name in _CLAIM_MUTABLE or new.get(name) == before.get(name):
                continue
            if name in ("volumeName", "storageClassName") and not before.get(name):
                continue
            why = (
                "Forbidden: spec is immutable after creation except resources.requests and "
                "volumeAttributesClassName for bound claims"
            )
            return [FieldError("FieldValueForbidden", why, "spec")]
        return []
