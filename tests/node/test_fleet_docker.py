"""Groups and limits on a real Docker daemon, and a fleet's process that is killed over them.

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
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.fakes.waiting import eventually

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.docker.client import DockerClient
from cotenant.model.machine.knob import Knob, Target
from cotenant.services.fleet.functions.group_paths import group_paths

pytestmark = pytest.mark.slow
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
            client = DockerClient(self.socket)
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
            eventually("dockerd answers", found.version, tolerated=(Exception,))
        except AssertionError:
            pytest.skip("dockerd does not start here: " + (folder / "log").read_text()[-300:])
        _load_image(found, busybox)
        yield found
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
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
        async with aiohttp.ClientSession(connector=connector) as session:
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
            self._process.wait(60)
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


def test_a_group_runs_and_goes(docker: Docker, fleet: Fleet, tmp_path: Path) -> None:
    up = fleet.run("up", str(tmp_path / "chain.yml"), "--json")
    assert up.returncode == 0, up.stderr
    guids = json.loads(up.stdout)["guids"]
    assert set(guids) == {"store", "web", "proxy"}
    made = docker.get(f"/containers/{guids['web']}/json")
    assert f"COTENANT_GUID={guids['web']}" in made["Config"]["Env"]
    assert "MODE=fast" in made["Config"]["Env"]
    assert "Ready" in eventually("its state is seen", lambda: _with(fleet.run("ps").stdout, guids["proxy"]))
    assert fleet.run("inspect", guids["web"]).stdout.startswith(guids["web"])
    down = fleet.run("down", str(tmp_path / "chain.yml"))
    assert (down.returncode, down.stdout) == (0, "chain is gone\n")
    assert docker.of_agent(fleet.guid) == []


def test_a_failing_one_is_named_and_nothing_is_left(docker: Docker, fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "bad.yml").write_text(CHAIN.replace("depends_on: [web]", "depends_on: [web], command: ['false']"))
    up = fleet.run("up", str(tmp_path / "bad.yml"))
    assert up.returncode == 1
    assert "probe of proxy" in up.stderr
    assert "ended with status 1" in up.stderr
    assert docker.of_agent(fleet.guid) == []


def test_a_limit_is_held_and_given_back(docker: Docker, fleet: Fleet, tmp_path: Path) -> None:
    guids = json.loads(fleet.run("up", str(tmp_path / "chain.yml"), "--json").stdout)["guids"]
    (group,) = group_paths(detect(), {"web": docker.get(f"/containers/{guids['web']}/json")["Id"]}).values()
    with CgroupKnobs(detect()) as knobs:
        target = Target(group, Knob.CPU_MAX)
        before = knobs.read(target)
        said = fleet.run("limit", guids["web"], "cpu=100m", "--for", "1h")
        assert said.stdout.startswith(f"{guids['web']}: cpu=100m for 59m5"), said.stderr
        assert knobs.read(target) == "10000 100000"
        fleet.run("limit", guids["web"], "cpu=")
        assert knobs.read(target) == before
        fleet.run("limit", guids["web"], "cpu=100m")
        fleet.kill()
        assert knobs.read(target) == "10000 100000"
        fleet.start()
        eventually("the next agent restored what the killed one left", lambda: knobs.read(target) == before)
        fleet.run("limit", guids["web"], "cpu=200m")
        fleet.kill(signal.SIGTERM)
        assert knobs.read(target) == before
    fleet.start()


@pytest.mark.parametrize(("made", "running"), [(1, 0), (3, 1), (3, 2)])
def test_killed_over_an_up(docker: Docker, fleet: Fleet, tmp_path: Path, made: int, running: int) -> None:
    asked = fleet.begin("up", str(tmp_path / "chain.yml"))
    eventually("so many are there", lambda: _reached(docker, fleet.guid, made, running))
    fleet.kill()
    asked.kill()
    asked.wait()
    fleet.start()
    eventually("the group is up", lambda: _is_up(fleet))
    found = docker.of_agent(fleet.guid)
    assert Counter(entry["Labels"]["cotenant.io/appkey"] for entry in found) == {"store": 1, "web": 1, "proxy": 1}
    assert {entry["State"] for entry in found} == {"running"}
    filters = json.dumps({"event": ["start"], "label": [f"cotenant.io/agent={fleet.guid}"]})
    events = _events(docker, filters)
    assert Counter(events) == {"store": 1, "web": 1, "proxy": 1}


def _reached(docker: Docker, agent: str, made: int, running: int) -> bool:
    found = docker.of_agent(agent)
    return len(found) >= made and sum(entry["State"] == "running" for entry in found) >= running


def _is_up(fleet: Fleet) -> bool:
    groups = json.loads(fleet.run("ps", "--json").stdout)["groups"]
    return [(group["goal"], group["done"]) for group in groups] == [("up", True)]


def _events(docker: Docker, filters: str) -> list[str]:
    async def ask() -> list[str]:
        client = DockerClient(docker.socket)
        parameters = {"since": "0", "until": str(int(time.time()) + 1), "filters": filters}
        try:
            lines = client.lines("GET", "/events", parameters, 30.0)
            return [line["Actor"]["Attributes"]["cotenant.io/appkey"] async for line in lines]
        finally:
            await client.close()

    return asyncio.run(ask())


def _with(text: str, word: str) -> str:
    return next((line for line in text.splitlines() if word in line), "")
