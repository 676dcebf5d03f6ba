"""A real Docker daemon, and a fleet's process on it that a test may kill.

`COTENANT_TEST_DOCKER` names the socket of a daemon to use; else root starts a dockerd of its own, without networks. The
image is Debian's static busybox.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.fakes.waiting import eventually, patience

from cotenant.drivers.docker.client import DockerClient

IMAGE = "localhost/cotenant-test:latest"
CHAIN = """
services:
  store: &usual
    {image: "localhost/cotenant-test:latest", network_mode: host, command: sleep 1000, stop_grace_period: 0s}
  web: {<<: *usual, depends_on: [store], environment: [MODE=fast]}
  proxy: {<<: *usual, depends_on: [web]}
"""


class Docker:
    """The daemon, asked directly."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket

    def get(self, path: str, **parameters: str) -> Any:
        async def ask() -> Any:
            client = DockerClient(self.socket, timeout_s=patience(30))
            try:
                return await client.get(path, parameters)
            finally:
                await client.close()

        return asyncio.run(ask())

    def of_agent(self, agent: str) -> list[dict[str, Any]]:
        filters = json.dumps({"label": [f"cotenant.io/agent={agent}"]})
        found: list[dict[str, Any]] = self.get("/containers/json", all="true", filters=filters)
        return found

    def version(self) -> object:
        return self.get("/version")


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    pytest.importorskip("nats", reason="nats-py is not installed")
    named = os.environ.get("COTENANT_TEST_DOCKER")
    busybox = next((Path(path) for path in ("/bin/busybox", "/usr/bin/busybox") if Path(path).exists()), None)
    if busybox is None or b"ld-linux" in busybox.read_bytes()[:4096]:
        pytest.skip("no static busybox for an image: Debian's busybox-static")
    if named:
        found = Docker(Path(named))
        _load_image(found, busybox)
        yield found
        return
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        pytest.skip("no Docker: COTENANT_TEST_DOCKER, or root and Debian's docker.io")
    folder = tmp_path_factory.mktemp("docker")
    socket = folder / "docker.sock"
    command = ["dockerd", f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
    options = ["-H", f"unix://{socket}", "--storage-driver=vfs", "--iptables=false", "--bridge=none"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, *options], stdout=log, stderr=log)
    try:
        found = Docker(socket)
        try:
            eventually("dockerd answers", found.version, 120.0, tolerated=(Exception,))
        except AssertionError:
            pytest.skip("dockerd does not start here: " + (folder / "log").read_text()[-300:])
        _load_image(found, busybox)
        yield found
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(patience(60))
        subprocess.run(["umount", str(folder / "exec/netns/default")], capture_output=True)  # dockerd leaves it


def _load_image(docker: Docker, busybox: Path) -> None:
    """An image of one file."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        entry = archive.gettarinfo(str(busybox.resolve()), "busybox")
        with busybox.open("rb") as stream:
            archive.addfile(entry, stream)
    name, _, tag = IMAGE.rpartition(":")
    query = {"fromSrc": "-", "repo": name, "tag": tag, "changes": 'ENTRYPOINT ["/busybox"]'}

    async def send() -> str:
        connector = aiohttp.UnixConnector(path=str(docker.socket))
        timeout = aiohttp.ClientTimeout(total=patience(30))
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            url = "http://docker/v1.41/images/create"
            async with session.post(url, params=query, data=data.getvalue()) as answer:
                return await answer.text()

    assert "sha256" in asyncio.run(send())


class Fleet:
    """`cotenant fleet serve --embedded` as a process of its own."""

    def __init__(self, docker: Docker, folder: Path, guid: str) -> None:
        self._docker, self._folder, self.guid = docker, folder, guid
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        (self._folder / "state" / "bus.json").unlink(missing_ok=True)
        options = ["--embedded", "--guid", self.guid, "--docker", str(self._docker.socket)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command("serve", *options), stderr=log)
        eventually("the bus is there", (self._folder / "state" / "bus.json").exists)
        eventually(
            "the agent is there", lambda: '"name":"containers","is_on":true' in self.run("hosts", "--json").stdout
        )

    def kill(self, how: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(patience(60))
            self._process = None

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self._command(*arguments), capture_output=True, text=True)

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "cotenant", "fleet", *arguments, "--state-dir", str(self._folder / "state")]


@pytest.fixture
def fleet(docker: Docker, tmp_path: Path) -> Iterator[Fleet]:
    started = Fleet(docker, tmp_path, f"agent-{os.getpid():x}-{abs(hash(str(tmp_path))) % 0xFFFFFF:06x}")
    (tmp_path / "chain.yml").write_text(CHAIN)
    started.start()
    yield started
    for name in json.loads(started.run("ps", "--json").stdout or '{"groups":[]}')["groups"]:
        started.run("down", name["name"])
    started.kill(signal.SIGTERM)
