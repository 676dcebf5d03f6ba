"""Pods of a real containerd, started for the test with folders of its own (`bench/containerd.py` says where its
programs are looked for).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.node.kubepods import UIDS

pytest.importorskip("grpc")
from bench.containerd import NotHere, Runtime, containerd, remove_everywhere

from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.cri.client import CriClient
from cotenant.drivers.cri.discovery import CriPods
from cotenant.drivers.kubelet.tree import KubepodsTree
from cotenant.model.cluster.annotations import TENANT
from cotenant.model.cluster.labels import QOS_CLASS
from cotenant.model.cluster.qos import KubernetesQoS, QoSClass
from cotenant.model.machine.node_pod import NodePodPhase

pytestmark = pytest.mark.slow
LIMITS = {"cpu_period": 100_000, "cpu_quota": 50_000, "cpu_shares": 256, "memory_limit_in_bytes": 64 << 20}


@pytest.fixture
def runtime(tmp_path: Path, group: str, groups: Groups) -> Iterator[Runtime]:
    try:
        with containerd(tmp_path) as made:
            yield made
    except NotHere as error:
        pytest.skip(str(error))
    finally:
        groups.kill(group)
        remove_everywhere(group)


def run_pod(runtime: Runtime, uid: str, name: str, parent: str, labels: dict[str, str], notes: dict[str, str]) -> str:
    pod = runtime.pod(uid, name, parent, labels, notes)
    runtime.start(runtime.container(pod, LIMITS))
    return pod.sandbox


def test_pods_of_a_real_runtime(runtime: Runtime, layout: CgroupLayout, group: str) -> None:
    kubepods = f"{group}/kubepods"
    service = run_pod(runtime, UIDS[0], "cart", f"{kubepods}/burstable/pod{UIDS[0]}", {"app": "cart"}, {TENANT: "red"})
    run_pod(runtime, UIDS[1], "batch", f"{group}/elsewhere/b", {QOS_CLASS: "BE"}, {})
    client = CriClient(runtime.socket)
    tree = KubepodsTree(layout)
    source = CriPods(client, tree)
    try:
        assert client.version().startswith("containerd")
        # Another kubelet's pods may be on this machine.
        cart, batch = (pod for pod in source.read() if pod.group.startswith(f"{group}/"))
        assert (cart.key, cart.qos, cart.kubernetes_qos, cart.tenant) == (
            "shop/cart",
            QoSClass.LS,
            KubernetesQoS.BURSTABLE,
            "red",
        )
        assert cart.group == f"{kubepods}/burstable/pod{UIDS[0]}"
        (work,) = cart.containers
        assert (work.name, work.group) == ("work", f"{cart.group}/{work.container_id}")
        assert (work.cpu_request_m, work.cpu_limit_m, work.memory_limit_bytes) == (250, 500, 64 << 20)
        assert (batch.key, batch.qos, batch.group) == ("shop/batch", QoSClass.BE, f"{group}/elsewhere/b")
        assert batch.containers[0].group == f"{batch.group}/{batch.containers[0].container_id}"
        assert source.addresses() == {}  # both are on the node's own network
        runtime.ask("StopPodSandbox", pod_sandbox_id=service)
        assert [(pod.name, pod.phase) for pod in source.read() if pod.uid == UIDS[1]] == [
            ("batch", NodePodPhase.RUNNING)
        ]
        assert all(pod.phase is NodePodPhase.OVER for pod in source.read() if pod.uid == UIDS[0])
    finally:
        client.close()
        tree.close()
