"""Pods from a kubelet's tree, built in a folder."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.fakes.node.kubepods import UIDS, container_group, layout, make, pod_group

from cotenant.drivers.kubelet.tree import KubepodsTree
from cotenant.model.cluster.qos import KubernetesQoS, PriorityClass, QoSClass
from cotenant.model.errors import Unsupported
from cotenant.model.machine.knob import Knob, KnobLease, KnobTarget, LeaseState
from cotenant.model.machine.node_decision import Reason

V1 = {
    "cpu.shares": "512",
    "cpu.cfs_quota_us": "150000",
    "cpu.cfs_period_us": "100000",
    "memory.limit_in_bytes": "1048576",
}
V2 = {"cpu.weight": "20", "cpu.max": "150000 100000", "memory.max": "1048576"}  # 512 shares are a weight of 20


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("systemd", [False, True])
def test_classes_containers_and_limits(tmp_path: Path, version: int, systemd: bool) -> None:
    for number, qos in enumerate(("", "burstable", "besteffort")):
        group = pod_group(UIDS[number], qos, systemd)
        make(tmp_path, version, group)
        make(tmp_path, version, container_group(group, number, systemd), V1 if version == 1 else V2)
        make(tmp_path, version, f"{container_group(group, number, systemd)}/its-own/kubepods/pod{UIDS[8]}")
    make(tmp_path, version, "system.slice/some.service")
    tree = KubepodsTree(layout(tmp_path, version))
    pods = asyncio.run(tree.pods())
    assert [(pod.uid, pod.qos, pod.kubernetes_qos) for pod in pods] == [
        (UIDS[0], QoSClass.LSR, KubernetesQoS.GUARANTEED),
        (UIDS[1], QoSClass.LS, KubernetesQoS.BURSTABLE),
        (UIDS[2], QoSClass.BE, KubernetesQoS.BEST_EFFORT),
    ]
    assert not any(pod.is_named for pod in pods)
    (container,) = pods[1].containers
    assert container.group == container_group(pods[1].group, 1, systemd)
    assert (container.cpu_limit_m, container.memory_limit_bytes) == (1500, 1 << 20)
    assert container.cpu_request_m == (500 if version == 1 else 488)  # a weight is coarser than shares
    assert pods[2].priority_class is PriorityClass.BATCH
    assert tree.best_effort_group() == pods[2].group.rpartition("/")[0]
    tree.close()


def test_first_readings_are_kept_until_the_group_is_recreated(tmp_path: Path) -> None:
    group = container_group(pod_group(UIDS[0], "burstable", True), 1, True)
    make(tmp_path, 2, group, V2)
    tree = KubepodsTree(layout(tmp_path, 2))
    assert tree.read()[0].containers[0].cpu_limit_m == 1500
    (tmp_path / group / "cpu.max").write_text("300000 100000\n")  # our own burst
    assert tree.read()[0].containers[0].cpu_limit_m == 1500
    (tmp_path / group).rename(tmp_path / "kept")  # so that its inode is not used again
    make(tmp_path, 2, group, {**V2, "cpu.max": "300000 100000"})
    assert tree.read()[0].containers[0].cpu_limit_m == 3000


@pytest.mark.parametrize("version", [1, 2])
def test_a_knob_held_by_an_earlier_agent_is_not_the_containers_limit(tmp_path: Path, version: int) -> None:
    pod = pod_group(UIDS[0], "burstable", True)
    groups = [container_group(pod, number, True) for number in (1, 2)]
    for group in groups:
        make(tmp_path, version, group, V1 if version == 1 else V2)
    tree = KubepodsTree(layout(tmp_path, version))
    assert [c.cpu_limit_m for c in tree.read()[0].containers] == [1500, 1500]  # it is told later than it reads
    weight = "100" if version == 1 else "39"  # one CPU: 1024 shares, which runc makes a weight of 39 on v2
    held = {
        KnobTarget(groups[0], Knob.CPU_MAX): "100000 100000",
        KnobTarget(groups[0], Knob.CPU_WEIGHT): weight,
        KnobTarget(groups[0], Knob.MEMORY_MAX): "77",
    }
    told = [
        KnobLease(target, "raw", "held", Reason("r", "t"), LeaseState.HELD, 0.0, 5, before=held[target])
        for target in held
    ]
    tree.held(told)
    assert [c.cpu_limit_m for c in tree.read()[0].containers] == [1000, 1500]
    assert [c.cpu_request_m // 100 for c in tree.read()[0].containers] == ([10, 5] if version == 1 else [9, 4])
    assert tree.read()[0].containers[0].memory_limit_bytes == 77
    tree.held(())
    assert tree.read()[0].containers[0].cpu_limit_m == 1000  # what is known of a group stays


def test_missing_or_malformed_files_give_no_amounts(tmp_path: Path) -> None:
    pod = pod_group(UIDS[0], "burstable", True)
    make(tmp_path, 2, container_group(pod, 1, True), {"cpu.weight": "many", "cpu.max": "??", "memory.max": "max"})
    make(tmp_path, 2, container_group(pod, 2, True))
    make(tmp_path, 2, container_group(pod, 3, True), {"cpu.weight": "1", "cpu.max": "max 100000", "memory.max": "99"})
    containers = KubepodsTree(layout(tmp_path, 2)).read()[0].containers
    assert [(c.cpu_request_m, c.cpu_limit_m, c.memory_limit_bytes) for c in containers] == [
        (0, 0, 0),
        (0, 0, 0),
        (0, 0, 99),
    ]


def test_pods_come_and_go(tmp_path: Path) -> None:
    first, second = (pod_group(uid, "besteffort", False) for uid in UIDS[:2])
    make(tmp_path, 2, first)
    tree = KubepodsTree(layout(tmp_path, 2))
    assert [pod.uid for pod in tree.read()] == [UIDS[0]]
    make(tmp_path, 2, second)
    shutil.rmtree(tmp_path / first)
    assert [pod.uid for pod in tree.read()] == [UIDS[1]]


def test_without_a_kubelet_it_is_unsupported(tmp_path: Path) -> None:
    make(tmp_path, 2, "system.slice/kubepods-like.service")
    tree = KubepodsTree(layout(tmp_path, 2))
    with pytest.raises(Unsupported, match="kubepods"):
        tree.read()
    assert tree.best_effort_group() is None


@pytest.mark.parametrize("version", [1, 2])
def test_a_created_or_deleted_pod_group_is_noticed_without_a_full_reading(tmp_path: Path, version: int) -> None:
    first = pod_group(UIDS[0], "besteffort", True)
    make(tmp_path, version, first)
    tree = KubepodsTree(layout(tmp_path, version))
    assert not tree.changed()  # where kubelet's groups are is not known yet
    tree.read()
    tree.changed()
    assert not tree.changed()
    make(tmp_path, version, container_group(first, 1, True))
    assert not tree.changed()  # is held by what its pod is held by
    for qos in ("", "burstable", "besteffort"):
        group = pod_group(UIDS[1], qos, True)
        make(tmp_path, version, group)
        assert tree.changed()
        assert not tree.changed()
        for folder in tmp_path.rglob(group.rpartition("/")[2]):
            shutil.rmtree(folder)
        make(tmp_path, version, pod_group(UIDS[2], qos, True))  # as many as before, and another
        assert tree.changed()
    tree.close()
