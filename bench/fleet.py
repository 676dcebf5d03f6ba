"""1,000 agents of simulated hosts on one real nats-server: how long joining takes, what a request costs, and what their
heartbeats cost the controller.

Times depend on who else uses the machine; CPU time hardly does: of a join (of the agent, the controller and the server,
with the heartbeats meanwhile), and of a request (asker and agent together). Agents have a process of their own, with
one connection for each; the controller is this process, with the product's own bus, registry and requests. Heartbeats
carry three containers and real figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from cotenant.drivers.nats.client import BusAccess, NatsBus, connect
from cotenant.drivers.nats.file_store import FileStore
from cotenant.model.fleet.host import HostContainer, Registration
from cotenant.model.fleet.requests import Inspect, Inspected
from cotenant.model.fleet.states import ContainerState
from cotenant.services.fleet.agent.agent import FleetAgent
from cotenant.services.fleet.controller.asking import Asking
from cotenant.services.fleet.controller.controller import FleetController
from cotenant.services.fleet.functions.contract import Beat
from cotenant.services.fleet.rpc import RpcVerb, call
from cotenant.services.running import cancelled, raise_descriptors

T = TypeVar("T")
CONTAINERS = 3
_CONNECTING = 50  # agents at once


class Pretended:
    """Implements `Function`: containers that are only said to run."""

    name = "containers"
    fault = ""
    verbs: dict[str, RpcVerb] = {}  # noqa: RUF012

    def __init__(self, host: int) -> None:
        self._host = host

    def configure(self, configuration: object) -> None:
        """Nothing to set."""

    async def start(self) -> None:
        """Nothing to start."""

    async def stop(self) -> None:
        """Nothing to stop."""

    async def add_to(self, beat: Beat) -> None:
        """Three containers, whose figures change each time."""
        beat.load, beat.cpu_milli, beat.memory_bytes = 1.5, int(time.time() * 1000) % 4000, 3 << 30
        for i in range(CONTAINERS):
            guid = f"web-{self._host:06x}{i:02x}"
            beat.containers[guid] = HostContainer(
                guid, ContainerState.READY, "web:1", "shop", f"web{i}", cpu_milli=beat.cpu_milli, memory_bytes=64 << 20
            )


@dataclass(frozen=True)
class Result:
    """Of one run."""

    agents: int
    joined_s: float
    rpc_p50_ms: float
    rpc_p99_ms: float
    quiet_rpc_p99_ms: float
    controller_core_percent: float
    heartbeats_per_s: float
    join_cpu_ms: float
    join_controller_cpu_ms: float
    join_server_cpu_ms: float
    rpc_cpu_ms: float


async def agents_process(url: str, count: int) -> None:
    """All agents, until killed."""
    raise_descriptors()
    limit = asyncio.Semaphore(_CONNECTING)

    async def one(host: int) -> None:
        guid = f"agent-{host:06d}"
        async with limit:
            bus = await connect(BusAccess(url, guid))
        registration = Registration(guid, f"host{host}", "1", tags=("edge",), cpu_milli=4000, memory_bytes=8 << 30)
        await FleetAgent(registration, bus, (Pretended(host),)).run(asyncio.Event())

    await asyncio.gather(*(one(host) for host in range(count)))


def run_agents(url: str, count: int) -> None:
    """The entry point of their process."""
    run(agents_process(url, count))


def run(work: Coroutine[Any, Any, T]) -> T:
    """In the event loop that the product's processes have."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def measure(url: str, server: int, count: int, folder: Path, seconds: float, requests: int) -> Result:
    """Controller, then agents, then figures."""
    raise_descriptors()
    bus = await connect(BusAccess(url, "controller"), within_s=30)
    store = FileStore(folder)
    controller = FleetController(bus, store)
    running = asyncio.create_task(controller.run(Asking(controller).verbs(), asyncio.Event()))
    process = multiprocessing.get_context("spawn").Process(target=run_agents, args=(url, count), daemon=True)
    process.start()
    try:
        while len(controller.registry) == 0:
            await asyncio.sleep(0.01)
        began, before, server_ms = time.perf_counter(), time.process_time(), cpu_ms(server)
        agents_ms = cpu_ms(process.pid or 0)  # what it took to import, and for the first agents
        while sum(host.beat is not None for host in controller.registry.hosts()) < count:
            await asyncio.sleep(0.05)
        joined_s = time.perf_counter() - began
        controller_ms, server_ms = 1000 * (time.process_time() - before), cpu_ms(server) - server_ms
        agents_ms = cpu_ms(process.pid or 0) - agents_ms
        await asyncio.sleep(2)
        cpu, wall, beats = time.process_time(), time.perf_counter(), _beats(controller)
        await asyncio.sleep(seconds)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        beats = _beats(controller) - beats
        busy = await timed(bus, requests, count)
    finally:
        process.kill()
        process.join()
    cpu_s = time.process_time()
    quiet = await quiet_requests(url, requests)
    cpu_s = time.process_time() - cpu_s
    await cancelled([running])
    await bus.close()
    store.close()
    return Result(
        count,
        round(joined_s, 2),
        round(median(busy), 2),
        round(percentile(busy, 0.99), 2),
        round(percentile(quiet, 0.99), 2),
        round(100 * cpu / wall, 2),
        round(beats / wall, 1),
        round(agents_ms / count, 2),
        round(controller_ms / count, 2),
        round(server_ms / count, 2),
        round(1000 * cpu_s / requests, 3),
    )


