"""Starts the agent: configuration, logging, signals.

SIGTERM and SIGINT give back every lease and end with status 0, within seconds; a second one ends at once, and what is
held then expires at the keeper or is restored at the next start. SIGHUP reads the configuration again.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from cotenant.drivers.http.address import Address, ListeningSocket, bind
from cotenant.drivers.http.limits import DEFAULTS, ServerLimits
from cotenant.engine.node.decision_log import DecisionKind, HeldKnob
from cotenant.engine.node.mode import AgentMode
from cotenant.model.errors import InvalidInput
from cotenant.services.agent.agent_arguments import AgentArguments, check
from cotenant.services.agent.agent_process import AgentProcess
from cotenant.services.agent.http import HoldsPage, StatePage
from cotenant.services.agent.self_check import checked
from cotenant.services.agent.wiring import open_components
from cotenant.services.agent_settings.config import AgentConfig, read_config
from cotenant.services.agent_settings.naming import check_mode
from cotenant.services.agent_settings.node_roots import with_roots_here
from cotenant.services.heap import freeze_heap
from cotenant.services.logs import log_to_stderr
from cotenant.services.running import cancelled, raise_descriptors, stop_on_signals

if TYPE_CHECKING:  # uvicorn comes with it: only where the agent listens
    from cotenant.drivers.http.server import HttpServer
    from cotenant.services.agent_settings.live_node_slo import LiveNodeSlo

# A tick creates thousands of values and no cycles: collecting at the default rate costs an eighth of it.
GARBAGE = (20_000, 20, 20)
_log = logging.getLogger(__name__)


class OnceView(msgspec.Struct, frozen=True):
    """The output of `--once --json`."""

    state: StatePage | None
    holds: HoldsPage


def configure(request: AgentArguments, node_slo: Mapping[str, object] | None = None) -> AgentConfig:
    """The configuration with the command line's overrides and kubelet's groups; `node_slo` is the spec of the
    node's NodeSLO. Raises `InvalidInput`.
    """
    try:
        config = AgentConfig() if request.config is None else read_config(request.config, node_slo)
    except InvalidInput as error:
        raise error.of("--config") from None
    if request.mode:
        check_mode(request.mode)
        config = replace(config, mode=AgentMode(request.mode))
    if request.once:
        config = replace(
            config, mode=AgentMode.OBSERVE
        )  # holding something for one second would do more harm than good
    return with_roots_here(config)


def run(request: AgentArguments) -> int:
    """Run until a signal, or once. Raises `InvalidInput`, and `Unsupported` with what the machine lacks."""
    check(request)
    log_to_stderr(request.log_level, request.log_format)
    config = configure(request)
    if request.once:
        log_to_stderr("warning", request.log_format)
    raise_descriptors()
    asyncio.run(_once(request, config) if request.once else _live(request, config))
    return 0


async def _once(request: AgentArguments, config: AgentConfig) -> None:
    async with open_components(config, single=request.single) as components:
        process = AgentProcess(config, components)
        holds = await process.once()
        state = process.agent.state()
        page = None if state is None else process.state_page(state)
        if request.json:
            print(msgspec.json.format(msgspec.json.encode(OnceView(page, HoldsPage(holds)))).decode())
        else:
            for line in summary(process, page, holds):
                print(line)


def http_server(process: AgentProcess, where: Address | ListeningSocket, limits: ServerLimits = DEFAULTS) -> HttpServer:
    """The server of the agent's pages."""
    from cotenant.drivers.http.server import HttpServer

    return HttpServer(process.pages, where, limits=limits, traffic=process.traffic)


async def _live(request: AgentArguments, config: AgentConfig) -> None:
    listening = bind(Address.parse("listen", config.listen)) if config.listen else None
    stop = asyncio.Event()
    stop_on_signals(stop)
    async with AsyncExitStack() as stack:
        if listening is not None:
            stack.callback(listening.close)
        config, conflicts = await checked(config, single=request.single)
        components = await stack.enter_async_context(open_components(config, single=request.single))
        process = AgentProcess(config, components, conflicts)
        server = None if listening is None else http_server(process, listening)
        loop = asyncio.get_running_loop()
        reloading: set[asyncio.Task[bool]] = set()
        slo = _live_node_slo(request, process)

        def reload() -> None:
            spec = slo.spec if slo is not None else None
            task = asyncio.create_task(process.reload(lambda: configure(request, spec)), name="reload")
            reloading.add(task)
            task.add_done_callback(reloading.discard)

        loop.add_signal_handler(signal.SIGHUP, reload)
        if server is not None:
            await server.start()
            print(f"listening on {server.address}", flush=True)
        _log.info("node %s, mode %s, every %d ms", config.node, config.mode, config.period_ms)
        freeze_heap()
        gc.set_threshold(*GARBAGE)
        zones = _live_zones(process, None if listening is None else _from_this_host(listening.address))
        reading = [
            *([] if slo is None else [asyncio.create_task(slo.run(), name="NodeSLO")]),
            *(asyncio.create_task(run(), name="ControlZones") for run in zones),
        ]
        try:
            await process.run(stop)
        finally:
            await cancelled(reading)
            if server is not None:
                await server.stop()


