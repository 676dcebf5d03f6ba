"""Disks named in a pod's own spec: as the API writes them, and the values that tell conflicting uses apart.

Source: Kubernetes API reference (GCEPersistentDisk, AWSElasticBlockStore, ISCSI, RBD volume sources); kube-scheduler's
VolumeRestrictions plugin.
Limits: partitions, LUNs and file systems do not distinguish disks, as upstream.
"""

from __future__ import annotations

from msgspec import field

from cotenant.drivers.kube.kinds.kind import ApiStruct, Text
from cotenant.model.cluster.observed import InlineDisk


class GCEPersistentDisk(ApiStruct, frozen=True):
    """GCEPersistentDiskVolumeSource."""

    pd_name: str = ""
    read_only: bool | None = None


class AWSElasticBlockStore(ApiStruct, frozen=True):
    """AWSElasticBlockStoreVolumeSource."""

    volume_id: str = field(default="", name="volumeID")


class ISCSI(ApiStruct, frozen=True):
    """ISCSIVolumeSource."""

    iqn: str = ""
    read_only: bool | None = None


class RBD(ApiStruct, frozen=True):
    """RBDVolumeSource."""

    monitors: tuple[str, ...] | None = None
    image: str = ""
    pool: Text = None
    read_only: bool | None = None


def read_disk(
    gce: GCEPersistentDisk | None, ebs: AWSElasticBlockStore | None, iscsi: ISCSI | None, rbd: RBD | None
) -> InlineDisk | None:
    """The disk of a volume with one of these sources; None for any other volume."""
    if gce is not None:
        return InlineDisk(f"gcePersistentDisk {gce.pd_name}", bool(gce.read_only))
    if ebs is not None:
        return InlineDisk(f"awsElasticBlockStore {ebs.volume_id}")
    if iscsi is not None:
        return InlineDisk(f"iscsi {iscsi.iqn}", bool(iscsi.read_only))
    if rbd is not None:
        return InlineDisk(f"rbd {rbd.pool or 'rbd'}/{rbd.image}", bool(rbd.read_only), rbd.monitors or ())
    return None
