"""etcd and kube-apiserver of a folder, for as long as a benchmark needs them; everything is thrown away afterwards.

etcd does not force its log to disk, so what is measured is computing and not a disk.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.kube.children import child, is_ready, until
from bench.kube.load import Server

_TOKEN = "of-the-benchmark"


@contextmanager
def control_plane(programs: Path, folder: Path) -> Iterator[tuple[Path, dict[str, int]]]:
    """A kubeconfig, and the pids of both programs."""
    etcd, peer, port = (f"127.0.0.1:{_free_port()}" for _ in range(3))
    keys, tokens, kubeconfig = folder / "keys", folder / "tokens", folder / "kubeconfig"
    subprocess.run(["openssl", "genrsa", "-out", str(keys), "2048"], check=True, capture_output=True)
    tokens.write_text(f"{_TOKEN},admin,admin,system:masters\n")
    kubeconfig.write_text(_kubeconfig(f"https://{port}"))
    commands = {
        "etcd": [
            *("--data-dir", str(folder / "etcd"), "--unsafe-no-fsync", "--quota-backend-bytes", str(8 << 30)),
            *("--listen-client-urls", f"http://{etcd}", "--advertise-client-urls", f"http://{etcd}"),
            *("--listen-peer-urls", f"http://{peer}"),
        ],
        "kube-apiserver": [
            *(f"--etcd-servers=http://{etcd}", "--bind-address=127.0.0.1", f"--secure-port={port.rpartition(':')[2]}"),
            *(f"--cert-dir={folder / 'tls'}", f"--token-auth-file={tokens}", "--authorization-mode=AlwaysAllow"),
            *("--service-account-issuer=https://bench", "--service-cluster-ip-range=10.0.0.0/24"),
            *(f"--service-account-key-file={keys}", f"--service-account-signing-key-file={keys}"),
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        ],
    }
    with ExitStack() as stack:
        pids = {
            name: stack.enter_context(child([str(programs / name), *words], folder / f"{name}.log")).pid
            for name, words in commands.items()
        }
        until(lambda: is_ready(Server.of(kubeconfig)), 120.0, folder / "kube-apiserver.log")
        yield kubeconfig, pids


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _kubeconfig(server: str) -> str:
    """Loopback for the time of a benchmark: the certificate is not checked."""
    cluster = {"server": server, "insecure-skip-tls-verify": True}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "bench",
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
            "clusters": [{"name": "bench", "cluster": cluster}],
            "users": [{"name": "bench", "user": {"token": _TOKEN}}],
        }
    )
