"""Which nodes a pod's claims allow, in every state that a claim can be in."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.drivers.kube.kinds.storage.csi import CSIDriver, CSIStorageCapacity
from cotenant.drivers.kube.kinds.storage.persistent_volume import PersistentVolume
from cotenant.drivers.kube.kinds.storage.persistent_volume_claim import PersistentVolumeClaim
from cotenant.drivers.kube.kinds.storage.storage_class import StorageClass
from cotenant.drivers.kube.kinds.storage.volume_index import VolumeIndex
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.observed import ClaimBinding, ObservedPod, StorageRoom, VolumeNeed

Made = dict[str, Any]


def parse(form: type[Any], manifest: Made) -> Any:
    return msgspec.json.decode(msgspec.json.encode(manifest), type=form)


def volume(name: str, size: str = "10Gi", zone: str = "", phase: str = "Available", **spec: Any) -> Made:
    made: Made = {
        "metadata": {"name": name, "labels": spec.pop("labels", {})},
        "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"} | spec,
        "status": {"phase": phase},
    }
    if zone:
        expression = {"key": "zone", "operator": "In", "values": [zone]}
        made["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return made


def claim(name: str = "data", size: str = "5Gi", phase: str = "Pending", **more: Any) -> Made:
    meta = {"name": name, "namespace": "d", "uid": f"uid-{name}"} | more.pop("meta", {})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": "local"}
    return {"metadata": meta, "spec": spec | more, "status": {"phase": phase}}


def storage_class(
    name: str, provisioner: str = "kubernetes.io/no-provisioner", mode: str = "WaitForFirstConsumer", **more: Any
) -> Made:
    return {
        "metadata": {"name": name} | more.pop("meta", {}),
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    } | more


def read(*known: Made, volumes: Any = None) -> ObservedPod:
    index = VolumeIndex()
    for made in known:
        name = made["metadata"]["name"]
        if "provisioner" in made:
            index.put_class(name, parse(StorageClass, made))
        elif "namespace" in made["metadata"]:
            index.put_claim(f"d/{name}", parse(PersistentVolumeClaim, made))
        else:
            index.put_volume(name, parse(PersistentVolume, made))
    manifest = {
        "metadata": {"name": "p", "namespace": "d", "uid": "pod-uid"},
        "spec": {"volumes": volumes or [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
    }
    return PodReader(index).pod(parse(PodObject, manifest))


def need(*known: Made, volumes: Any = None) -> VolumeNeed:
    pod = read(*known, volumes=volumes)
    assert pod.unsupported == ()
    (found,) = pod.volumes
    return found


LOCAL = storage_class("local")


def test_a_bound_claim_goes_where_its_volume_is() -> None:
    reference = {"namespace": "d", "name": "data", "uid": "uid-data"}
    found = need(claim(phase="Bound", volumeName="pv"), volume("pv", zone="a", phase="Bound", claimRef=reference))
    assert found.binding is ClaimBinding.BOUND
    assert found.waits_for == ""
    (option,) = found.options
    assert option.nodes is not None
    assert option.nodes.matches("n", Labels.of({"zone": "a"}))
    assert not option.nodes.matches("n", Labels.of({"zone": "b"}))


def test_a_bound_volume_without_affinity_is_reachable_from_everywhere() -> None:
    (option,) = need(claim(phase="Bound", volumeName="pv"), volume("pv")).options
    assert option.nodes is None


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ([], "does not exist"),
        ([claim(), storage_class("local", "x", "Immediate")], "not bound yet"),
        ([claim(storageClassName="")], "not bound yet"),
        ([claim()], "StorageClass local"),
        ([claim(phase="Bound", volumeName="pv")], "PersistentVolume pv"),
        ([claim(phase="Pending", volumeName="pv"), volume("pv")], "not bound yet"),
        ([claim(phase="Bound", volumeName="pv"), volume("pv", claimRef={"uid": "other"})], "another claim"),
        ([claim(phase="Lost", volumeName="pv"), volume("pv")], "lost"),
        ([claim(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})], "being deleted"),
        ([claim(), LOCAL, volume("pv", "1Gi")], "no PersistentVolume"),
    ],
)
def test_what_a_claim_waits_for(known: list[Made], why: str) -> None:
    found = need(*known)
    assert found.options == ()
    assert why in found.waits_for


def test_static_volumes_that_fit_smallest_first() -> None:
    found = need(
        claim(selector={"matchLabels": {"disk": "ssd"}}),
        LOCAL,
        volume("big", "100Gi", "a", labels={"disk": "ssd"}),
        volume("fits", "5Gi", "b", labels={"disk": "ssd"}),
        volume("small", "4Gi", labels={"disk": "ssd"}),
        volume("other-label", labels={"disk": "hdd"}),
        volume("other-class", storageClassName="x", labels={"disk": "ssd"}),
        volume("taken", phase="Bound", claimRef={"namespace": "d", "name": "other"}, labels={"disk": "ssd"}),
        volume("released", phase="Released", labels={"disk": "ssd"}),
        volume("block", volumeMode="Block", labels={"disk": "ssd"}),
        volume("read-only", accessModes=["ReadOnlyMany"], labels={"disk": "ssd"}),
    )
    assert found.binding is ClaimBinding.STATIC
    assert [option.volume for option in found.options] == ["fits", "big"]


def test_a_volume_reserved_for_the_claim_is_the_only_one() -> None:
    reserved = volume("mine", "50Gi", claimRef={"namespace": "d", "name": "data"})
    found = need(claim(), LOCAL, volume("free"), reserved)
    assert [option.volume for option in found.options] == ["mine"]


def test_a_provisioned_volume_goes_where_its_class_may_make_it() -> None:
    topologies = [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]
    found = need(claim(), storage_class("local", "csi.example", allowedTopologies=topologies))
    assert found.binding is ClaimBinding.PROVISIONED
    (option,) = found.options
    assert option.volume == ""
    assert option.nodes is not None
    assert option.nodes.matches("n", Labels.of({"zone": "b"}))
    assert not option.nodes.matches("n", Labels.of({"zone": "c"}))
    (anywhere,) = need(claim(), storage_class("local", "csi.example")).options
    assert anywhere.nodes is None


def test_the_newest_default_class_stands_in() -> None:
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    old = storage_class("old", "x", "Immediate", meta=default | {"creationTimestamp": "2025-01-01T00:00:00Z"})
    new = storage_class("new", "csi.example", meta=default | {"creationTimestamp": "2026-01-01T00:00:00Z"})
    assert need(claim(storageClassName=None), old, new).binding is ClaimBinding.PROVISIONED


def test_read_write_once_pod_is_exclusive() -> None:
    made = claim(phase="Bound", volumeName="pv", accessModes=["ReadWriteOncePod"])
    assert need(made, volume("pv")).exclusive


def test_ephemeral_claims_are_named_after_pod_and_volume_and_owned_by_the_pod() -> None:
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod-uid", "controller": True}
    mine = claim("p-v", phase="Bound", volumeName="pv", meta={"ownerReferences": [owner]})
    assert need(mine, volume("pv"), volumes=volumes).waits_for == ""
    foreign = claim("p-v", phase="Bound", volumeName="pv")
    assert "not made for this pod" in need(foreign, volume("pv"), volumes=volumes).waits_for


def test_other_sources_need_nothing() -> None:
    volumes = [
        {"name": "a", "hostPath": {"path": "/x"}},
        {"name": "b", "emptyDir": {}},
        {"name": "c", "configMap": {"name": "x"}},
        {"name": "d", "projected": {"sources": []}},
        {"name": "e", "csi": {"driver": "x"}},
    ]
    pod = read(volumes=volumes)
    assert (pod.volumes, pod.unsupported) == ((), ())


def test_a_claim_named_twice_is_one_need() -> None:
    twice = [{"name": n, "persistentVolumeClaim": {"claimName": "data"}} for n in ("a", "b")]
    assert len(read(claim(), LOCAL, volume("pv"), volumes=twice).volumes) == 1


def test_a_malformed_volume_is_a_reason() -> None:
    pod = read(claim(), LOCAL, volume("pv", "much"))
    assert "pv" in pod.unsupported[0]


def test_version_rises_with_every_change() -> None:
    index = VolumeIndex()
    index.put_class("local", parse(StorageClass, LOCAL))
    index.put_class("local", None)
    assert index.version == 2


def test_the_zone_labels_of_a_bound_volume_restrict_the_nodes() -> None:
    labels = {"topology.kubernetes.io/zone": "a"}
    (option,) = need(claim(phase="Bound", volumeName="pv"), volume("pv", labels=labels)).options
    assert option.nodes is None
    assert option.zone is not None
    assert not option.zone.matches("n", Labels.of({"topology.kubernetes.io/zone": "b"}))


def test_what_is_attached_for_a_claim() -> None:
    csi = {"driver": "csi.example", "volumeHandle": "disk-1"}
    assert need(claim(phase="Bound", volumeName="pv"), volume("pv", csi=csi)).attachment == ("csi.example", "disk-1")
    assert need(claim(phase="Bound", volumeName="pv"), volume("pv")).attachment is None
    assert need(claim(), storage_class("local", "csi.example")).attachment == ("csi.example", "d/data")


def test_a_claim_whose_node_was_selected_stays_there() -> None:
    annotated = {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}
    (option,) = need(claim(meta=annotated), storage_class("local", "csi.example"), volume("pv")).options
    assert option.volume == ""
    assert option.nodes is not None
    assert option.nodes.matches("n1", Labels.of({}))
    assert not option.nodes.matches("n2", Labels.of({}))


@pytest.mark.parametrize(
    ("source", "identity", "read_only"),
    [
        ({"gcePersistentDisk": {"pdName": "pd", "readOnly": True}}, "gcePersistentDisk pd", True),
        ({"awsElasticBlockStore": {"volumeID": "vol", "readOnly": True}}, "awsElasticBlockStore vol", False),
        ({"iscsi": {"iqn": "iqn.x", "targetPortal": "t", "lun": 0}}, "iscsi iqn.x", False),
        ({"rbd": {"monitors": ["m"], "image": "i", "readOnly": True}}, "rbd rbd/i", True),
    ],
)
def test_inline_disks(source: Made, identity: str, read_only: bool) -> None:
    found = need(volumes=[{"name": "v"} | source])
    assert found.disk is not None
    assert (found.disk.identity, found.disk.read_only) == (identity, read_only)


def test_free_storage() -> None:
    index = VolumeIndex()
    index.put_class("local", parse(StorageClass, storage_class("local", "csi.example")))
    index.put_claim("d/data", parse(PersistentVolumeClaim, claim(size="5Gi")))

    def rooms(at: str) -> bool:
        made = {"metadata": {"name": "p", "namespace": "d", "uid": "u"}}
        spec = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
        (found,) = PodReader(index).pod(parse(PodObject, made | {"spec": spec})).volumes
        (option,) = found.options
        seen.append(option.room)
        return option.room is None or option.room.nodes is None or option.room.nodes.matches(at, Labels.of({"at": at}))

    def capacity(name: str, amount: str, at: str, **more: str) -> None:
        made = {"metadata": {"name": name}, "storageClassName": "local", "capacity": amount} | more
        index.put_capacity(f"s/{name}", parse(CSIStorageCapacity, made | {"nodeTopology": {"matchLabels": {"at": at}}}))

    seen: list[StorageRoom | None] = []
    capacity("c1", "4Gi", "a")
    assert rooms("a")  # the driver does not publish its capacity
    index.put_driver("csi.example", parse(CSIDriver, {"spec": {"storageCapacity": True}}))
    assert not rooms("a")
    capacity("c2", "6Gi", "b")
    assert rooms("b")
    capacity("c2", "100Gi", "b")
    assert rooms("b")
    assert seen[-1] is seen[-2]  # nothing changed for this claim
    capacity("c2", "100Gi", "b", maximumVolumeSize="4Gi")
    assert not rooms("b")
    index.put_capacity("s/c3", parse(CSIStorageCapacity, {"storageClassName": "local", "capacity": "5Gi"}))
    assert not rooms("a")  # no topology = no node
