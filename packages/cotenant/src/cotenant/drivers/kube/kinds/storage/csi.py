"""CSINode, CSIDriver, CSIStorageCapacity and VolumeAttachment: what CSI drivers say about nodes and storage.

Limits: capacities of drivers that do not publish CSIStorageCapacity objects are unknown, and so unlimited. Source:
Kubernetes API reference (storage.k8s.io/v1), v1.36.
"""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Int32, Kind, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.drivers.kube.kinds.selectors import Selector

Quantity = str | int | float | None


class VolumeNodeResources(ApiStruct, frozen=True):
    """How many volumes of a driver a node can attach; no count = unlimited."""

    count: Int32 | None = None


class CSINodeDriver(ApiStruct, frozen=True):
    """A driver that is installed on a node."""

    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(ApiStruct, frozen=True):
    """The drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] | None = None


class CSINode(ApiStruct, frozen=True):
    """storage.k8s.io/v1 CSINode; its name is the node's."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec | None = None


class CSIDriverSpec(ApiStruct, frozen=True):
    """Whether the driver's capacity is to be checked before a pod is placed."""

    storage_capacity: bool | None = None


class CSIDriver(ApiStruct, frozen=True):
    """storage.k8s.io/v1 CSIDriver; its name is the provisioner's."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec | None = None


class CSIStorageCapacity(ApiStruct, frozen=True):
    """storage.k8s.io/v1 CSIStorageCapacity: the storage of a class that the nodes of a topology segment can reach."""

    metadata: ObjectMeta = ObjectMeta()
    node_topology: Selector | None = None
    storage_class_name: str = ""
    capacity: Quantity = None
    maximum_volume_size: Quantity = None


class AttachmentSource(ApiStruct, frozen=True):
    """The volume that is attached."""

    persistent_volume_name: Text = None


class VolumeAttachmentSpec(ApiStruct, frozen=True):
    """A volume on a node."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource | None = None


class VolumeAttachment(ApiStruct, frozen=True):
    """storage.k8s.io/v1 VolumeAttachment."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec | None = None


CSI_NODES = Kind("CSINode", "storage.k8s.io", "v1", "csinodes", False, CSINode)
CSI_DRIVERS = Kind("CSIDriver", "storage.k8s.io", "v1", "csidrivers", False, CSIDriver)
CSI_STORAGE_CAPACITIES = Kind(
    "CSIStorageCapacity", "storage.k8s.io", "v1", "csistoragecapacities", True, CSIStorageCapacity
)
VOLUME_ATTACHMENTS = Kind("VolumeAttachment", "storage.k8s.io", "v1", "volumeattachments", False, VolumeAttachment)
