"""PersistentVolumeClaim: what a claim asks for, and the volume that it is bound to."""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta, PhaseStatus, Resources
from cotenant.drivers.kube.kinds.selectors import Selector


class PersistentVolumeClaimSpec(ApiStruct, frozen=True):
    """What a claim asks for."""

    access_modes: tuple[str, ...] | None = None
    selector: Selector | None = None
    resources: Resources | None = None
    volume_name: Text = None
    storage_class_name: Text = None
    volume_mode: Text = None


class PersistentVolumeClaim(ApiStruct, frozen=True):
    """v1 PersistentVolumeClaim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec | None = None
    status: PhaseStatus | None = None


PERSISTENT_VOLUME_CLAIMS = Kind(
    "PersistentVolumeClaim", "", "v1", "persistentvolumeclaims", True, PersistentVolumeClaim
)
