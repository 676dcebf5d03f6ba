"""Limits, figures and logs of real containers, through a bus of their own, while processes are killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web
from tests.fakes.servers.docker_fleet import Docker, Fleet
from tests.fakes.servers.nats_server import NatsServer
from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import WITHIN_S, crowding, eventually, patience, soon

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.tc.shaping import NamespaceShaping, TrafficShape
from cotenant.model.errors import Unsupported
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.services.fleet.functions.group_paths import group_paths

pytestmark = pytest.mark.slow
WEB = """
services:
  web:
    image: "localhost/cotenant-test:latest"
    stop_grace_period: 0s
    command: ["sh", "-c", "i=0; while [ $$i -lt 2000 ]; do echo line $$i trace_id=4bf92f3577b34da6a3ce929d0e0e4736;
      i=$$((i+1)); [ $$((i%50)) = 0 ] && /busybox usleep 50000; done; /busybox sleep 1000"]
"""


BRIEF_S = 8.0
AFTER_BRIEF_S = BRIEF_S + WITHIN_S


def brief() -> tuple[str, str]:
    """The option of a limit that ends by itself, after a case has looked at it."""
    return "--for", f"{BRIEF_S * crowding():.0f}s"


class Processes:
    """A server, a controller and an agent, each a process."""

    def __init__(self, docker: Docker, folder: Path) -> None:
        self._folder = folder
        self.server = NatsServer(folder, free_port())
        self.guid = f"agent-{os.getpid():x}"
        self._socket = docker.socket
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._began_s = 0.0
        self.config = folder / "agent.yml"
        self.config.write_text("heartbeat_s: 0.2\n")

    def start(self, name: str) -> None:
        arguments = {
            "serve": ["serve"],
            "agent": ["agent", "--guid", self.guid, "--docker", str(self._socket), "--config", str(self.config)],
        }[name]
        if name == "agent":
            self._began_s = time.time()
        with (self._folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(self._command("fleet", *arguments), stderr=log)

    def kill(self, name: str, how: int = signal.SIGKILL) -> None:
        process = self.running.pop(name)
        process.send_signal(how)
        process.wait(patience(60))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self._command(*arguments), capture_output=True, text=True)

    def is_ready(self) -> bool:
        """By heartbeats of this start of the agent, not of one that was killed."""
        hosts = json.loads(self.run("fleet", "hosts", "--json").stdout or '{"hosts":[]}')["hosts"]
        beats = [host["beat"] for host in hosts if host["beat"] and host["state"] == "alive"]
        on = {
            function["name"]
            for beat in beats
            if beat["started_s"] >= self._began_s
            for function in beat["functions"]
            if function["is_on"]
        }
        return {"containers", "limits", "logs"} <= on

    def _command(self, *arguments: str) -> list[str]:
        options = ["--bus", self.server.url, "--state-dir", str(self._folder / "state")]
        return [sys.executable, "-m", "cotenant", *arguments, *options]


@pytest.fixture
def processes(docker: Docker, tmp_path: Path) -> Iterator[Processes]:
    found = Processes(docker, tmp_path)
    (tmp_path / "web.yml").write_text(WEB)
    found.server.start()
    found.start("serve")
    found.start("agent")
    try:
        eventually("all is there", found.is_ready)
        yield found
        found.run("fleet", "down", "web")
    finally:
        for name in list(found.running):
            found.kill(name, signal.SIGTERM)
        found.server.kill()


def started(processes: Processes, folder: Path) -> str:
    up = processes.run("fleet", "up", str(folder / "web.yml"), "--json")
    assert up.returncode == 0, up.stderr
    guid: str = json.loads(up.stdout)["guids"]["web"]
    return guid


def group_of(docker: Docker, guid: str) -> str:
    (group,) = group_paths(detect(), {guid: docker.get(f"/containers/{guid}/json")["Id"]}).values()
    return group


def test_a_killed_controller_gives_every_knob_back(processes: Processes, docker: Docker, tmp_path: Path) -> None:
    guid = started(processes, tmp_path)
    group = group_of(docker, guid)
    with CgroupKnobs(detect()) as knobs:
        targets = [KnobTarget(group, knob) for knob in (Knob.CPU_MAX, Knob.IO_MAX, Knob.MEMORY_MAX)]
        before = [knobs.read(target) for target in targets]
        said = processes.run(
            "fleet", "limit", guid, "cpu=500m", "memory=64Mi", "io-write=1MiB", "io-read-ops=100", *brief()
        )
        assert said.returncode == 0, said.stderr
        now = [knobs.read(target) for target in targets]
        assert (now[0], now[2]) == ("50000 100000", str(64 << 20))
        assert "wbps=1048576 riops=100" in now[1]
        eventually("it is listed", lambda: "io-write@" in processes.run("fleet", "limit").stdout)
        processes.kill("serve")
        eventually("all is given back", lambda: [knobs.read(target) for target in targets] == before, AFTER_BRIEF_S)
        processes.start("serve")
        eventually("the agent is heard again", processes.is_ready)
        assert processes.run("fleet", "limit", guid, "cpu=500m", "io-write=1Mi").returncode == 0
        lifted = processes.run("fleet", "limit", guid, "--lift")
        assert lifted.stdout == f"{guid}: no limits\n"
        assert [knobs.read(target) for target in targets] == before


def test_what_leaves_a_container_is_limited_and_given_back(
    processes: Processes, docker: Docker, tmp_path: Path
) -> None:
    guid = started(processes, tmp_path)
    pid = docker.get(f"/containers/{guid}/json")["State"]["Pid"]
    device = f"ct{os.getpid() % 100_000}"
    made = subprocess.run(
        ["ip", "link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", str(pid)], capture_output=True
    )
    if made.returncode:
        pytest.skip(f"no pair of network devices: {made.stderr.decode()}")
    try:
        subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", "link", "set", "eth0", "up"], check=True)
        namespace, shaping = f"/proc/{pid}/ns/net", NamespaceShaping()
        said = processes.run("fleet", "limit", guid, "net-up=20Mbit", *brief())
        assert "net-up=20Mbit for " in said.stdout, said.stderr
        assert shaping.read(namespace) == TrafficShape(20_000_000)
        processes.kill("serve")
        eventually("it is given back", lambda: shaping.read(namespace) == TrafficShape(), AFTER_BRIEF_S)
        processes.start("serve")
        eventually("the agent is heard again", processes.is_ready)
        refused = processes.run("fleet", "limit", guid, "delay=20ms")
        assert "the function experiments" in refused.stderr
        processes.kill("agent", signal.SIGTERM)
        processes.config.write_text("functions: [containers, limits, experiments, logs]\nheartbeat_s: 0.2\n")
        processes.start("agent")
        eventually("the agent is there", processes.is_ready)
        delayed = processes.run("fleet", "limit", guid, "delay=20ms", "loss=1%", *brief())
        if "sch_netem" in delayed.stderr:
            assert shaping.read(namespace) == TrafficShape()
            with pytest.raises(Unsupported):
                shaping.write(namespace, TrafficShape(delay_us=20_000))
        else:
            assert shaping.read(namespace) == TrafficShape(None, 20_000, 10_000)
            eventually("it is given back", lambda: shaping.read(namespace) == TrafficShape(), AFTER_BRIEF_S)
    finally:
        subprocess.run(["ip", "link", "del", device], capture_output=True)


def test_figures_are_shown(processes: Processes, tmp_path: Path) -> None:
    guid = started(processes, tmp_path)

    def figures() -> dict[str, object]:
        page = json.loads(processes.run("fleet", "top", "--json", "--sort", "load").stdout)
        found = {entry["guid"]: entry for host in page["hosts"] for entry in host["containers"]}
        row: dict[str, object] = found.get(guid, {})
        return row if row.get("cpu_total_us") is not None and row.get("restarts") is not None else {}

    row = eventually("it is measured", figures)
    assert row["group"] == "web"
    assert isinstance(row["memory_bytes"], int)
    assert row["restarts"] == 0
    assert row["load_1"] is not None
    assert guid in processes.run("fleet", "top").stdout


def test_logs_survive_kills_of_agent_and_controller(processes: Processes, tmp_path: Path) -> None:
    port = free_port()
    processes.kill("agent", signal.SIGTERM)
    processes.config.write_text(f'heartbeat_s: 0.2\ncollector: "http://127.0.0.1:{port}"\n')
    processes.start("agent")
    eventually("the agent is there", processes.is_ready)
    sent: list[dict[str, object]] = []

    async def export(request: web.Request) -> web.Response:
        body = await request.json()
        for resource in body["resourceLogs"]:
            attributes = {pair["key"]: pair["value"]["stringValue"] for pair in resource["resource"]["attributes"]}
            guid = attributes["service.instance.id"]
            sent.extend({**record, "guid": guid} for record in resource["scopeLogs"][0]["logRecords"])
        return web.json_response({})

    async def play() -> None:
        application = web.Application(client_max_size=16 << 20)
        application.add_routes([web.post("/v1/logs", export)])
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        guid = await asyncio.to_thread(started, processes, tmp_path)
        await soon("some are sent", lambda: len(sent) > 100)
        await asyncio.to_thread(processes.kill, "agent")
        await asyncio.to_thread(processes.kill, "serve")
        processes.start("agent")
        processes.start("serve")
        await soon("the agent is there", lambda: asyncio.to_thread(processes.is_ready))

        def texts(*options: str) -> list[str]:
            return processes.run("logs", guid, *options).stdout.splitlines()

        expected = [f"line {number} trace_id=4bf92f3577b34da6a3ce929d0e0e4736" for number in range(2000)]
        await soon("every line is there once", lambda: asyncio.to_thread(lambda: texts() == expected))
        assert await asyncio.to_thread(texts, "--grep", "line 1?7 ") == [expected[7], expected[17]]
        assert await asyncio.to_thread(texts, "--tail", "3") == expected[-3:]
        last = json.loads((await asyncio.to_thread(texts, "--tail", "1", "--json"))[0])
        assert last["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
        await soon(
            "every line is sent",
            lambda: {str(record["body"]) for record in sent} == {str(b(text)) for text in expected},
        )
        assert {record["guid"] for record in sent} == {guid}
        assert {record["traceId"] for record in sent} == {"4bf92f3577b34da6a3ce929d0e0e4736"}
        await runner.cleanup()

    def b(text: str) -> dict[str, str]:
        return {"stringValue": text}

    asyncio.run(play())


def test_the_first_test_of_the_notes_runs_and_gives_all_back(docker: Docker, fleet: Fleet, tmp_path: Path) -> None:
    busy = 'image: "localhost/cotenant-test:latest", network_mode: host, stop_grace_period: 0s'
    (tmp_path / "two.yml").write_text(
        f'services:\n  a: {{{busy}, command: ["sh", "-c", "while :; do :; done"]}}\n'
        f'  b: {{{busy}, command: ["sh", "-c", "while :; do :; done"]}}\n'
    )
    guids = json.loads(fleet.run("up", str(tmp_path / "two.yml"), "--json").stdout)["guids"]
    with CgroupKnobs(detect()) as knobs:
        groups = [group_of(docker, guids[appkey]) for appkey in ("a", "b")]
        targets = [
            KnobTarget(group, knob) for group in groups for knob in (Knob.CPUSET_CPUS, Knob.CPU_MAX, Knob.CPU_IDLE)
        ]
        before = [knobs.read(target) for target in targets]
        eventually("both are measured", lambda: all(guid in fleet.run("top").stdout for guid in guids.values()))
        arguments = ("--seconds", "6", "--period", "3", "--cpu", "0", "--json")
        said = fleet.run("experiment", "binding", guids["a"], guids["b"], *arguments)
        result = json.loads(said.stdout)
        hog = {phase["name"]: phase["hog_milli"] for phase in result["phases"]}
        assert hog["alone"] < 50  # its limit of 10 mCPU
        assert hog["together"] > hog["alone"]  # its half of what others leave of the CPU
        assert said.returncode == (0 if result["is_restored"] else 1)
        assert [knobs.read(target) for target in targets] == before
