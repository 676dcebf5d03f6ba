"""A real Prometheus finds the exporters of a fleet by its gateway, those of hosts that join and leave while it runs."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.servers.nats_server import NatsServer
from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import eventually, patience, soon

from cotenant.drivers.nats.client import BusAccess, connect
from cotenant.drivers.nats.contract import Bus
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.host import Registration
from cotenant.services.fleet.agent.agent import FleetAgent
from cotenant.services.fleet.functions.containers import ContainerFunction
from cotenant.services.fleet.functions.contract import Function
from cotenant.services.fleet.functions.exporter import ExporterFunction
from cotenant.services.fleet.functions.figures import FigureFunction
from cotenant.services.fleet.functions.gateway import GatewayFunction

pytestmark = pytest.mark.slow


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Its URL, and its configuration, which is written before the first question and never again."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus: Debian's package of that name")
    port = free_port()
    configuration = tmp_path / "prometheus.yml"
    gateway = free_port()
    configuration.write_text(
        f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: fleet
    http_sd_configs: [{{url: "http://127.0.0.1:{gateway}/sd", refresh_interval: 1s}}]
"""
    )
    data = f"--storage.tsdb.path={tmp_path / 'data'}"
    with (tmp_path / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [program, f"--config.file={configuration}", data, f"--web.listen-address=127.0.0.1:{port}"],
            stdout=log,
            stderr=log,
        )
    url = f"http://127.0.0.1:{port}"
    eventually("prometheus answers", lambda: asked(f"{url}/-/ready"), tolerated=(OSError,))
    yield url, Path(str(gateway))
    process.kill()
    process.wait()


def asked(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=patience(10)) as answer:
        body: bytes = answer.read()
        return body


def up(url: str) -> dict[str, str]:
    """Guids of targets, and their health."""
    found = json.loads(asked(f"{url}/api/v1/targets?state=active"))["data"]["activeTargets"]
    return {target["labels"]["guid"]: target["health"] for target in found}


def test_hosts_that_join_and_leave_are_found_without_an_edit_or_a_restart(
    server: NatsServer, prometheus: tuple[str, Path], tmp_path: Path
) -> None:
    url, gateway_port = prometheus

    async def agent(guid: str, bus: Bus) -> tuple[asyncio.Event, asyncio.Task[None]]:
        containers = ContainerFunction(guid, tmp_path / "no-docker.sock", tmp_path)
        figures = FigureFunction(guid, containers)
        functions: list[Function] = [figures, ExporterFunction(figures)]
        if guid == "agent-a":
            functions.append(GatewayFunction(bus))
        local = AgentConfiguration(
            ("figures", "exporter", "gateway"),
            heartbeat_s=0.1,
            exporter="127.0.0.1:0",
            gateway=f"127.0.0.1:{gateway_port}",
        )
        stop = asyncio.Event()
        registration = Registration(guid, f"host-of-{guid}", "1", region="east")
        return stop, asyncio.create_task(FleetAgent(registration, bus, functions, local).run(stop))

    async def play() -> None:
        first, second = await connect(BusAccess(server.url, "a")), await connect(BusAccess(server.url, "b"))
        stop_a, run_a = await agent("agent-a", first)
        await soon("the gateway's own exporter is scraped", lambda: asyncio.to_thread(is_up, {"agent-a"}))
        stop_b, run_b = await agent("agent-b", second)
        await soon("the one that joined is scraped", lambda: asyncio.to_thread(is_up, {"agent-a", "agent-b"}))
        query = f"{url}/api/v1/query?query=cotenant_host_cpus"
        found = json.loads(await asyncio.to_thread(asked, query))["data"]["result"]
        assert {row["metric"]["host"] for row in found} == {"host-of-agent-a", "host-of-agent-b"}
        assert {row["metric"]["region"] for row in found} == {"east"}
        stop_b.set()
        await run_b
        await soon("the one that left is no longer", lambda: asyncio.to_thread(is_up, {"agent-a"}))
        stop_a.set()
        await run_a
        await first.close()
        await second.close()

    def is_up(guids: set[str]) -> bool:
        return up(url) == dict.fromkeys(guids, "up")

    asyncio.run(play())
