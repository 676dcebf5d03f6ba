"""etcd, kube-apiserver and kube-scheduler of a folder that the environment names, for as long as a case needs them.

`COTENANT_TEST_KUBE_BIN`: a folder with these three programs. Everything is thrown away afterwards.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import patience, soon

FOLDER = os.environ.get("COTENANT_TEST_KUBE_BIN", "")
PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler")
MISSING = (
    ""
    if FOLDER and all(os.access(Path(FOLDER, name), os.X_OK) for name in PROGRAMS)
    else f"COTENANT_TEST_KUBE_BIN names no folder with {', '.join(PROGRAMS)}"
)
_TOKEN = "secret-of-the-test"


@asynccontextmanager
async def control_plane(folder: Path) -> AsyncIterator[Path]:
    """The kubeconfig of a cluster with kube-scheduler and without controllers."""
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> None:
        with open(folder / f"{name}.log", "wb") as log:
            started.append(
                subprocess.Popen([str(Path(FOLDER, name)), *arguments], stdout=log, stderr=log, start_new_session=True)
            )

    etcd, peer, port = free_port(), free_port(), free_port()
    tls, keys, tokens, kubeconfig = folder / "tls", folder / "sa.key", folder / "tokens", folder / "kubeconfig"
    subprocess.run(["openssl", "genrsa", "-out", str(keys), "2048"], check=True, capture_output=True)
    tokens.write_text(f"{_TOKEN},admin,admin,system:masters\n")
    try:
        url = f"http://127.0.0.1:{etcd}"
        start(
            "etcd",
            "--data-dir",
            str(folder / "etcd"),
            "--unsafe-no-fsync",
            "--listen-client-urls",
            url,
            "--advertise-client-urls",
            url,
            "--listen-peer-urls",
            f"http://127.0.0.1:{peer}",
        )
        start(
            "kube-apiserver",
            f"--etcd-servers={url}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={tls}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=AlwaysAllow",
            "--service-account-issuer=https://test",
            f"--service-account-key-file={keys}",
            f"--service-account-signing-key-file={keys}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--max-requests-inflight=2000",
        )

        async def answers() -> bool:
            authority = tls / "apiserver.crt"
            if any(process.poll() is not None for process in started):
                raise AssertionError(f"a program ended: see {folder}")
            if not authority.exists():
                return False
            _write_kubeconfig(kubeconfig, f"https://127.0.0.1:{port}", authority)
            asked = ["curl", "-sf", "--cacert", str(authority), "-H", f"Authorization: Bearer {_TOKEN}"]
            asking = await asyncio.create_subprocess_exec(
                *asked, f"https://127.0.0.1:{port}/readyz", stdout=asyncio.subprocess.DEVNULL
            )
            return await asking.wait() == 0

        await soon("kube-apiserver is ready", answers, 120.0)
        start(
            "kube-scheduler",
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--kube-api-qps=1000",
            "--kube-api-burst=1000",
            f"--secure-port={free_port()}",
            f"--cert-dir={folder / 'scheduler'}",
        )
        yield kubeconfig
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
        for process in reversed(started):
            try:
                process.wait(patience(20))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _write_kubeconfig(path: Path, server: str, authority: Path) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": "test", "user": {"token": _TOKEN}}],
    }
    path.write_text(yaml.safe_dump(document))
