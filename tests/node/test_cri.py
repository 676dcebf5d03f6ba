"""Pods of a real containerd, started for the test with folders of its own.

Its programs are looked for in the folder that COTENANT_TEST_CONTAINERD names and on the path: containerd, ctr, containerd-shim-runc-v2, runc, and a
static busybox for the containers to run. Nothing is installed and nothing is fetched.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.node.kubepods import UIDS

pytest.importorskip("grpc")
import grpc

from cotenant.drivers.cgroup.layout import Layout
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.cri.client import CriClient
from cotenant.drivers.cri.discovery import CriPods
from cotenant.drivers.cri.messages import FIELDS, SERVICE, made_of
from cotenant.drivers.kubelet.tree import KubepodsTree
from cotenant.model.cluster.annotations import TENANT
from cotenant.model.cluster.labels import QOS_CLASS
from cotenant.model.cluster.qos import KubernetesQoS, QoSClass
from cotenant.model.machine.node_pod import Phase

pytestmark = pytest.mark.slow
PROGRAMS = ("containerd", "ctr", "containerd-shim-runc-v2", "runc", "busybox")
IMAGE = "cotenant.test/busybox:1"
# What it takes to make pods, which the client never does.
MAKING = {
    **FIELDS,
    "ImageSpec": {"image": (1, "string")},
    "LinuxSandboxSecurityContext": {"namespace_options": (1, "NamespaceOption")},
    "LinuxPodSandboxConfig": {"cgroup_parent": (1, "string"), "security_context": (2, "LinuxSandboxSecurityContext")},
    "PodSandboxConfig": {
        "metadata": (1, "PodSandboxMetadata"),
        "log_directory": (3, "string"),
        "labels": (6, "map"),
        "annotations": (7, "map"),
        "linux": (8, "LinuxPodSandboxConfig"),
    },
    "RunPodSandboxRequest": {"config": (1, "PodSandboxConfig")},
    "RunPodSandboxResponse": {"pod_sandbox_id": (1, "string")},
    "LinuxContainerConfig": {"resources": (1, "LinuxContainerResources")},
    "ContainerConfig": {
        "metadata": (1, "ContainerMetadata"),
        "image": (2, "ImageSpec"),
        "command": (3, "*string"),
        "labels": (9, "map"),
        "linux": (15, "LinuxContainerConfig"),
    },
    "CreateContainerRequest": {
        "pod_sandbox_id": (1, "string"),
        "config": (2, "ContainerConfig"),
        "sandbox_config": (3, "PodSandboxConfig"),
    },
    "CreateContainerResponse": {"container_id": (1, "string")},
    "StartContainerRequest": {"container_id": (1, "string")},
    "StartContainerResponse": {},
    "StopPodSandboxRequest": {"pod_sandbox_id": (1, "string")},
    "StopPodSandboxResponse": {},
    "RemovePodSandboxRequest": {"pod_sandbox_id": (1, "string")},
    "RemovePodSandboxResponse": {},
}


@dataclass
class Runtime:
    socket: str
    folder: Path
    channel: Any
    kinds: Any

    def ask(self, method: str, **fields: Any) -> Any:
        call = self.channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=self.kinds[f"{method}Request"].SerializeToString,
            response_deserializer=self.kinds[f"{method}Response"].FromString,
        )
        return call(self.kinds[f"{method}Request"](**fields), timeout=30, wait_for_ready=True)

    def run_pod(self, uid: str, name: str, parent: str, labels: dict[str, str], annotations: dict[str, str]) -> str:
        config = {
            "metadata": {"name": name, "uid": uid, "namespace": "shop"},
            "log_directory": str(self.folder / "logs"),
            "labels": labels,
            "annotations": annotations,
            "linux": {"cgroup_parent": f"/{parent}", "security_context": {"namespace_options": {"network": 2}}},
        }
        sandbox: str = self.ask("RunPodSandbox", config=config).pod_sandbox_id
        container = {
            "metadata": {"name": "work"},
            "image": {"image": IMAGE},
            "command": ["/busybox", "sleep", "600"],
            "labels": {"io.kubernetes.container.name": "work"},
            "linux": {
                "resources": {
                    "cpu_period": 100_000,
                    "cpu_quota": 50_000,
                    "cpu_shares": 256,
                    "memory_limit_in_bytes": 64 << 20,
                }
            },
        }
        made = self.ask("CreateContainer", pod_sandbox_id=sandbox, config=container, sandbox_config=config)
        self.ask("StartContainer", container_id=made.container_id)
        return sandbox


@pytest.fixture
def runtime(tmp_path: Path, group: str, groups: Groups) -> Iterator[Runtime]:
    search = os.pathsep.join((os.environ.get("COTENANT_TEST_CONTAINERD", ""), os.environ.get("PATH", "")))
    programs = {name: shutil.which(name, path=search) for name in PROGRAMS}
    missing = [name for name, path in programs.items() if path is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)}; COTENANT_TEST_CONTAINERD may name their folder")
    socket = str(tmp_path / "c.sock")
    (tmp_path / "config.toml").write_text(_config(tmp_path, socket, str(programs["runc"])))
    log = (tmp_path / "log").open("wb")
    command = [str(programs["containerd"]), "--config", str(tmp_path / "config.toml"), "--log-level", "warn"]
    process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "PATH": search})
    channel = grpc.insecure_channel(f"unix://{socket}", options=(("grpc.use_local_subchannel_pool", 1),))
    made = Runtime(socket, tmp_path, channel, made_of(MAKING))
    try:
        try:
            made.ask("Version")
            _image(tmp_path / "image.tar", str(programs["busybox"]))
            import_it = [str(programs["ctr"]), "-a", socket, "-n", "k8s.io", "images", "import", str(tmp_path / "image.tar")]  # fmt: skip
            subprocess.run(import_it, capture_output=True, check=True, timeout=60)
        except (grpc.RpcError, subprocess.SubprocessError) as error:
            told = (tmp_path / "log").read_text(errors="replace")[-500:]
            pytest.skip(f"containerd does not start here: {error}\n{told}")
        yield made
        for sandbox in made.ask("ListPodSandbox").items:
            made.ask("StopPodSandbox", pod_sandbox_id=sandbox.id)
            made.ask("RemovePodSandbox", pod_sandbox_id=sandbox.id)
    finally:
        channel.close()
        _end(process, socket)
        log.close()
        groups.kill(group)
        _remove_everywhere(group)


def _config(folder: Path, socket: str, runc: str) -> str:
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""
version = 2
root = "{folder}/root"
state = "{folder}/state"
[grpc]
  address = "{socket}"
[{cri}]
  sandbox_image = "{IMAGE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [{cri}.cni]
    bin_dir = "{folder}/cni"
    conf_dir = "{folder}/cni"
  [{cri}.containerd]
    snapshotter = "native"
  [{cri}.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [{cri}.containerd.runtimes.runc.options]
    BinaryName = "{runc}"
"""


