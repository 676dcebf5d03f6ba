"""Kubernetes' own control plane for a case: etcd, kube-apiserver, kube-controller-manager and kube-scheduler, from the
folder that COTENANT_TEST_KUBERNETES names.

One user with a static token may do everything. There is no kubelet: nodes are objects that a case writes. Every
process ends with the context, and what they write is in one folder.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import eventually, patience
from tests.kube.conftest import Kube

FOLDER = os.environ.get("COTENANT_TEST_KUBERNETES", "")
TOKEN = "token-of-a-test"
GATES = (
    "DRADeviceTaintRules=true",
    "DRAAdminAccess=true",
    "DRAPrioritizedList=true",
    "DRAPartitionableDevices=true",
    "DRAConsumableCapacity=true",
    "DRADeviceTaints=true",
    "DRAExtendedResource=true",
    "DRADeviceBindingConditions=true",
    "TaintTolerationComparisonOperators=true",
)
LISTS = "DRAListTypeAttributes=true"  # alpha in 1.36
_NOT_OF_SCHEDULER = "DRADeviceTaintRules"  # kube-scheduler 1.36.2 panics on the first rule that it sees
RUNTIME = (
    "resource.k8s.io/v1beta1=true",
    "resource.k8s.io/v1beta2=true",
    "resource.k8s.io/v1alpha3=true",
)


@dataclass(frozen=True, slots=True)
class Upstream:
    """A running API server. `folder`: where its processes write; `binaries`: where they come from."""

    kubeconfig: Path
    folder: Path
    binaries: Path
    gates: tuple[str, ...] = GATES

    def client(self) -> Kube:
        """A client that may do everything."""
        return Kube(self.kubeconfig, is_local=False)

    @contextmanager
    def controllers(self, *names: str) -> Iterator[None]:
        """kube-controller-manager with these controllers."""
        command = [
            str(self.binaries / "kube-controller-manager"),
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(names)}",
            "--leader-elect=false",
            f"--secure-port={free_port()}",
            f"--cert-dir={self.folder / 'controllers'}",
            "--kube-api-qps=2000",
            "--kube-api-burst=4000",
            f"--feature-gates={','.join(self.gates)}",
        ]
        with running(command, self.folder / "controllers.log"):
            yield

    @contextmanager
    def scheduler(self, more: Mapping[str, Any] | None = None) -> Iterator[Path]:
        """kube-scheduler as it comes, or with more in its configuration; its log."""
        configuration = self.folder / "scheduler.yaml"
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.kubeconfig), "qps": 2000, "burst": 4000},
            "leaderElection": {"leaderElect": False},
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
            **(more or {}),
        }
        configuration.write_text(yaml.safe_dump(document))
        command = [
            str(self.binaries / "kube-scheduler"),
            f"--config={configuration}",
            f"--secure-port={free_port()}",
            f"--cert-dir={self.folder / 'scheduler'}",
            f"--feature-gates={','.join(gate for gate in self.gates if not gate.startswith(_NOT_OF_SCHEDULER))}",
            "-v=4",
        ]
        log = self.folder / "scheduler.log"
        with running(command, log):
            yield log


def why_not() -> str:
    """Why there is no upstream control plane here; empty where there is."""
    if not FOLDER:
        return "COTENANT_TEST_KUBERNETES names no folder with etcd, kube-apiserver, kube-scheduler and the others"
    wanted = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    missing = [name for name in wanted if not (Path(FOLDER) / name).is_file()]
    return f"{FOLDER} (COTENANT_TEST_KUBERNETES) lacks {', '.join(missing)}" if missing else ""


@contextmanager
def upstream(folder: Path, gates: tuple[str, ...] = GATES) -> Iterator[Upstream]:
    """etcd and kube-apiserver, ready."""
    binaries = Path(FOLDER)
    client, peer, port = free_port(), free_port(), free_port()
    tokens, key = folder / "tokens.csv", folder / "accounts.key"
    tokens.write_text(f"{TOKEN},admin,admin,system:masters\n")
    _make_key(key)
    etcd = [
        str(binaries / "etcd"),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{client}",
        f"--advertise-client-urls=http://127.0.0.1:{client}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
        "--unsafe-no-fsync",
        "--log-level=error",
    ]
    server = [
        str(binaries / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{client}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={folder / 'server'}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://issuer.example",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection",
        "--endpoint-reconciler-type=none",
        "--max-requests-inflight=3000",
        "--max-mutating-requests-inflight=1000",
        "--profiling=false",
        f"--feature-gates={','.join(gates)}",
        f"--runtime-config={','.join(RUNTIME)}",
    ]
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(_kubeconfig(port)))
    with ExitStack() as stack:
        stack.enter_context(running(etcd, folder / "etcd.log"))
        stack.enter_context(running(server, folder / "server.log"))
        found = Upstream(kubeconfig, folder, binaries, gates)
        client_ = found.client()
        eventually(
            f"kube-apiserver is ready ({folder / 'server.log'})",
            lambda: client_.request("GET", "/readyz").code == 200,
            within_s=90,
            tolerated=(OSError,),
            interval_s=0.2,
        )
        eventually(
            "it has made its first namespaces",
            lambda: client_.request("GET", "/api/v1/namespaces/default").code == 200,
            within_s=60,
            interval_s=0.2,
        )
        yield found


@contextmanager
def running(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with its output in a file, killed at the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(list(command), stdout=output, stderr=output, start_new_session=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(patience(5))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _make_key(path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def _kubeconfig(port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "upstream",
                "cluster": {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True},
            }
        ],
        "users": [{"name": "admin", "user": {"token": TOKEN}}],
        "contexts": [{"name": "upstream", "context": {"cluster": "upstream", "user": "admin"}}],
        "current-context": "upstream",
    }
