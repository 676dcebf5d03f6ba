"""The founding layout: one folder per pod with a pod.info file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.fakes.node.kubepods import UIDS, layout, make, pod_group

from cotenant.drivers.kubelet.podinfo import PodInfoFolder, parse_pod_info
from cotenant.drivers.kubelet.tree import KubepodsTree
from cotenant.model.cluster.qos import KubernetesQoS, QoSClass
from cotenant.model.errors import InvalidInput, Unsupported

JSON = '{"namespace": "shop", "name": "cart", "uid": "u", "qosClass": "BestEffort", "tenantId": "red", "restarts": 3}'
LINES = "# written by the node\nnamespace=shop\nname = cart\nuid: u\nqos_class=besteffort\ntenant_id='red'\n\nother\n"


@pytest.mark.parametrize("text", [JSON, LINES])
def test_both_formats_are_parsed(text: str) -> None:
    said = parse_pod_info(text)
    assert (said.namespace, said.name, said.uid, said.tenant) == ("shop", "cart", "u", "red")
    assert (said.kubernetes_qos, said.qos) == (KubernetesQoS.BEST_EFFORT, QoSClass.NONE)


def test_the_folder_is_the_uid_and_classes_of_koordinator_count() -> None:
    said = parse_pod_info("name=cart\nqos=LSR", "folder")
    assert (said.uid, said.qos, said.kubernetes_qos) == ("folder", QoSClass.LSR, None)


@pytest.mark.parametrize("text", ["", "{", "[]", "namespace=shop", '{"name": 3}', "name=cart\nqos=fast"])
def test_malformed_files_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"pod\.info"):
        parse_pod_info(text, "folder")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for uid, qos in zip(UIDS[:4], ("burstable", "burstable", "besteffort", "besteffort"), strict=True):
        make(tmp_path / "cgroup", 2, pod_group(uid, qos, True))
        (tmp_path / "pods" / uid).mkdir(parents=True)
    return tmp_path


def test_pods_with_a_file_and_a_group(place: Path) -> None:
    pods = place / "pods"
    (pods / UIDS[0] / "pod.info").write_text("namespace=shop\nname=cart\ntenant=red\nqos=LS\n")
    (pods / UIDS[1] / "pod.info").write_bytes(b"\xff\xfe")
    (pods / UIDS[2] / "pod.info").symlink_to("/etc/hostname")
    os.mkfifo(pods / UIDS[3] / "pod.info")
    (pods / UIDS[8]).mkdir()
    (pods / UIDS[8] / "pod.info").write_text("name=no-group")
    source = PodInfoFolder(KubepodsTree(layout(place / "cgroup", 2)), str(pods))
    (pod,) = source.read()
    assert (pod.key, pod.tenant, pod.qos, pod.group) == (
        "shop/cart",
        "red",
        QoSClass.LS,
        pod_group(UIDS[0], "burstable", True),
    )
    assert [name.split("/")[0] for name in source.wrong] == list(UIDS[1:4])


def test_without_the_folder(place: Path) -> None:
    with pytest.raises(Unsupported, match="nowhere"):
        PodInfoFolder(KubepodsTree(layout(place / "cgroup", 2)), str(place / "nowhere")).read()
