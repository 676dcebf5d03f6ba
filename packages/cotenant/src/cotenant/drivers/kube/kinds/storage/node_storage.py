"""What each node can attach, and has attached: CSINode and VolumeAttachment objects by node.

A driver attaches a limited number of volumes to a node, and volumes are attached of which no pod is known any more. An
index by node; after changes, `take` gives the nodes whose values are different.
Limits: volumes of in-tree drivers are not translated to those of the CSI drivers that replace them, so they do not
count.
Source: kube-scheduler's NodeVolumeLimits plugin.
"""

from __future__ import annotations

from cotenant.drivers.kube.kinds.storage.csi import CSINode, VolumeAttachment
from cotenant.drivers.kube.kinds.storage.persistent_volume import PersistentVolume, attachment_of
from cotenant.model.cluster.observed import Attachment, NodeStorage


class NodeStorageIndex:
    """CSI nodes, attachments, and the volumes that attachments name."""

    def __init__(self) -> None:
        self._limits: dict[str, tuple[tuple[str, int], ...]] = {}
        self._attachments: dict[str, tuple[str, str]] = {}  # name -> node, volume
        self._on_node: dict[str, set[str]] = {}  # node -> names of attachments
        self._of_volume: dict[str, set[str]] = {}  # volume -> names of attachments
        self._handles: dict[str, Attachment] = {}  # volume -> what is attached
        self._changed: set[str] = set()

    def put_node(self, name: str, node: CSINode | None) -> None:
        """A CSINode as it is now; None = it is gone."""
        drivers = node.spec.drivers or () if node is not None and node.spec is not None else ()
        limits = tuple(
            (driver.name, driver.allocatable.count)
            for driver in drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        )
        if limits != self._limits.get(name, ()):
            self._changed.add(name)
        if limits:
            self._limits[name] = limits
        else:
            self._limits.pop(name, None)

    def put_attachment(self, name: str, attachment: VolumeAttachment | None) -> None:
        """A VolumeAttachment as it is now; None = it is gone."""
        spec = attachment.spec if attachment is not None else None
        volume = (spec.source.persistent_volume_name or "") if spec is not None and spec.source is not None else ""
        now = (spec.node_name, volume) if spec is not None and volume else None
        before = self._attachments.pop(name, None)
        if now is not None:
            self._attachments[name] = now
        if now == before:
            return
        if before is not None:
            self._on_node[before[0]].discard(name)
            self._of_volume[before[1]].discard(name)
            self._changed.add(before[0])
        if now is not None:
            self._on_node.setdefault(now[0], set()).add(name)
            self._of_volume.setdefault(now[1], set()).add(name)
            self._changed.add(now[0])

    def put_volume(self, name: str, volume: PersistentVolume | None) -> None:
        """A PersistentVolume as it is now; None = it is gone."""
        now = attachment_of(volume) if volume is not None else None
        if now == self._handles.get(name):
            return
        if now is not None:
            self._handles[name] = now
        else:
            del self._handles[name]
        for entry in self._of_volume.get(name, ()):
            self._changed.add(self._attachments[entry][0])

    def take(self) -> tuple[NodeStorage, ...]:
        """The nodes that changed since the last call."""
        changed, self._changed = sorted(self._changed), set()
        return tuple(NodeStorage(name, self._limits.get(name, ()), self._attached(name)) for name in changed)

    def _attached(self, node: str) -> frozenset[Attachment]:
        volumes = (self._attachments[name][1] for name in self._on_node.get(node, ()))
        return frozenset(self._handles[volume] for volume in volumes if volume in self._handles)
