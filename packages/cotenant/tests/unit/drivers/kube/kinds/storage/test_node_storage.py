"""CSINode and VolumeAttachment objects by node: only nodes that changed are reported."""

from __future__ import annotations

from typing import Any

import msgspec

from cotenant.drivers.kube.kinds.storage.csi import CSINode, VolumeAttachment
from cotenant.drivers.kube.kinds.storage.node_storage import NodeStorageIndex
from cotenant.drivers.kube.kinds.storage.persistent_volume import PersistentVolume
from cotenant.model.cluster.observed import Attachment, NodeStorage


def csi_node(count: int | None) -> CSINode:
    driver: dict[str, Any] = {"name": "csi.example", "nodeID": "i-1"}
    if count is not None:
        driver["allocatable"] = {"count": count}
    return msgspec.convert({"metadata": {"name": "n"}, "spec": {"drivers": [driver]}}, CSINode)


def attachment(node: str, volume: str) -> VolumeAttachment:
    spec = {"attacher": "csi.example", "nodeName": node, "source": {"persistentVolumeName": volume}}
    return msgspec.convert({"metadata": {"name": "att"}, "spec": spec}, VolumeAttachment)


def volume(handle: str) -> PersistentVolume:
    spec = {"csi": {"driver": "csi.example", "volumeHandle": handle}}
    return msgspec.convert({"metadata": {"name": "pv"}, "spec": spec}, PersistentVolume)


def test_limits() -> None:
    index = NodeStorageIndex()
    index.put_node("n", csi_node(2))
    assert index.take() == (NodeStorage("n", (("csi.example", 2),)),)
    index.put_node("n", csi_node(2))
    assert index.take() == ()
    index.put_node("n", csi_node(None))
    assert index.take() == (NodeStorage("n"),)


def test_attached_volumes_are_known_once_their_volume_is() -> None:
    index = NodeStorageIndex()
    index.put_attachment("att", attachment("n", "pv"))
    assert index.take() == (NodeStorage("n"),)
    index.put_volume("pv", volume("disk-1"))
    assert index.take() == (NodeStorage("n", (), frozenset({Attachment("csi.example", "disk-1")})),)
    index.put_attachment("att", None)
    assert index.take() == (NodeStorage("n"),)
