"""PersistentVolume: what it offers, the claim it belongs to, the nodes it can be reached from, and what is attached
to a node for it.
"""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Quantities, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta, ObjectReference, PhaseStatus
from cotenant.drivers.kube.kinds.selectors import ApiNodeSelector, read_node_selector
from cotenant.model.cluster import affinity
from cotenant.model.cluster.observed import Attachment


class VolumeNodeAffinity(ApiStruct, frozen=True):
    """Where a volume can be reached from."""

    required: ApiNodeSelector | None = None


class CSIVolume(ApiStruct, frozen=True):
    """CSIPersistentVolumeSource."""

    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(ApiStruct, frozen=True):
    """A volume that exists."""

    capacity: Quantities = None
    access_modes: tuple[str, ...] | None = None
    claim_ref: ObjectReference | None = None
    storage_class_name: Text = None
    volume_mode: Text = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIVolume | None = None


class PersistentVolume(ApiStruct, frozen=True):
    """v1 PersistentVolume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec | None = None
    status: PhaseStatus | None = None


PERSISTENT_VOLUMES = Kind("PersistentVolume", "", "v1", "persistentvolumes", False, PersistentVolume)


def reach(volume: PersistentVolume) -> affinity.NodeSelector | None:
    """The nodes that reach a volume; None = all. Raises `InvalidInput`."""
    where = volume.spec.node_affinity if volume.spec is not None else None
    if where is None or where.required is None:
        return None
    return read_node_selector(where.required, f"PersistentVolume {volume.metadata.name}: nodeAffinity.required")


def attachment_of(volume: PersistentVolume) -> Attachment | None:
    """What a node attaches for the volume; None where no CSI driver does."""
    csi = volume.spec.csi if volume.spec is not None else None
    return Attachment(csi.driver, csi.volume_handle) if csi is not None and csi.driver and csi.volume_handle else None