def _live_node_slo(request: AgentArguments, process: AgentProcess) -> LiveNodeSlo | None:
    """The reader of the node's NodeSLO, where the configuration asks for it."""
    cluster, client = process.config.cluster, process.components.client
    if cluster is None or not cluster.node_slo or client is None:
        return None
    from cotenant.services.agent_settings.live_node_slo import LiveNodeSlo

    async def apply() -> bool:
        return await process.reload(lambda: configure(request, slo.spec))

    slo = LiveNodeSlo(client, process.node, apply)
    return slo


def _live_zones(process: AgentProcess, listen: str | None) -> tuple[Callable[[], Coroutine[object, object, None]], ...]:
    """What has the keeper run the cluster's ControlZones, with its Events, where the configuration asks for it."""
    cluster, client = process.config.cluster, process.components.client
    if cluster is None or not cluster.zones or client is None:
        return ()
    from cotenant.services.kube_process.events import EventRecorder
    from cotenant.services.zones.client import ZoneClient
    from cotenant.services.zones.cluster_objects import LiveZones

    zones, folder = ZoneClient(cluster.zone_socket), cluster.zone_state_dir
    events = EventRecorder(client, "cotenant-agent", process.node, per_s=1.0)
    live = LiveZones(
        client, process.node, zones, folder, listen, kept_back=lambda: _kept_back_bytes(process), events=events
    )
    return live.run, events.run


def _kept_back_bytes(process: AgentProcess) -> int | None:
    """Memory of this node that its cluster does not give to pods; None while either amount is unknown."""
    known, state = process.components.allocatable(), process.agent.state()
    if known is None or not known.memory_bytes or state is None:
        return None
    return max(0, state.host.memory_total_bytes - known.memory_bytes)


def _from_this_host(address: Address) -> str:
    """How a process of this host reaches an address that this process listens at."""
    if address.path:
        return f"unix:{address.path}"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)
    return f"[{host}]:{address.port}" if ":" in host else f"{host}:{address.port}"


def summary(process: AgentProcess, page: StatePage | None, holds: tuple[HeldKnob, ...]) -> list[str]:
    """The readable output of `--once`."""
    if page is None:
        return ["nothing could be measured"]
    host = page.host
    lines = [
        f"node {page.node}: {_cores(host.cpu_m)} of {host.cpus} CPUs, "
        f"{host.memory_used_bytes / 2**30:.1f} of {host.memory_total_bytes / 2**30:.1f} GiB",
    ]
    for pod in page.pods:
        use = pod.use
        waits = "" if use.run_delay_ppm is None else f", waits {use.run_delay_ppm / 1e4:.1f} %"
        memory = "" if use.working_set_bytes is None else f", {use.working_set_bytes / 2**20:.0f} MiB"
        lines.append(f"  {pod.qos or '-':4} {pod.pod}: {_cores(use.cpu_m)} CPUs{memory}{waits}  /{pod.group}")
    lines += [f"would hold {hold.target} at {hold.value}: {hold.reason.text}" for hold in holds]
    if not holds:
        lines.append(f"would hold nothing: {nothing_because(process)}")
    if process.config.cluster is not None:
        lines.append(
            "the API server was not asked, so pods are told by their UIDs and judged by the kubelet's groups alone; "
            "the running agent of this node knows more: `cotenant node status`, /v1/holds"
        )
    lines += [f"not known here: {gap.what}; needs {gap.needs}" for gap in page.gaps]
    return lines


def nothing_because(process: AgentProcess) -> str:
    """Why no knob would be held."""
    if not process.config.writable:
        return "`writable` names no group below which knobs may be written"
    if not process.pods:
        return "no pods are known; set `groups`, `sources` or `cluster`"
    if not any(pod.best_effort for pod in process.pods):
        return f"none of {len(process.pods)} pods is best effort"
    refused = [decision.reason.text for decision in process.agent.decisions(0) if decision.what is DecisionKind.REFUSED]
    if refused:
        return refused[-1]
    judged = {
        decision.policy: decision.reason.text
        for decision in process.agent.decisions(0)
        if decision.what is DecisionKind.JUDGED
    }
    return "; ".join(f"{policy}: {text}" for policy, text in judged.items()) or "no policy is on"


def _cores(milli: int | None) -> str:
    return "?" if milli is None else f"{milli / 1000:.2f}"
