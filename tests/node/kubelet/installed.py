"""What the chart installs on one node, as real processes beside the stand-in for the kubelet: API server, trace
process, keeper and agent, and pods with real work in their groups.

The agent has no privileges and no probe, and is configured as the chart does it. The pods are objects of the API
server, bound to this node, whose containers the stand-in starts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml
from tests.e2e.running import ENVIRONMENT, Client, Up
from tests.fakes.node.keeper_process import KeeperProcess
from tests.fakes.node.kubelet.node import KubeletNode
from tests.fakes.node.kubelet.pods import Container, Pod, Qos
from tests.node.test_agent import AS_NOBODY, AgentProcess

from cotenant.services.traces.client import TraceClient

NODE, NAMESPACE = "node1", "shop"
CART = Path(__file__).parents[2] / "fakes" / "node" / "kubelet" / "cart.py"
SPINS = ("sh", "-c", "while :; do :; done")
# What an agent with a cluster imports late: see AS_NOBODY.
LATE = """
import importlib, pkgutil
import cotenant.services.agent, cotenant.services.nodeview.doctor
for module in pkgutil.walk_packages(cotenant.services.agent.__path__, "cotenant.services.agent."):
    importlib.import_module(module.name)
"""
BATCH = {"labels": {"koordinator.sh/qosClass": "BE", "koordinator.sh/priority-class": "koord-batch"}}


class Installed:
    """The processes, and the pods that were given to the node."""

    def __init__(
        self,
        node: KubeletNode,
        folder: Path,
        stack: ExitStack,
        apart: Sequence[Path],
        policies: Mapping[str, object],
    ) -> None:
        self.node, self.folder = node, folder
        up = Up(folder / "up", "--bare", "--ephemeral")
        stack.callback(up.kill)
        self.api: Client = up.ready()
        self.kubeconfig = up.kubeconfig
        os.chmod(up.directory, 0o755)
        os.chmod(self.kubeconfig, 0o644)  # the agent is nobody
        self._install()
        self.traces, trace_url = self._start_traces(stack)
        self.pages = TraceClient(trace_url)
        keeper = stack.enter_context(
            KeeperProcess(
                self._made("keeper"),
                [],
                *("--kubelet-groups", "best-effort", "--cgroup-root", str(node.root), "--allow-user", "nobody"),
            )
        )
        self.agent = AgentProcess(
            folder,
            "",
            node=NODE,
            mode="act",
            period_ms=1000,
            writable=[],
            groups=[],
            cgroup_root=str(node.root),
            keeper=str(keeper.ready().path),
            kubelet_groups="best-effort",
            cluster={"kubeconfig": str(self.kubeconfig)},
            policies={"own_cpus": False, "burst": False, "recovery": True, **policies},
            traces={"url": trace_url},
        )
        self.agent.start([sys.executable, "-c", LATE + AS_NOBODY, *self.agent.command[3:]])
        stack.callback(self.agent.kill)
        assert self.agent.process is not None
        for group in apart:
            for pid in (up.pid, self.traces.pid, keeper.process.pid, self.agent.process.pid):
                (group / "cgroup.procs").write_text(str(pid))

    def add(
        self, name: str, container: Container, command: Sequence[str], metadata: Mapping[str, Any] = {}, **spec: object
    ) -> str:
        """A pod that is bound to this node, and runs. Its UID."""
        resources = {}
        if container.cpu_request_m:
            resources = {"requests": {"cpu": f"{container.cpu_request_m}m"}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **metadata},
            "spec": {
                "nodeName": NODE,
                "containers": [{"name": "main", "image": "busybox", "resources": resources, **spec}],
            },
        }
        uid: str = self.api.create(f"/api/v1/namespaces/{NAMESPACE}/pods", pod)["metadata"]["uid"]
        self.node.runtime.command = command
        self.node.kubelet.add(Pod(uid, (container,)))
        qos = {Qos.BEST_EFFORT: "BestEffort", Qos.BURSTABLE: "Burstable", Qos.GUARANTEED: "Guaranteed"}
        status = {"phase": "Running", "qosClass": qos[self.node.kubelet.pods[uid].qos]}
        self.api.patch(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/status", {"status": status})
        return uid

    def remove(self, name: str, uid: str) -> None:
        """The pod ends and is gone."""
        self.node.kubelet.remove(uid)
        self.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}?gracePeriodSeconds=0")

    def service(self, rate: float, work_ms: float, steps: int, request_m: int) -> str:
        """The pod `cart-0`, which sends its spans."""
        command = (
            sys.executable,
            "-S",
            str(CART),
            self.pages.url,
            "cart-0",
            NAMESPACE,
            "cart",
            *map(str, (rate, work_ms, steps)),
        )
        labels = {"app": "cart", "koordinator.sh/qosClass": "LS", "koordinator.sh/priority-class": "koord-prod"}
        return self.add("cart-0", Container(cpu_request_m=request_m), command, {"labels": labels})

    def job(self, count: int, name: str = "hogs", command: Sequence[str] = SPINS) -> list[str]:
        """Pods of one Job, each of which takes what it gets."""
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"{name}-uid", "controller": True}
        asked = {
            "resources": {
                "requests": {"kubernetes.io/batch-cpu": "1000"},
                "limits": {"kubernetes.io/batch-cpu": "1000"},
            }
        }
        metadata = {"ownerReferences": [owner], **BATCH}
        return [self.add(f"{name}-{number}", Container(), command, metadata, **asked) for number in range(count)]

    def objective(self, below_ms: float, target: float = 99) -> None:
        """A ServiceObjective of the service."""
        spec = {
            "service": {"name": "cart", "namespace": NAMESPACE},
            "indicator": {"latency": {"below": f"{below_ms}ms"}},
            "target": target,
            "window": "1d",
            "protect": {"maxAction": "idle"},
        }
        made = {
            "apiVersion": "slo.cotenant.io/v1alpha1",
            "kind": "ServiceObjective",
            "metadata": {"name": "cart-latency"},
        }
        self.api.create(
            f"/apis/slo.cotenant.io/v1alpha1/namespaces/{NAMESPACE}/serviceobjectives", {**made, "spec": spec}
        )

    def _install(self) -> None:
        self.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self.api.create(
            "/api/v1/nodes", {"metadata": {"name": NODE}, "status": {"allocatable": {"cpu": "2", "memory": "4Gi"}}}
        )
        shown = subprocess.run(
            [sys.executable, "-m", "cotenant", "crds"], capture_output=True, text=True, env=ENVIRONMENT, check=True
        )
        for entry in yaml.load_all(shown.stdout, yaml.CSafeLoader):
            if entry["metadata"]["name"].startswith("serviceobjectives"):
                self.api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", entry)

    def _start_traces(self, stack: ExitStack) -> tuple[subprocess.Popen[str], str]:
        command = [
            sys.executable,
            "-m",
            "cotenant",
            "traces",
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "",
            "--kubeconfig",
            str(self.kubeconfig),
        ]
        log = stack.enter_context((self.folder / "traces.log").open("a"))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=ENVIRONMENT)
        stack.callback(process.wait)
        stack.callback(process.kill)
        assert process.stdout is not None
        stack.callback(process.stdout.close)
        said = process.stdout.readline()
        url = next(word for word in said.split() if word.startswith("http://"))
        return process, url.removesuffix("/v1/traces")

    def _made(self, name: str) -> Path:
        (self.folder / name).mkdir(mode=0o755)
        return self.folder / name


@contextmanager
def installed(node: KubeletNode, apart: Sequence[Path] = (), **policies: object) -> Iterator[Installed]:
    """All of it, until the end of the context. `apart`: groups for its processes, as those of a control plane on
    machines of its own.
    """
    folder = Path(tempfile.mkdtemp(prefix="cotenant-test-"))
    folder.chmod(0o1777)
    try:
        with ExitStack() as stack:
            yield Installed(node, folder, stack, apart, policies)
    finally:
        shutil.rmtree(folder)
