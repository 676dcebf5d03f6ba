"""Shares of GPUs through the hook: the environment and mounts on the wire, what it says of what runs, the daemon."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from tests.fakes.node.fake_hook_runtime import FakeHookRuntime, PluginOfRuntime
from tests.fakes.node.mps_control import FakeMps
from tests.fakes.waiting import patience
from tests.unit.engine.node.test_gpu_limits import FACTS, GPUS, HOLDING, LIMITS, PIPE
from tests.unit.services.nri.test_hook import CONTAINER, GROUPS, POD, hook, v1_tree

from cotenant.drivers.gpu.mps import MpsControl
from cotenant.drivers.nri.state_file import StateFile, read_state
from cotenant.drivers.resctrl.tree import ResctrlTree
from cotenant.model.devices.allocation import DEVICE_ALLOCATED
from cotenant.model.devices.shares import HookedShares
from cotenant.services.agent.reports.gpu_shares import shares_of_node
from cotenant.services.agent_settings.runtime_hook import RuntimeHook
from cotenant.services.nri.facts import FactsOfNode
from cotenant.services.nri.hook import Hook
from cotenant.services.nri.nri_process import HookProcess

HALF = {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}
SHARING = {**POD, "annotations": {DEVICE_ALLOCATED: json.dumps({"gpu": [{"minor": 1, "resources": HALF}]})}}
LIMITED = [f"{name}={value}" for name, value in LIMITS]


def sharing(folder: Path, *, acts: bool = True) -> Hook:
    made = hook(v1_tree(folder / "tree", GROUPS, {}), acts=acts)
    made.settings, made.facts = replace(HOLDING, believed=frozenset({"shop"})), lambda: FACTS
    return made


def played(folder: Path, made: Hook, scenario: Callable[[PluginOfRuntime], Awaitable[None]]) -> HookedShares:
    """Run a scenario with a runtime that has configured the plugin, and told nothing yet; what is said at the end."""

    async def play() -> HookedShares:
        file = StateFile(folder / "nri.json")
        async with asyncio.timeout(patience(30)), FakeHookRuntime(folder) as runtime:
            process = HookProcess(runtime.socket, "50", made, 1, lambda: None, file, said_every_s=0.001)
            made.connected = process.connected
            running = asyncio.create_task(process.run())
            plugin = await runtime.plugins.get()
            await plugin.register()
            answer = await plugin.call("Configure", runtime_name="containerd", runtime_version="2.1.9")
            assert answer.events == (1 << 3) + (1 << 7) + (1 << 10)  # creations, updates, removals
            await scenario(plugin)
            wanted = made.shares()
            while (state := read_state(folder / "nri.json")) is None or state.shares != wanted:
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            file.close()
        return wanted

    return asyncio.run(play())


def test_a_container_with_a_share_gets_its_limits_on_the_wire(tmp_path: Path) -> None:
    async def scenario(plugin: PluginOfRuntime) -> None:
        await plugin.call("Synchronize")
        adjust = (await plugin.call("CreateContainer", pod=SHARING, container=CONTAINER)).adjust
        environment = {entry.key: entry.value for entry in adjust.env}
        assert environment == {"NVIDIA_VISIBLE_DEVICES": "GPU-1", **dict(LIMITS)}
        assert [(mount.source, mount.destination, mount.type) for mount in adjust.mounts] == [
            (PIPE, PIPE, "bind"),
            ("/run/mps-shm", "/dev/shm", "bind"),
        ]
        assert "rw" in adjust.mounts[0].options

    assert played(tmp_path, sharing(tmp_path), scenario) == HookedShares(PIPE, True)


def test_what_runs_beside_its_limits_is_named_until_it_is_removed(tmp_path: Path) -> None:
    own = {**CONTAINER, "id": "c2", "name": "own", "env": ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100"]}
    said: list[HookedShares] = []
    made = sharing(tmp_path)

    async def scenario(plugin: PluginOfRuntime) -> None:
        held = {**CONTAINER, "id": "c3", "name": "held", "env": LIMITED}
        ended = {**CONTAINER, "id": "c4", "name": "ended", "state": 4}
        await plugin.call("Synchronize", pods=[SHARING], containers=[CONTAINER, held, ended])
        said.append(made.shares())
        await plugin.call("CreateContainer", pod=SHARING, container=own)
        said.append(made.shares())
        await plugin.send(
            plugin.request("StateChange", "StateChangeEvent", event=11, pod=SHARING, container={"id": "c1"})
        )
        await plugin.answer("Empty")
        said.append(made.shares())
        await plugin.send(
            plugin.request("RemoveContainer", "RemoveContainerRequest", pod=SHARING, container={"id": "c2"})
        )
        await plugin.answer("Empty")

    assert played(tmp_path, made, scenario).unlimited_count == 0
    assert [one.unlimited for one in said] == [
        ("shop/batch-1/work",),
        ("shop/batch-1/own", "shop/batch-1/work"),
        ("shop/batch-1/own",),
    ]
    assert made.counts.left_out == {"own-limits": 1}


def test_where_it_does_not_act_a_share_is_not_held(tmp_path: Path) -> None:
    async def scenario(plugin: PluginOfRuntime) -> None:
        await plugin.call("Synchronize")
        await plugin.call("CreateContainer", pod=SHARING, container=CONTAINER)

    assert played(tmp_path, sharing(tmp_path, acts=False), scenario).unlimited == ("shop/batch-1/work",)


def test_the_daemon_is_asked(tmp_path: Path) -> None:
    mps = FakeMps(tmp_path)
    control = MpsControl(mps.pipe, str(mps.program))
    facts = FactsOfNode("node", None, tmp_path / "none", ResctrlTree(str(tmp_path)), lambda: 0.0, control)

    def answers() -> bool:
        facts.read()
        return facts.now.mps_answers

    assert not answers()
    mps.start()
    assert answers()
    facts.shared_memory = tmp_path / "shm"  # the mount of a folder that is not there ends a container's creation
    assert not answers()
    facts.shared_memory.mkdir()
    assert answers()
    mps.quit()
    assert not answers()


def test_the_agent_goes_by_what_a_living_hook_says(tmp_path: Path) -> None:
    settings = RuntimeHook(
        devices=True, believed_namespaces=("*",), mps_pipe=Path(PIPE), state_file=tmp_path / "nri.json"
    )
    assert "no runtime hook" in shares_of_node(settings, GPUS).why
    assert shares_of_node(replace(settings, mps_pipe=None), GPUS).why == ""

    async def scenario(plugin: PluginOfRuntime) -> None:
        assert "no runtime hook" in shares_of_node(settings, GPUS).why  # it is not asked yet
        await plugin.call("Synchronize")
        await plugin.call("CreateContainer", pod=SHARING, container=CONTAINER)
        assert shares_of_node(settings, GPUS).by == "cotenant-mps"

    played(tmp_path, sharing(tmp_path), scenario)
    assert "no runtime hook" in shares_of_node(settings, GPUS).why
