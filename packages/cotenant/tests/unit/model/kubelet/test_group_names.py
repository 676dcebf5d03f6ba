"""The owner of a group, from its path alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.node.kubepods import UIDS, container_group, container_id, pod_group

from cotenant.model.cluster.qos import KubernetesQoS
from cotenant.model.kubelet.group_names import ContainerGroup, PodCgroup, best_effort_group, is_root, read_group

UID = UIDS[0]
UNDERSCORED = UID.replace("-", "_")
ID = container_id(7)
QOS = {"": KubernetesQoS.GUARANTEED, "burstable": KubernetesQoS.BURSTABLE, "besteffort": KubernetesQoS.BEST_EFFORT}


@pytest.mark.parametrize("prefix", ["", "kubelet/", "a.slice/"])
@pytest.mark.parametrize("qos", QOS)
@pytest.mark.parametrize("systemd", [False, True])
def test_pods_and_containers_of_both_namings(prefix: str, qos: str, systemd: bool) -> None:
    group = prefix + pod_group(UID, qos, systemd)
    pod = read_group(group)
    assert pod == PodCgroup(group, UID, QOS[qos])
    inner = container_group(group, 7, systemd)
    assert read_group(inner) == ContainerGroup(inner, pod, ID, "cri-containerd" if systemd else "")


@pytest.mark.parametrize("runtime", ["cri-containerd", "docker", "crio"])
def test_runtimes_by_their_scopes(runtime: str) -> None:
    group = f"{pod_group(UID, 'burstable', True)}/{runtime}-{ID}.scope"
    found = read_group(group)
    assert isinstance(found, ContainerGroup)
    assert (found.runtime, found.container_id) == (runtime, ID)


def test_a_runtimes_monitor_is_not_a_container() -> None:
    assert read_group(f"{pod_group(UID, 'burstable', True)}/crio-conmon-{ID}.scope") is None


def test_static_pods_have_no_dashes() -> None:
    digest = "0123456789abcdef" * 2
    found = read_group(f"kubepods/burstable/pod{digest}")
    assert isinstance(found, PodCgroup)
    assert found.uid == digest


def test_a_root_below_another_slice() -> None:
    group = (
        "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
        f"kubelet-kubepods-besteffort-pod{UNDERSCORED}.slice"
    )
    found = read_group(group)
    assert isinstance(found, PodCgroup)
    assert (found.uid, found.qos) == (UID, KubernetesQoS.BEST_EFFORT)


@pytest.mark.parametrize(
    "group",
    [
        "",
        "kubepods",
        "kubepods/burstable",
        "kubepods.slice/kubepods-burstable.slice",
        f"pod{UID}",
        f"system.slice/pod{UID}",
        f"kubepods/x/pod{UID}",
        f"kubepods/burstable/besteffort/pod{UID}",
        f"kubepods/burstable/pod{UID}/{ID}/deeper",
        f"kubepods/burstable/pod{UID}/{ID[:-1]}",
        f"kubepods/burstable/pod{UID}/{ID}0",
        f"kubepods/burstable/pod{UID.upper()}x",
        f"kubepods/burstable/pod{UID}\n",
        f"kubepods/burstable/pod../{ID}",
        "kubepods/burstable/pod",
        # the folder of a class says another class than the pod's own name
        f"kubepods.slice/kubepods-burstable.slice/kubepods-besteffort-pod{UNDERSCORED}.slice",
        f"kubepods.slice/kubepods-pod{UNDERSCORED}.slice/kubepods-pod{UNDERSCORED}.slice",
        f"kubepods.slice/other-pod{UNDERSCORED}.slice",
        f"kubepods.slice/kubepods-burstable.slice/kubepods-pod{UNDERSCORED}.slice",
        # both namings mixed
        f"kubepods/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice",
        f"kubepods.slice/burstable/pod{UID}",
        "/".join(["kubepods"] * 1000),
    ],
)
def test_other_paths_belong_to_no_pod(group: str) -> None:
    assert read_group(group) is None


def test_a_container_cannot_pretend_to_contain_pods() -> None:
    mine = container_group(pod_group(UID, "besteffort", True), 7, True)
    for inside in (pod_group(UIDS[1], "", True), pod_group(UIDS[1], "burstable", False)):
        assert read_group(f"{mine}/{inside}") is None


@given(st.text(alphabet="kubepods.slice/-_burstable0123456789abcdef\n\0 ", max_size=200))
def test_any_text_is_read_or_refused(group: str) -> None:
    found = read_group(group)
    if found is not None:
        assert found.group == group


def test_roots_and_the_group_of_best_effort() -> None:
    assert [name for name in ("kubepods", "kubepods.slice", "kubelet-kubepods.slice", "xkubepods",
            "kubepods-burstable.slice", "kubepods.slice.x") if is_root(name)] == [
        "kubepods",
        "kubepods.slice",
        "kubelet-kubepods.slice",
    ]  # fmt: skip
    assert best_effort_group("kubepods") == "kubepods/besteffort"
    assert best_effort_group("a/kubepods.slice") == "a/kubepods.slice/kubepods-besteffort.slice"
    kubelets = "kubelet.slice/kubelet-kubepods.slice"
    assert best_effort_group(kubelets) == f"{kubelets}/kubelet-kubepods-besteffort.slice"
