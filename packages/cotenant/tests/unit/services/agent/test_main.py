"""The command: its arguments, the output of --once, and modules that it never imports."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.fakes.node.agent_world import CONFIG, World
from tests.fakes.waiting import patience

from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.policies import PolicySettings
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_state import Allocatable
from cotenant.services.agent.agent_arguments import AgentArguments
from cotenant.services.agent.agent_process import AgentProcess
from cotenant.services.agent.main import _kept_back_bytes, configure, run, summary
from cotenant.services.agent_settings.config import AgentConfig, ClusterAccess
from cotenant.services.running import raise_descriptors

HEAVY = ("numpy", "numba", "polars", "rich", "aiohttp", "grpc", "prometheus_client.aiohttp", "scipy")


def test_the_command_line_overrides_the_mode(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("{mode: act, writable: [x]}")
    assert configure(AgentArguments(file)).mode is AgentMode.ACT
    assert configure(AgentArguments(file, mode="dry-run")).mode is AgentMode.DRY_RUN
    assert configure(AgentArguments(file, once=True)).mode is AgentMode.OBSERVE


@pytest.mark.parametrize(
    ("known", "measured", "kept_back"),
    [
        (Allocatable(memory_bytes=60), True, 40),
        (Allocatable(memory_bytes=120), True, 0),  # amplified
        (Allocatable(), True, None),  # the node's object has no memory
        (None, True, None),
        (Allocatable(memory_bytes=60), False, None),
    ],
)
def test_a_node_keeps_back_what_its_cluster_does_not_give_to_pods(
    known: Allocatable | None, measured: bool, kept_back: int | None
) -> None:
    state = SimpleNamespace(host=SimpleNamespace(memory_total_bytes=100)) if measured else None
    process = SimpleNamespace(
        components=SimpleNamespace(allocatable=lambda: known), agent=SimpleNamespace(state=lambda: state)
    )
    assert _kept_back_bytes(cast(AgentProcess, process)) == kept_back


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        (AgentArguments(None, mode="brave"), "--mode: brave: expected one of act, dry-run, observe"),
        (AgentArguments(None, mode="act"), "writable: nothing: expected at least one group"),
        (AgentArguments(None, json=True), "--json: alone: expected --once with it"),
        (AgentArguments(None, log_level="loud"), "--log-level: loud: expected debug, info, warning, error"),
        (
            AgentArguments(Path("/nowhere/a.yaml")),
            "--config: /nowhere/a.yaml: expected a file that can be read; No such file or directory",
        ),
    ],
)
def test_invalid_arguments_give_a_one_line_error(request_: AgentArguments, line: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        run(request_)
    assert str(caught.value).startswith(line)


@pytest.mark.slow
def test_nothing_heavy_is_loaded() -> None:
    """A node's agent has 80 MiB; each of these would take 10 or more of them."""
    code = f"""
import sys
import cotenant.cli.main, cotenant.services.agent.main, cotenant.drivers.http.server
import cotenant.services.knobs.client, cotenant.drivers.ebpf.delays, cotenant.drivers.kubelet.tree
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=patience(60), check=False
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.parametrize(
    ("config", "because"),
    [
        (AgentConfig(node="n"), "`writable` names no group"),
        (AgentConfig(node="n", writable=("top",)), "no pods are known"),
        (replace(CONFIG, mode=AgentMode.OBSERVE, groups=CONFIG.groups[:1]), "none of 1 pods is best effort"),
        (
            replace(CONFIG, mode=AgentMode.OBSERVE, writable=("elsewhere",)),
            "outside the groups that the agent may write",
        ),
        (
            replace(
                CONFIG,
                mode=AgentMode.OBSERVE,
                policies=PolicySettings(best_effort_cpu=None, own_cpus=None, batch_resources=None, burst=None),
            ),
            "no policy is on",
        ),
    ],
)
def test_once_explains_why_it_would_hold_nothing(config: AgentConfig, because: str) -> None:
    w = World(config)

    async def lines() -> list[str]:
        process = w.process()
        await process.discover()
        await w.tick(process, 3)
        state = process.agent.state()
        assert state is not None
        return summary(process, process.state_page(state), process.agent.held_knobs())

    (line,) = [line for line in asyncio.run(lines()) if line.startswith("would hold nothing: ")]
    assert because in line


@pytest.mark.parametrize("cluster", [None, ClusterAccess()])
def test_once_says_that_it_did_not_ask_the_api_server(cluster: ClusterAccess | None) -> None:
    """On a real node it told pods by their UIDs, and that none was best effort."""
    w = World(CONFIG)

    async def lines() -> list[str]:
        process = w.process()
        await process.discover()
        await w.tick(process, 2)
        process.config = replace(process.config, cluster=cluster)
        state = process.agent.state()
        assert state is not None
        return summary(process, process.state_page(state), process.agent.held_knobs())

    said = [line for line in asyncio.run(lines()) if "the API server was not asked" in line]
    assert len(said) == (cluster is not None)


def test_the_process_may_open_what_its_hard_limit_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 512), hard))
        raise_descriptors()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
