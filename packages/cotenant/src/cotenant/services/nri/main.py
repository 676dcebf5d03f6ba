"""Starts the runtime hook: the agent's configuration, logging, signals.

SIGTERM and SIGINT end it with status 0; containers keep what they started with. Limits: a changed configuration takes a
restart.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from pathlib import Path

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.gpu.mps import MpsControl
from cotenant.drivers.http.address import Address
from cotenant.drivers.http.messages import HttpAnswer, Receive, Scope, Send, send_answer
from cotenant.drivers.http.pages import HealthPages
from cotenant.drivers.nri.state_file import StateFile
from cotenant.drivers.resctrl.tree import ResctrlTree
from cotenant.drivers.seals.seals import read_seals
from cotenant.engine.node.first_values import FirstValueSettings
from cotenant.engine.node.mode import AgentMode
from cotenant.model.errors import InvalidInput
from cotenant.services.agent_settings.config import AgentConfig, read_config
from cotenant.services.agent_settings.naming import check_mode
from cotenant.services.clients.agent import AgentClient
from cotenant.services.heap import freeze_heap
from cotenant.services.logs import log_to_stderr
from cotenant.services.nri.facts import FactsOfNode, GroupsAbove
from cotenant.services.nri.hook import Hook
from cotenant.services.nri.metrics import HookMetrics
from cotenant.services.nri.nri_arguments import NriArguments
from cotenant.services.nri.nri_process import HookProcess
from cotenant.services.nri.promptness import run_promptly
from cotenant.services.running import cancelled, stop_on_signals

_log = logging.getLogger(__name__)


def run(request: NriArguments) -> int:
    """Answer until a signal. Raises `InvalidInput`, and `Unsupported` with what the machine lacks."""
    log_to_stderr(request.log_level, request.log_format)
    asyncio.run(_live(configure(request)))
    return 0


def configure(request: NriArguments) -> AgentConfig:
    """The agent's configuration with the command line's overrides. Raises `InvalidInput`."""
    try:
        config = AgentConfig() if request.config is None else read_config(request.config)
    except InvalidInput as error:
        raise error.of("--config") from None
    if request.mode:
        check_mode(request.mode)
        config = replace(config, mode=AgentMode(request.mode))
    if request.socket is not None:
        config = replace(config, runtime_hook=replace(config.runtime_hook, socket=request.socket))
    return config


def settings_of(config: AgentConfig) -> FirstValueSettings:
    """What is decided, by a configuration."""
    hook, lending = config.runtime_hook, config.policies.gpu_lending
    return FirstValueSettings(
        best_effort=hook.best_effort,
        batch=config.policies.batch_resources,
        cache_class=hook.cache_class,
        believed=frozenset(hook.believed_namespaces),
        cpus=hook.cpus,
        devices=hook.devices,
        cdi_kind=hook.cdi_kind,
        mps_pipe=str(hook.mps_pipe or ""),
        lent_beside_percent=0 if lending is None else lending.beside_percent,
        mps_shared_memory=str(hook.mps_shared_memory or ""),
        names=hook.names,
        otlp_endpoint=hook.otlp_endpoint,
    )


async def _live(config: AgentConfig) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    hook_config = config.runtime_hook
    async with AsyncExitStack() as stack:
        layout = detect(str(config.cgroup_root))
        facts = FactsOfNode(
            config.node,
            AgentClient(config.listen) if config.listen else None,
            hook_config.cpu_manager_state,
            ResctrlTree(str(config.resctrl_root)),
            time.monotonic,
            None if hook_config.mps_pipe is None else MpsControl(hook_config.mps_pipe),
            hook_config.mps_shared_memory,
        )
        metrics = HookMetrics()
        above = GroupsAbove(stack.enter_context(CgroupKnobs(layout)))
        hook = Hook(
            settings_of(config),
            config.mode is AgentMode.ACT,
            lambda: facts.now,
            above,
            time.perf_counter,
            metrics.took,
            lambda runtime: process.connected(runtime),
            seals=read_seals(config.seal_certificate),
        )
        state = _state_file(hook_config.state_file, stack)
        cpu_version = layout.version("cpu") or 2
        process = HookProcess(hook_config.socket, hook_config.index, hook, cpu_version, facts.read, state)
        metrics.show(process)
        if hook_config.listen:
            await _serve(hook_config.listen, process, metrics, stack)
        running = asyncio.create_task(process.run(), name="hook")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        freeze_heap()  # what is there now stays: a full collection would delay a container's creation
        if hook_config.realtime and not run_promptly():
            _log.info(
                "no real-time priority (it takes CAP_SYS_NICE): on a busy node a creation may wait for this process"
            )
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        await cancelled((running, stopping))


def _state_file(path: Path, stack: AsyncExitStack) -> StateFile | None:
    try:
        return stack.enter_context(closing(StateFile(path)))
    except BlockingIOError:
        raise InvalidInput(
            "runtime_hook.state_file", str(path), "a file that no other hook has", "one hook a node"
        ) from None
    except OSError as error:
        _log.warning("%s: %s; `cotenant node status` will not see this hook", path, error.strerror)
        return None


async def _serve(listen: str, process: HookProcess, metrics: HookMetrics, stack: AsyncExitStack) -> None:
    from cotenant.drivers.http.server import HttpServer  # uvicorn comes with it

    pages = HealthPages(metrics.text, unready=process.unready)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await send_answer(send, pages.answer(scope["method"], scope["path"]) or HttpAnswer(404, b"not found\n"))

    server = HttpServer(answer, Address.parse("runtime_hook.listen", listen))
    await server.start()
    stack.push_async_callback(server.stop)
    print(f"listening on {server.address}", flush=True)