def _image(path: Path, busybox: str) -> None:
    """An image of one static program, as `docker save` writes it; started by itself it sleeps."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name in ("proc", "sys", "dev", "etc", "tmp"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
        tar.add(busybox, "busybox")
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64",
            "os": "linux",
            "config": {"Entrypoint": ["/busybox", "sleep", "600"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        parts = {"config.json": config, "layer.tar": layer.getvalue(), "manifest.json": json.dumps(manifest).encode()}
        for name, data in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def _end(process: subprocess.Popen[bytes], socket: str) -> None:
    """The daemon, and shims of its own that outlived it."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with suppress(OSError):
                if f"{socket}\0".encode() in (each / "cmdline").read_bytes() and int(each.name) != os.getpid():
                    os.kill(int(each.name), signal.SIGKILL)


def _remove_everywhere(group: str) -> None:
    """runc also makes groups in hierarchies that we have no use for."""
    for tree in Path("/sys/fs/cgroup").iterdir():
        for folder, _, _ in os.walk(tree / group, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)
        with suppress(OSError):
            os.rmdir(tree / group.partition("/")[0])


def test_pods_of_a_real_runtime(runtime: Runtime, layout: Layout, group: str) -> None:
    kubepods = f"{group}/kubepods"
    service = runtime.run_pod(UIDS[0], "cart", f"{kubepods}/burstable/pod{UIDS[0]}", {"app": "cart"}, {TENANT: "red"})
    runtime.run_pod(UIDS[1], "batch", f"{group}/elsewhere/b", {QOS_CLASS: "BE"}, {})
    client = CriClient(runtime.socket)
    tree = KubepodsTree(layout)
    source = CriPods(client, tree)
    try:
        assert client.version().startswith("containerd")
        cart, batch = source.read()
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
        assert [(pod.name, pod.phase) for pod in source.read() if pod.uid == UIDS[1]] == [("batch", Phase.RUNNING)]
        assert all(pod.phase is Phase.OVER for pod in source.read() if pod.uid == UIDS[0])
    finally:
        client.close()
        tree.close()