def cpu_ms(process: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def timed(bus: NatsBus, requests: int, count: int) -> list[float]:
    """Milliseconds of requests to agents one after another, answered by the agents' own dispatcher."""
    times = []
    for i in range(requests):
        began = time.perf_counter()
        await call(bus, f"guid.agent-{i * 7919 % count:06d}.rpc.inspect", Inspect(), Inspected, 30.0)
        times.append(1000 * (time.perf_counter() - began))
    return times


async def quiet_requests(url: str, requests: int) -> list[float]:
    """The same without other agents: one agent in this process, on a connection of its own."""
    bus, there = await connect(BusAccess(url, "asker")), await connect(BusAccess(url, "agent-000000"))
    agent = FleetAgent(Registration("agent-000000", "host", "1"), there, (Pretended(0),))
    await agent.serve()
    await there.flush(30.0)
    times = await timed(bus, requests, 1)
    await bus.close()
    await there.close()
    return times


def _beats(controller: FleetController) -> int:
    return sum(host.beat.number for host in controller.registry.hosts() if host.beat is not None)


def percentile(values: list[float], fraction: float) -> float:
    """The smallest value that this fraction does not exceed."""
    return sorted(values)[min(len(values) - 1, int(fraction * len(values)))]


def main() -> None:
    """Run once and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0, help="for which heartbeats are measured")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--server", default="nats-server", help="the server's command")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    port = given.port or _free_port()
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen([given.server, "-a", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
        try:
            url = f"nats://127.0.0.1:{port}"
            result = run(measure(url, server.pid, given.agents, Path(folder) / "store", given.seconds, given.requests))
        finally:
            server.kill()
            server.wait()
    load = os.getloadavg()[0]
    if given.json:
        print(json.dumps({"bench": "fleet", **{name: getattr(result, name) for name in Result.__annotations__}}))
        return
    print(f"{result.agents} agents joined within {result.joined_s} s (load {load:.1f})")
    print(
        f"request p50 {result.rpc_p50_ms} ms, p99 {result.rpc_p99_ms} ms; with one agent p99 "
        f"{result.quiet_rpc_p99_ms} ms"
    )
    print(
        f"CPU of a join: agent {result.join_cpu_ms} ms, controller {result.join_controller_cpu_ms} ms, server "
        f"{result.join_server_cpu_ms} ms; of a request: {result.rpc_cpu_ms} ms"
    )
    print(f"{result.heartbeats_per_s} heartbeats/s cost the controller {result.controller_core_percent} % of a core")


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


if __name__ == "__main__":
    main()
