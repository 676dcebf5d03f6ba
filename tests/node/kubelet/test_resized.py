"""A pod with native and batch amounts beside an agent and the stand-in for the kubelet: what a resize in place wishes
for changes nothing on the node while it is deferred, and once the kubelet does it, no write of it fails.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.running import Client, Up
from tests.fakes.node.kubelet.node import KubeletNode
from tests.fakes.node.kubelet.pods import Container, Pod, Qos
from tests.node.kubelet.forked import ForkedAgent

pytestmark = pytest.mark.slow
NODE, PODS = "node1", "/api/v1/namespaces/default/pods"
MAIN = Container(name="main", cpu_request_m=100, cpu_limit_m=200)
LENT = {"kubernetes.io/batch-cpu": "300"}
BATCH = {"koordinator.sh/qosClass": "BE", "koordinator.sh/priority-class": "koord-batch"}


class Beside:
    """The pod on the server and on the node, and the agent."""

    def __init__(self, node: KubeletNode, folder: Path, stack: ExitStack) -> None:
        self.node = node
        up = Up(folder / "up", "--bare", "--ephemeral")
        stack.callback(up.kill)
        self.api: Client = up.ready()
        self.api.create(
            "/api/v1/nodes", {"metadata": {"name": NODE}, "status": {"allocatable": {"cpu": "2", "memory": "4Gi"}}}
        )
        containers = [
            {"name": "main", "image": "i", "resources": _resources(MAIN)},
            {"name": "lent", "image": "i", "resources": {"requests": LENT, "limits": LENT}},
        ]
        pod = {"metadata": {"name": "mixed", "labels": BATCH}, "spec": {"nodeName": NODE, "containers": containers}}
        self.uid: str = self.api.create(PODS, pod)["metadata"]["uid"]
        node.kubelet.add(Pod(self.uid, (MAIN, Container(name="lent"))))
        self.says(MAIN)
        self.agent = ForkedAgent(
            folder,
            node.kubelet.path_of(Qos.GUARANTEED),
            "--single",
            node=NODE,
            groups=[],
            sources={"kubepods": True},
            cluster={"kubeconfig": str(up.kubeconfig)},
            cgroup_root=str(node.root),
            discovery_period_s=1,
        )
        stack.callback(self.agent.kill)
        self.agent.start()

    def says(self, has: Container, *conditions: dict[str, str]) -> None:
        """The status that the kubelet writes."""
        statuses: list[dict[str, Any]] = []
        for name, resources in (("main", _resources(has)), ("lent", {"requests": LENT, "limits": LENT})):
            container_id = self.node.runtime.running[self.uid, name].container_id
            statuses.append({"name": name, "containerID": f"containerd://{container_id}", "resources": resources})
        status = {"phase": "Running", "qosClass": "Burstable", "containerStatuses": statuses}
        status["conditions"] = list(conditions)
        self.api.patch(f"{PODS}/mixed/status", {"status": status})

    def wishes(self, wanted: Container) -> None:
        """Anybody resizes it."""
        containers = self.api.get(f"{PODS}/mixed")["spec"]["containers"]
        containers[0]["resources"] = _resources(wanted)
        self.api.patch(f"{PODS}/mixed/resize", {"spec": {"containers": containers}})

    def quotas(self) -> dict[str, str]:
        """Of the pod and its containers."""
        groups = {name: self.node.runtime.path(self.uid, name) for name in ("main", "lent")}
        groups["pod"] = self.node.kubelet.pod_path(self.uid)
        return {
            name: (self.node.root / "cpu" / group / "cpu.cfs_quota_us").read_text().strip()
            for name, group in groups.items()
        }

    def looked(self) -> None:
        """The agent has found its pods anew, and acted."""
        until = self.agent.ticks() + 12  # of 200 ms: more than two discoveries
        self.agent.until(lambda: self.agent.ticks() >= until)


@pytest.fixture
def beside(node: KubeletNode) -> Iterator[Beside]:
    folder = Path(tempfile.mkdtemp(prefix="cotenant-test-"))
    folder.chmod(0o1777)
    try:
        with ExitStack() as stack:
            yield Beside(node, folder, stack)
    finally:
        shutil.rmtree(folder)


def test_a_wish_changes_nothing_and_the_kubelet_finds_nothing_in_its_way(beside: Beside) -> None:
    node = beside.node
    before = len(node.failures)
    beside.agent.until(lambda: beside.quotas()["lent"] == "30000")
    beside.looked()
    had = beside.quotas()
    assert (had["main"], had["lent"]) == ("20000", "30000")
    large = replace(MAIN, cpu_request_m=700, cpu_limit_m=800)
    beside.wishes(large)
    beside.says(MAIN, {"type": "PodResizePending", "status": "True", "reason": "Deferred"})
    beside.looked()
    assert beside.quotas() == had
    for wanted in (large, replace(MAIN, cpu_limit_m=150)):
        beside.wishes(wanted)
        node.kubelet.resize(beside.uid, wanted)  # raises where a write fails
        beside.says(wanted)
        beside.looked()
        found = beside.quotas()
        assert (found["main"], found["lent"]) == (str(100 * wanted.cpu_limit_m), "30000")
    assert node.failures[before:] == []
    assert beside.agent.stop() == 0
    node.kubelet.remove(beside.uid)


def _resources(container: Container) -> dict[str, dict[str, str]]:
    return {"requests": {"cpu": f"{container.cpu_request_m}m"}, "limits": {"cpu": f"{container.cpu_limit_m}m"}}
