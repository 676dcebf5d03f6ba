"""Pods from a runtime over a real socket, and from a tree in a folder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("grpc")
import grpc
from tests.fakes.node.fake_cri import FakeContainer, FakeCri, FakeSandbox
from tests.fakes.node.kubepods import UIDS, container_group, container_id, layout, make, pod_group

from cotenant.drivers.cri.client import CriClient
from cotenant.drivers.cri.discovery import CriPods, group_of_process
from cotenant.drivers.kubelet.tree import KubepodsTree
from cotenant.model.cluster.annotations import OBJECTIVE_P99_MS, TENANT
from cotenant.model.cluster.labels import QOS_CLASS
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import Permanent, Transient, Unsupported
from cotenant.model.machine.knob import Vanished
from cotenant.model.machine.node_pod import NodePodPhase

WEB, SIDE, PAUSE = (container_id(number) for number in (1, 2, 3))
V2 = {"cpu.weight": "20", "cpu.max": "150000 100000", "memory.max": "max"}


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[FakeCri]:
    fake = FakeCri(tmp_path).start()
    yield fake
    fake.stop()


@pytest.fixture
def client(runtime: FakeCri) -> Iterator[CriClient]:
    made = CriClient(runtime.socket)
    yield made
    made.close()


@pytest.fixture
def pods(tmp_path: Path, runtime: FakeCri, client: CriClient) -> CriPods:
    group = pod_group(UIDS[0], "burstable", True)
    for number in (1, 2, 3):
        make(tmp_path / "cgroup", 2, container_group(group, number, True), V2)
    labels = {QOS_CLASS: "LS", "app": "cart", "io.kubernetes.pod.name": "cart"}
    runtime.sandboxes.append(
        FakeSandbox(PAUSE, UIDS[0], "cart", "shop", labels=labels, annotations={TENANT: "red", OBJECTIVE_P99_MS: "20"})
    )
    runtime.containers += [
        FakeContainer(WEB, PAUSE, "web", shares=1024, quota=200_000, memory=1 << 30),
        FakeContainer(SIDE, PAUSE, "side"),
        FakeContainer(container_id(9), PAUSE, "init", running=False),
    ]
    return CriPods(client, KubepodsTree(layout(tmp_path / "cgroup", 2)), str(tmp_path / "proc"))


def test_names_labels_and_groups_come_together(pods: CriPods) -> None:
    (pod,) = asyncio.run(pods.pods())
    assert (pod.key, pod.uid, pod.qos, pod.tenant) == ("shop/cart", UIDS[0], QoSClass.LS, "red")
    assert pod.objective_p99_us == 20_000
    assert pod.labels.items == (("app", "cart"), (QOS_CLASS, "LS"))
    web, side = pod.containers  # the sandbox is none
    assert (web.name, web.group) == ("web", container_group(pod.group, 1, True))
    assert (web.cpu_request_m, web.cpu_limit_m, web.memory_limit_bytes) == (1000, 2000, 1 << 30)
    assert (side.name, side.cpu_request_m, side.cpu_limit_m) == ("side", 488, 1500)


def test_a_container_is_queried_once(pods: CriPods, runtime: FakeCri) -> None:
    pods.read()
    pods.read()
    assert runtime.asked.count("ContainerStatus") == 2
    assert runtime.asked.count("ListContainers") == 2
    runtime.containers.pop(0)
    pods.read()
    assert runtime.asked.count("ContainerStatus") == 2


def test_a_pod_that_the_runtime_does_not_know_stays_protected(pods: CriPods, runtime: FakeCri, tmp_path: Path) -> None:
    make(tmp_path / "cgroup", 2, pod_group(UIDS[1], "burstable", True))
    assert [pod.uid for pod in pods.read()] == [UIDS[0], UIDS[1]]
    runtime.sandboxes.clear()
    assert [(pod.uid, pod.qos) for pod in pods.read()] == [(UIDS[0], QoSClass.LS), (UIDS[1], QoSClass.LS)]


def test_groups_outside_the_tree_are_found_by_the_first_process(
    pods: CriPods, runtime: FakeCri, tmp_path: Path
) -> None:
    runtime.sandboxes.append(FakeSandbox("s2", UIDS[5], "loose", labels={QOS_CLASS: "BE"}))
    runtime.containers.append(FakeContainer("c2", "s2", "work", pid=42))
    runtime.containers.append(FakeContainer("c3", "s2", "gone", pid=43))
    runtime.sandboxes.append(FakeSandbox("s3", UIDS[6], "groupless"))
    (tmp_path / "proc/42").mkdir(parents=True)
    (tmp_path / "proc/42/cgroup").write_text("5:memory:/elsewhere\n4:cpu,cpuacct:/jobs/p/c2\n0::/other\n")
    loose = next(pod for pod in pods.read() if pod.uid == UIDS[5])
    assert (loose.group, loose.qos, [c.group for c in loose.containers]) == ("jobs/p", QoSClass.BE, ["jobs/p/c2", ""])
    assert not any(pod.uid == UIDS[6] for pod in pods.read())


def test_the_newest_ready_sandbox_counts(pods: CriPods, runtime: FakeCri) -> None:
    runtime.sandboxes.insert(0, FakeSandbox("old", UIDS[0], "old", ready=False, created_at=99))
    assert pods.read()[0].name == "cart"
    runtime.sandboxes[1].ready = False
    assert (pods.read()[0].name, pods.read()[0].phase) == ("old", NodePodPhase.OVER)


def test_addresses_are_queried_once_and_not_for_host_network_pods(pods: CriPods, runtime: FakeCri) -> None:
    runtime.sandboxes[0].addresses = ("10.0.0.7", "fd00::7")
    runtime.sandboxes.append(FakeSandbox("s2", UIDS[1], "host", addresses=("192.0.2.1",), of_node=True))
    pods.read()
    assert pods.addresses() == {UIDS[0]: ("10.0.0.7", "fd00::7")}
    pods.addresses()
    assert runtime.asked.count("PodSandboxStatus") == 2
    runtime.sandboxes[0].id = "another"
    pods.read()
    runtime.sandboxes[0].id = "gone-meanwhile"
    assert pods.addresses() == {}


def test_a_runtime_that_was_unavailable_is_reconnected(pods: CriPods, runtime: FakeCri, client: CriClient) -> None:
    assert client.version() == "fake 1"
    runtime.stop()
    with pytest.raises(Transient, match=r"cri\.sock"):
        pods.read()
    runtime.start()
    assert len(pods.read()) == 1


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNIMPLEMENTED, Unsupported),
        (grpc.StatusCode.PERMISSION_DENIED, Permanent),
        (grpc.StatusCode.DEADLINE_EXCEEDED, Transient),
        (grpc.StatusCode.INTERNAL, Transient),
    ],
)
def test_refusals(client: CriClient, runtime: FakeCri, code: grpc.StatusCode, kind: type[Exception]) -> None:
    runtime.failure = code
    with pytest.raises(kind):
        client.sandboxes()


def test_vanished_sandboxes_and_containers_raise(client: CriClient) -> None:
    with pytest.raises(Vanished):
        client.network("none")
    with pytest.raises(Vanished):
        client.limits("none")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0::/a/b", "a/b"),
        ("3:cpuset:/x\n2:cpu,cpuacct:/y\n0::/z", "y"),
        ("3:cpuset:/x\n0::/", ""),
        ("0::/../../outside", ""),
        ("garbage\n\n::", ""),
        ("1:name=systemd:/s\n0::/a:b", "a:b"),
    ],
)
def test_the_group_of_a_process(text: str, wanted: str) -> None:
    assert group_of_process(text.splitlines()) == wanted
