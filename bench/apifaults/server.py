"""A real API server in a process of its own (`cotenant up --bare`) that can be killed, limited and started again."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import aiohttp

from bench.kube.load import Server

MAPS = "/api/v1/namespaces/default/configmaps"
START_S = 120.0


class ApiServerProcess:
    """The server of one folder. `start` and `kill` may alternate; the port stays the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes]
        self.server: Server

    @property
    def pid(self) -> int:
        """Of the running process."""
        return self.process.pid

    def start(self, limit: Callable[[], None] | None = None) -> float:
        """Start and wait until it is ready; returns the seconds taken. `limit` is called in the new process."""
        began = monotonic()
        log = self.folder / "out"
        arguments = [sys.executable, "-m", "cotenant", "up", "--bare", "--dir", str(self.folder / "up"), "--port", "0"]
        with log.open("wb") as out:
            self.process = subprocess.Popen(arguments, stdout=out, stderr=out, preexec_fn=limit)
        while b"Ctrl-C" not in log.read_bytes():
            if self.process.poll() is not None or monotonic() > began + START_S:
                raise SystemExit(f"bench.apifaults: the server did not start:\n{log.read_text(errors='replace')}")
            sleep(0.02)
        self.server = Server.of(self.folder / "up" / "kubeconfig")
        return monotonic() - began

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()

    def limit(self, what: int, soft: int) -> None:
        """Set a soft limit of the running process."""
        _, hard = resource.prlimit(self.pid, what)
        resource.prlimit(self.pid, what, (soft, hard))

    def stop(self) -> None:
        """End it as Ctrl-C does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()

    def rss_mib(self) -> float:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def a_map(name: str, size: int = 200, version: str = "") -> bytes:
    """A ConfigMap with a text of some bytes."""
    metadata = {"name": name, **({"resourceVersion": version} if version else {})}
    return json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "y" * size}}
    ).encode()


async def ask(http: aiohttp.ClientSession, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
    """Status and document of one request."""
    async with http.request(method, path, data=body) as answer:
        return answer.status, json.loads(await answer.read())


async def names(http: aiohttp.ClientSession, path: str = MAPS, page: int = 5_000) -> dict[str, int]:
    """The resourceVersion of every object of a list, by name."""
    found: dict[str, int] = {}
    token = ""
    while True:
        _, document = await ask(http, "GET", f"{path}?limit={page}" + (f"&continue={token}" if token else ""))
        for entry in document["items"]:
            found[entry["metadata"]["name"]] = int(entry["metadata"]["resourceVersion"])
        token = document["metadata"].get("continue", "")
        if not token:
            return found


def quantile(values: list[float], share: float) -> float:
    """A quantile by rank; 0 for no values."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0
