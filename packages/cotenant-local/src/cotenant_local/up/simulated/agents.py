"""Agents of simulated nodes: the process of a real node's agent, over a simulated machine, with the policy `recovery`.

A local cluster shows where pods go, and not what happens to a service whose neighbour grows. One agent for each node on
which a traced service runs, in this process: the same engine, ladder, leases and reports, which get signals from the
trace process and send it their stories. Services without an objective measured from spans report their own latency, as
they would to a real agent. The guard of best-effort work is not run, for the world has it already
(cotenant_lab/world/node_qos.py). All answer at one port, each below the name of its node.
Limits: at most `MAX_AGENTS`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.messages import HttpAnswer, Receive, Scope, Send, send_answer
from cotenant.drivers.http.server import HttpServer
from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.policies import PolicySettings
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.model.errors import CotenantError
from cotenant.model.machine.knob import Knob
from cotenant.services.agent.actions.evictions import ApiEvictor
from cotenant.services.agent.agent_process import AgentProcess
from cotenant.services.agent.components import AgentComponents, Clocks
from cotenant.services.agent.trace_link import TraceLink
from cotenant.services.agent_settings.config import (
    AgentConfig,
    CreditTarget,
    ProbeSettings,
    TraceSource,
    TriggerSettings,
)
from cotenant.services.reporting.latency import LatencyReport
from cotenant.services.reporting.sender import ReportSender
from cotenant_local.controllers.runtime.actions import PODS
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.nodes.observations import PodUsage
from cotenant_local.nodes.world import LiveWorld
from cotenant_local.up.simulated.machine import BEST_EFFORT, ROOT, SimulatedKeeper, SimulatedMachine

MAX_AGENTS = 24
KEPT = 4  # of them, for nodes of the replicas that are first
LOOK_S = 2.0  # between two looks at where traced services run
DISCOVERY_S = 2.0
OWN_REPORT_S = 1.0
POLICIES = PolicySettings(
    best_effort_cpu=None,
    own_cpus=None,
    batch_resources=None,
    burst=None,
    recovery=RecoverySettings(),
)
_log = logging.getLogger(__name__)

Test = Callable[[PodObjectView], bool]


@dataclass(frozen=True, slots=True)
class Addresses:
    """Of the processes beside them: the trace process, and the credit process, which is told of proven incidents,
    empty where there is none; and the port of loopback where agents answer.
    """

    traces: str
    credit: str
    agents_port: int


@dataclass(slots=True)
class _Running:
    process: AgentProcess
    link: TraceLink
    task: asyncio.Task[None]


class SimulatedAgents:
    """`start` and `stop` them. `directory`: a folder of their own."""

    def __init__(
        self,
        informers: Informers,
        world: LiveWorld,
        is_traced: Test,
        is_first: Test,
        at: Addresses,
        directory: Path,
    ) -> None:
        """`is_first`: a replica whose node has an agent before those of others."""
        self._sender = ReportSender()
        self._server = HttpServer(self.answer, Address("127.0.0.1", at.agents_port))
        self._is_first = is_first
        self._informers, self._world, self._is_traced = informers, world, is_traced
        self._at, self._directory = at, directory
        self._clocks = Clocks(time.monotonic, time.time)
        self._stop = asyncio.Event()
        self._running: dict[str, _Running] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._told: dict[tuple[str, int], int] = {}  # events by node and incident

    def news(self) -> list[str]:
        """What happened since the last call to services for which a pod was named: a line an event."""
        lines = []
        for node, running in self._running.items():
            memory = running.process.agent.recovery()
            for incident in (*memory.ended, *memory.incidents) if memory is not None else ():
                told = self._told.get((node, incident.number), 0)
                if incident.proofs:
                    self._told[node, incident.number] = len(incident.events)
                    lines += [f"{node}: {event.text}" for event in incident.events[told:]]
        return lines

    async def start(self) -> None:
        """Begin to look for nodes that need one."""
        await self._server.start()
        for name, every_s, do in (("agents", LOOK_S, self.start_due), ("own reports", OWN_REPORT_S, self.report)):
            self._tasks.append(asyncio.create_task(_repeat(do, every_s), name=name))

    async def stop(self) -> None:
        """End them all; each gives back what it holds."""
        await self._server.stop()
        self._stop.set()
        for task in self._tasks:
            task.cancel()
        ending = [running.task for running in self._running.values()]
        await asyncio.gather(*self._tasks, *ending, return_exceptions=True)
        for running in self._running.values():
            await running.link.close()
        await self._sender.close()

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The pages of one of them: `/NODE/v1/...`."""
        node, _, path = scope["path"].removeprefix("/").partition("/")
        running = self._running.get(node)
        if running is None:
            await send_answer(send, HttpAnswer(404, b'{"error":"no agent runs on this simulated node"}'))
        else:
            await running.process.pages({**scope, "path": f"/{path}"}, receive, send)

    def start_due(self) -> None:
        """Start agents where a traced service runs."""
        pods: list[PodObjectView] = [pod for pod in self._informers.store(PODS) if pod.spec.node_name]
        for test, most in ((self._is_first, MAX_AGENTS), (self._is_traced, MAX_AGENTS - KEPT)):
            for node in sorted({pod.spec.node_name for pod in pods if test(pod)}):
                if node not in self._running and len(self._running) < most:
                    self._running[node] = self._agent(node)

    def report(self) -> None:
        """What services report of themselves; spans go before it where they are fresh."""
        for running in self._running.values():
            for pod in running.process.pods:
                usage = self._world.usage(pod.uid)
                if usage is not None and (report := own_report(usage)) is not None:
                    with suppress(CotenantError):  # an objective that no report can be judged by
                        running.process.latency_reported(report)

    def _agent(self, node: str) -> _Running:
        machine = SimulatedMachine(self._world, node, partial(self._pods, node), self._clocks.wall, self._clocks.now_us)
        link = TraceLink(self._at.traces, node)
        config = AgentConfig(
            node=node,
            mode=AgentMode.ACT,
            writable=(ROOT,),
            best_effort_group=BEST_EFFORT,
            discovery_period_s=DISCOVERY_S,
            policies=POLICIES,
            traces=TraceSource(url=self._at.traces),
            credit=CreditTarget(url=self._at.credit),
            listen="",
            state_dir=self._directory / node,
            pressure=TriggerSettings(enabled=False),
            probe=ProbeSettings(enabled=False),
        )
        components = AgentComponents(
            sensor=machine,
            knobs=machine,
            keeper=SimulatedKeeper(machine, self._clocks.now_us, self._clocks.wall),
            evictor=ApiEvictor(),
            sources={"the simulated node": machine},
            clocks=self._clocks,
            mode=AgentMode.ACT,
            triggers={},
            supported=frozenset({Knob.CPU_MAX}),
            traces=link,
            post_incident=self._sender.post,
        )
        config.state_dir.mkdir(parents=True, exist_ok=True)  # incidents that wait to be reported
        process = AgentProcess(config, components)
        task = asyncio.create_task(process.run(self._stop), name=f"agent of {node}")
        task.add_done_callback(partial(_ended, node))
        return _Running(process, link, task)

    def _pods(self, node: str) -> list[PodObjectView]:
        return self._informers.store(PODS).by("node", node)


def own_report(usage: PodUsage) -> LatencyReport | None:
    """A window of a service's requests by its own report; None where it serves none, or has no objective."""
    if usage.p99_ms is None or not usage.objective_ms:
        return None
    requests = 1000
    over = requests // 50 if usage.violated else requests // 200  # the world says whether more than 1 % are
    return LatencyReport(
        workload=usage.uid,
        window_s=OWN_REPORT_S,
        requests=requests,
        p99_us=round(usage.p99_ms * 1000),
        over_objective=over,
    )


async def _repeat(do: Callable[[], None], every_s: float) -> None:
    while True:
        do()
        await asyncio.sleep(every_s)


def _ended(node: str, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.warning("the agent of %s ended: %s", node, task.exception())
