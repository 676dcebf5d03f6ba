"""A real kubelet that resizes pods in place, beside an agent: what it has applied, and nothing that is only wished for,
decides on which CPUs a pod runs that has some of its own; and nothing ever fails to start.

Needs a kubelet (COTENANT_TEST_KUBELET, 1.33 or later), an API server without a node of this name
(COTENANT_TEST_KUBECONFIG), a containerd (COTENANT_TEST_CONTAINERD), and two CPUs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc")
from bench.containerd import IMAGE, Runtime
from tests.fakes.node.kubelet.node import trees_alone
from tests.fakes.seal_keys import keys, write_pair
from tests.fakes.waiting import eventually
from tests.kube.conftest import REAL, STRATEGIC, Kube
from tests.node.kubelet.forked import ForkedAgent
from tests.node.kubelet.real_kubelet import HOSTNAME, NAMED, RealKubelet
from tests.node.test_cri import runtime

from cotenant.drivers.seals.seals import CERTIFICATE_FILE
from cotenant.model.cluster.labels import PRIORITY_CLASS, QOS_CLASS
from cotenant.model.cluster.seal import SEAL
from cotenant.model.cpus.spec import RESOURCE_STATUS

__all__ = ["runtime"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get(NAMED), reason=f"{NAMED} names no kubelet"),
    pytest.mark.skipif(not REAL, reason="COTENANT_TEST_KUBECONFIG names no server"),
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs"),
]
WITHIN_S = 90.0
OWNS = {QOS_CLASS: "LSR", PRIORITY_CLASS: "koord-prod"}
SERVES = {QOS_CLASS: "LS", PRIORITY_CLASS: "koord-prod"}
Obj = dict[str, Any]


class ResizingNode:
    """The kubelet's node, its pods, and the agent beside it."""

    def __init__(self, kube: Kube, kubelet: RealKubelet, trees: dict[str, Path], folder: Path) -> None:
        self.kube, self.kubelet, self.trees = kube, kubelet, trees
        self.namespace = f"case-{uuid.uuid4().hex[:8]}"
        self.pods = f"/api/v1/namespaces/{self.namespace}/pods"
        kube.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        write_pair(folder)
        self.agent = ForkedAgent(
            folder,
            "kubepods",
            "--single",
            node=HOSTNAME,
            groups=[],
            sources={"kubepods": True},
            cluster={"kubeconfig": REAL, "node_topology": False},
            seal_certificate=str(folder / CERTIFICATE_FILE),
            cgroup_root=str(trees["cpu"].parent),
            cpu_manager_state=str(kubelet.folder / "kubelet" / "cpu_manager_state"),
            discovery_period_s=1,
        )

    def add(self, name: str, labels: dict[str, str], cpu: str, limit: str, cpus: str = "") -> None:
        """A pod that is bound to the node, with the CPUs that a scheduler gave it and sealed; until it runs."""
        amounts = {"requests": {"cpu": cpu, "memory": "32Mi"}, "limits": {"cpu": limit, "memory": "32Mi"}}
        container = {"name": "c", "image": IMAGE, "imagePullPolicy": "Never", "resources": amounts}
        spec = {
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [container],
        }
        made = self.kube.create(self.pods, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        if cpus:
            notes = {RESOURCE_STATUS: json.dumps({"cpuset": cpus})}
            notes[SEAL] = keys()[0].seal(made["metadata"]["uid"], HOSTNAME, notes)
            self.kube.patch(f"{self.pods}/{name}", {"metadata": {"annotations": notes}})
        self.kube.create(
            f"{self.pods}/{name}/binding", {"metadata": {"name": name}, "target": {"kind": "Node", "name": HOSTNAME}}
        )
        self.until(name, "runs", lambda pod: in_place(pod) == cpu)

    def get(self, name: str) -> Obj:
        found: Obj = self.kube.get(f"{self.pods}/{name}")
        return found

    def until(self, name: str, what: str, holds: Callable[[Obj], bool]) -> Obj:
        def found() -> Obj | None:
            pod = self.get(name)
            return pod if holds(pod) else None

        try:
            return eventually(f"{name}: {what}", found, WITHIN_S) or {}
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.get(name)['status']}\n{self.kubelet.said()}") from None

    def resize(self, name: str, cpu: str) -> int:
        """Of a Guaranteed pod."""
        amounts = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
        body = {"spec": {"containers": [{"name": "c", "resources": amounts}]}}
        return self.kube.request("PATCH", f"{self.pods}/{name}/resize", body, content_type=STRATEGIC).code

    def remove(self, name: str) -> None:
        self.kube.request("DELETE", f"{self.pods}/{name}", gracePeriodSeconds="0")

    def container(self, name: str, tree: str) -> Path:
        """Its folder in a tree."""
        uid = self.get(name)["metadata"]["uid"]
        (status,) = self.get(name)["status"]["containerStatuses"]
        (found,) = self.trees[tree].glob(f"kubepods/**/pod{uid}/{status['containerID'].partition('://')[2]}")
        return found

    def stands(self, name: str) -> tuple[str, str]:
        """CPUs and quota (in milli-CPU, "-1" for none) of its container."""
        quota = int((self.container(name, "cpu") / "cpu.cfs_quota_us").read_text())
        return (self.container(name, "cpuset") / "cpuset.cpus").read_text().strip(), str(max(-1, quota // 100))

    def comes(self, name: str, cpus: str, quota: str) -> None:
        """Until its container has them, and still has once the agent has looked again."""
        for _ in range(2):
            try:
                eventually("it stands", lambda: self.stands(name) == (cpus, quota), WITHIN_S, tolerated=(OSError,))
            except AssertionError:
                told = self.agent.told(f"/v1/explain?pod={self.namespace}/{name}", "text")
                raise AssertionError(f"{name}: {self.stands(name)}, not {cpus}, {quota}; {told}") from None
            self.looked()
        assert self.stands(name) == (cpus, quota)

    def looked(self) -> None:
        """The agent has found its pods anew, and acted."""
        until = self.agent.ticks() + 12  # of 200 ms: more than two discoveries
        self.agent.until(lambda: self.agent.ticks() >= until)

    def end(self) -> None:
        self.agent.kill()
        for pod in self.kube.get(self.pods)["items"]:
            self.remove(pod["metadata"]["name"])
        self.kube.request("DELETE", f"/api/v1/namespaces/{self.namespace}")


def in_place(pod: Obj) -> str:
    """The CPU request that the kubelet says its container has."""
    (status,) = pod["status"].get("containerStatuses") or [{}]
    is_there = "running" in status.get("state", {})
    return str(status.get("resources", {}).get("requests", {}).get("cpu", "")) if is_there else ""


def pending(pod: Obj) -> str:
    """Why a resize waits."""
    conditions = pod["status"].get("conditions", ())
    return next((str(c.get("reason")) for c in conditions if c["type"] == "PodResizePending"), "")


@pytest.fixture
def make(runtime: Runtime, group: str) -> Iterator[Callable[[bool], ResizingNode]]:
    """A node with this policy of the kubelet's CPU manager: static or none."""
    kube, top = Kube(Path(REAL), is_local=False), f"{group.rpartition('/')[0]}-resizes"
    with ExitStack() as stack:

        def made(static_cpus: bool) -> ResizingNode:
            folder = Path(tempfile.mkdtemp(prefix="cotenant-test-"))
            folder.chmod(0o1777)
            stack.callback(shutil.rmtree, folder)
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cotenant-test-")))
            trees = stack.enter_context(trees_alone(top, place))
            kubelet = RealKubelet(
                os.environ[NAMED], runtime.folder, top, runtime.socket, IMAGE, static_cpus, kubeconfig=Path(REAL)
            )
            stack.callback(kube.request, "DELETE", f"/api/v1/nodes/{HOSTNAME}")
            stack.callback(_end_pods, runtime)
            stack.callback(kubelet.end)
            kubelet.start()
            node = ResizingNode(kube, kubelet, trees, folder)
            stack.callback(node.end)
            node.agent.start()
            return node

        yield made


def _end_pods(runtime: Runtime) -> None:
    for sandbox in runtime.ask("ListPodSandbox").items:
        runtime.ask("StopPodSandbox", pod_sandbox_id=sandbox.id)
        runtime.ask("RemovePodSandbox", pod_sandbox_id=sandbox.id)


def test_own_cpus_follow_what_the_kubelet_has_applied(make: Callable[[bool], ResizingNode]) -> None:
    node = make(False)
    node.add("web", SERVES, "100m", "200m")
    node.add("own", OWNS, "1", "1", cpus="1")
    node.comes("own", "1", "-1")
    node.comes("web", "0", "200")

    assert node.resize("own", "1500m") == 200
    node.until("own", "has more", lambda pod: in_place(pod) == "1500m")
    node.comes("own", "0-1", "1500")  # its own, and of the others' as much as it may
    node.comes("web", "0", "200")

    assert node.resize("own", "1950m") == 200
    node.until("own", "waits for room", lambda pod: pending(pod) == "Deferred")
    node.comes("own", "0-1", "1500")
    node.remove("web")
    node.until("own", "has it once there is room", lambda pod: in_place(pod) == "1950m")
    node.comes("own", "0-1", "1950")

    assert node.resize("own", "1") == 200
    node.until("own", "has what it began with", lambda pod: in_place(pod) == "1")
    node.comes("own", "1", "-1")
    assert node.resize("own", "500m") == 200
    node.until("own", "has less", lambda pod: in_place(pod) == "500m")
    node.comes("own", "1", "500")  # it keeps its CPU, and may use a half of it
    if node.resize("own", "64") == 200:  # before Kubernetes 1.36 the server takes it, and the kubelet does not
        node.until("own", "is refused", lambda pod: pending(pod) == "Infeasible")
    node.comes("own", "1", "500")

    node.add("late", SERVES, "100m", "200m")
    node.comes("late", "0", "200")
    for process in (node.container("own", "cpu") / "cgroup.procs").read_text().split():
        os.kill(int(process), signal.SIGKILL)
    node.until("own", "is started again", restarted)
    node.comes("own", "1", "500")
    nothing_failed(node)


def test_with_a_static_cpu_manager_all_is_the_kubelets(make: Callable[[bool], ResizingNode]) -> None:
    node = make(True)
    node.add("own", OWNS, "1", "1", cpus="0")  # by a scheduler that does not know of the kubelet's policy
    given = node.stands("own")
    assert given[0] == "1", "the kubelet gave the one that is not reserved"
    node.comes("own", *given)
    text = node.agent.told(f"/v1/explain?pod={node.namespace}/own", "text")
    assert "the kubelet's static CPU manager gives CPUs on this node" in str(text)

    assert node.resize("own", "500m") == 200
    node.until("own", "is refused or has less", lambda pod: pending(pod) == "Infeasible" or in_place(pod) == "500m")
    node.comes("own", *node.stands("own"))
    node.add("late", SERVES, "100m", "200m")
    node.comes("late", *node.stands("late"))
    for process in (node.container("own", "cpu") / "cgroup.procs").read_text().split():
        os.kill(int(process), signal.SIGKILL)
    node.until("own", "is started again", restarted)
    node.comes("own", *node.stands("own"))
    nothing_failed(node)


def restarted(pod: Obj) -> bool:
    (status,) = pod["status"]["containerStatuses"]
    return bool(status["restartCount"] == 1 and "running" in status["state"])


def nothing_failed(node: ResizingNode) -> None:
    said = node.kubelet.log.read_text(errors="replace")
    for words in ("failed to write", "RunContainerError", "StartError"):
        assert words not in said, said[said.index(words) - 1000 :][:2000]
