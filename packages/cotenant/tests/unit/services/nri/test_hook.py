"""The hook as a process: connects again for ever, follows the agent's figures, and changes nothing unless the mode
is act.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.node.fake_hook_runtime import FakeHookRuntime, PluginOfRuntime
from tests.fakes.waiting import patience

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.nri.session import RuntimeVersion
from cotenant.drivers.nri.state_file import HookState, StateFile, read_state
from cotenant.drivers.resctrl.tree import ResctrlTree
from cotenant.engine.node.first_values import FirstValueFacts, FirstValueSettings
from cotenant.model.errors import InvalidInput, Transient
from cotenant.services.agent_settings.config import AgentConfig, read_config
from cotenant.services.agent_settings.runtime_hook import RuntimeHook
from cotenant.services.clients.agent import AgentClient
from cotenant.services.nri.facts import KNOWN_FOR_S, FactsOfNode, GroupsAbove
from cotenant.services.nri.hook import CHANGED, CREATED, UNCHANGED, WOULD, Hook
from cotenant.services.nri.main import configure, settings_of
from cotenant.services.nri.metrics import HookMetrics
from cotenant.services.nri.nri_arguments import NriArguments
from cotenant.services.nri.nri_process import HookProcess

UID = "0b3f7c7e-6d38-4d28-8b0f-6f6c3ad6f8f0"
PARENT = f"kubepods/burstable/pod{UID}"
BATCH = {"kubernetes.io/batch-cpu": "1500"}
SPEC = json.dumps({"containers": {"work": {"requests": BATCH, "limits": BATCH}}})
POD = {
    "id": "s1",
    "uid": UID,
    "namespace": "shop",
    "name": "batch-1",
    "labels": {"koordinator.sh/qosClass": "BE"},
    "linux": {"cgroup_parent": f"/{PARENT}"},
}
BATCH_POD = {**POD, "annotations": {"node.koordinator.sh/extended-resource-spec": SPEC}}
CONTAINER = {"id": "c1", "pod_sandbox_id": "s1", "name": "work", "state": 3}


def v1_tree(root: Path, quotas: dict[str, int], cpus: dict[str, str]) -> GroupsAbove:
    """A machine with cgroup v1; `quotas` of groups are microseconds of 100 ms, -1 = none."""
    for group in {*quotas, *cpus, ""}:
        for name in ("cpu", "cpuset"):
            (root / name / group).mkdir(parents=True, exist_ok=True)
        (root / "cpu" / group / "cpu.shares").write_text("1024\n")
        (root / "cpu" / group / "cpu.cfs_quota_us").write_text(f"{quotas.get(group, -1)}\n")
        (root / "cpu" / group / "cpu.cfs_period_us").write_text("100000\n")
        (root / "cpuset" / group / "cpuset.mems").write_text("0\n")
        (root / "cpuset" / group / "cpuset.cpus").write_text(f"{cpus.get(group, '0-3')}\n")
    online = root / "online"
    online.write_text("0-3\n")
    return GroupsAbove(CgroupKnobs(detect(str(root), str(root / "no mounts"))), str(online))


def hook(
    above: GroupsAbove, connected: Callable[[RuntimeVersion], None] = lambda runtime: None, *, acts: bool = True
) -> Hook:
    return Hook(
        FirstValueSettings(), acts, lambda: FirstValueFacts("node"), above, lambda: 0.0, lambda seconds: None, connected
    )


GROUPS = {"kubepods": -1, "kubepods/burstable": -1, PARENT: -1}


def played(
    folder: Path, made: Hook, scenario: Callable[[FakeHookRuntime, HookProcess], Awaitable[None]], cpu_version: int = 1
) -> HookProcess:
    async def play() -> HookProcess:
        file = StateFile(folder / "nri.json")
        async with asyncio.timeout(patience(30)), FakeHookRuntime(folder) as runtime:
            process = HookProcess(runtime.socket, "50", made, cpu_version, lambda: None, file)
            made.connected = process.connected
            running = asyncio.create_task(process.run())
            try:
                await scenario(runtime, process)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                file.close()
        return process

    return asyncio.run(play())


async def create(runtime: PluginOfRuntime, pod: dict[str, object]) -> tuple[int, int]:
    """Shares and quota of a new container; 0 = as the runtime was told."""
    resources = (await runtime.call("CreateContainer", pod=pod, container=CONTAINER)).adjust.linux.resources
    return resources.cpu.shares.value, resources.cpu.quota.value


def test_a_container_starts_with_its_class_and_its_batch_amounts(tmp_path: Path) -> None:
    made = hook(v1_tree(tmp_path / "tree", GROUPS, {}))

    async def scenario(runtime: FakeHookRuntime, process: HookProcess) -> None:
        plugin = await runtime.plugin(CONTAINER)
        assert process.unready() == ""
        assert read_state(tmp_path / "nri.json") == HookState("containerd 2.1.9", acts=True)
        assert await create(plugin, POD) == (2, 0)
        assert await create(plugin, BATCH_POD) == (1536, 150_000)
        assert await create(plugin, {**POD, "labels": {}}) == (0, 0)

    played(tmp_path, made, scenario)
    assert made.counts.containers == {(CREATED, CHANGED): 2, (CREATED, UNCHANGED): 1}
    assert (made.counts.adopted, made.counts.connections) == (1, 1)


def test_a_process_that_comes_round_says_so(tmp_path: Path) -> None:
    """Else a process that hangs would be shown as a hook that is there."""

    async def play() -> None:
        said = asyncio.Event()
        times = itertools.count()

        def monotonic() -> float:
            if (now_s := next(times)) == 100:  # attempts to connect say something every two seconds at most
                said.set()
            return float(now_s)

        file = StateFile(tmp_path / "nri.json", monotonic)
        made = hook(v1_tree(tmp_path / "tree", GROUPS, {}))
        process = HookProcess(tmp_path / "no.sock", "50", made, 1, lambda: None, file, said_every_s=0.001)
        running = asyncio.create_task(process.run())
        async with asyncio.timeout(patience(20)):
            await said.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        file.close()

    asyncio.run(play())


def test_a_socket_that_another_runtime_took_and_left_is_told_as_such(tmp_path: Path) -> None:
    """*Connection refused* alone had its readers look for rights and network policies."""
    path = tmp_path / "nri.sock"
    with socket.socket(socket.AF_UNIX) as taken:
        taken.bind(str(path))  # the file stays when the socket is closed

    async def play() -> str:
        made = hook(v1_tree(tmp_path / "tree", GROUPS, {}))
        process = HookProcess(path, "50", made, 1, lambda: None, None)
        running = asyncio.create_task(process.run())
        async with asyncio.timeout(patience(20)):
            while process.unready() == "no runtime has accepted this plugin yet":
                await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return process.unready()

    assert asyncio.run(play()).startswith("nobody listens there: the runtime that made it has ended, or another one")


def test_nothing_is_changed_unless_the_mode_is_act(tmp_path: Path) -> None:
    made = hook(v1_tree(tmp_path / "tree", GROUPS, {}), acts=False)

    async def scenario(runtime: FakeHookRuntime, process: HookProcess) -> None:
        assert await create(await runtime.plugin(), BATCH_POD) == (0, 0)

    played(tmp_path, made, scenario)
    assert made.counts.containers == {(CREATED, WOULD): 1}


def test_it_connects_again_when_the_runtime_is_back(tmp_path: Path) -> None:
    made = hook(v1_tree(tmp_path / "tree", GROUPS, {}))

    async def scenario(runtime: FakeHookRuntime, process: HookProcess) -> None:
        for _ in range(2):
            (await runtime.plugin()).close()
        await runtime.stop()  # its socket vanishes
        await runtime.start()
        assert await create(await runtime.plugin(), POD) == (2, 0)

    played(tmp_path, made, scenario)
    assert made.counts.connections == 3


def test_a_runtime_that_has_not_yet_told_what_runs_does_not_ask(tmp_path: Path) -> None:
    """A container created in between starts as without a hook: so none is said to be there."""
    made = hook(v1_tree(tmp_path / "tree", GROUPS, {}))

    async def scenario(runtime: FakeHookRuntime, process: HookProcess) -> None:
        plugin = await runtime.plugins.get()
        await plugin.register()
        await plugin.call("Configure", runtime_name="containerd", runtime_version="2.1.9")
        await plugin.call("Synchronize", more=True)
        assert process.unready() != ""
        assert read_state(tmp_path / "nri.json") == HookState(acts=True)
        await plugin.call("Synchronize")
        assert process.unready() == ""
        assert read_state(tmp_path / "nri.json") == HookState("containerd 2.1.9", acts=True)

    played(tmp_path, made, scenario)


@pytest.mark.parametrize(
    ("quotas", "wanted"),
    [
        (GROUPS, None),
        ({**GROUPS, "kubepods/burstable": 80_000}, 800),
        ({**GROUPS, "kubepods/burstable": 80_000, PARENT: 50_000}, 500),
        ({"kubepods": -1}, 0),  # the pod's own group is not there
    ],
)
def test_the_quota_that_the_groups_above_allow_on_v1(
    tmp_path: Path, quotas: dict[str, int], wanted: int | None
) -> None:
    assert v1_tree(tmp_path, quotas, {}).quota_ceiling_m(PARENT) == wanted


def test_the_cpus_of_the_nearest_group_above(tmp_path: Path) -> None:
    above = v1_tree(tmp_path, GROUPS, {PARENT: "0-1", "kubepods": "0-2"})
    assert above.cpus(PARENT) == (0, 1)
    assert above.cpus("") == (0, 1, 2, 3)
    assert above.cpus("kubepods/none") is None


class ToldAgent(AgentClient):
    """An agent that answers with `page`, or is away."""

    page: dict[str, object] | None = None

    def get(self, path: str, **query: str | int) -> dict[str, object]:
        """The page."""
        if ToldAgent.page is None:
            raise Transient("no agent")
        return ToldAgent.page


def test_facts_come_from_the_agent_and_the_kubelets_checkpoint(tmp_path: Path) -> None:
    now_s = 0.0
    checkpoint = tmp_path / "cpu_manager_state"
    facts = FactsOfNode("node", ToldAgent("unix:none"), checkpoint, ResctrlTree(str(tmp_path)), lambda: now_s)
    facts.read()
    assert facts.now == FirstValueFacts("node")
    checkpoint.write_text('{"policyName": "static"}')
    gpu = {
        "index": 0,
        "uuid": "GPU-0",
        "name": "H100",
        "healthy": False,
        "utilisation_percent": 0,
        "memory_total_bytes": 1,
        "memory_used_bytes": 0,
    }
    ToldAgent.page = {"gpus": [gpu], "cpu_ratio_milli": 1200, "more": []}
    facts.read()
    assert (facts.now.cpu_ratio_milli, facts.now.cpu_manager) == (1200, "static")
    assert facts.now.gpus is not None
    assert [(gpu_counters.uuid, gpu_counters.healthy) for gpu_counters in facts.now.gpus] == [("GPU-0", False)]
    ToldAgent.page = None
    now_s = KNOWN_FOR_S
    facts.read()
    assert facts.now.gpus is not None
    now_s = KNOWN_FOR_S + 1
    facts.read()
    assert (facts.now.gpus, facts.now.cpu_ratio_milli) == (None, 1200)


def test_metrics_show_what_was_answered(tmp_path: Path) -> None:
    made = hook(v1_tree(tmp_path, GROUPS, {}))
    made.counts.containers[CREATED, CHANGED] = 3
    made.counts.failures["CreateContainer"] = 1
    metrics = HookMetrics()
    metrics.show(HookProcess(tmp_path / "s", "50", made, 1, lambda: None, None))
    text = metrics.text().decode()
    assert 'cotenant_hook_containers_total{call="created",outcome="changed"} 3.0' in text
    assert 'cotenant_hook_failures_total{call="CreateContainer"} 1.0' in text
    assert "cotenant_hook_up 0.0" in text


def test_the_agents_configuration_is_the_hooks(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(
        "mode: act\nwritable: [kubepods]\npolicies: {batch_resources: {memory: false}}\n"
        "runtime_hook: {devices: true, believed_namespaces: [ml], index: '07', names: true}\n"
    )
    config = configure(NriArguments(path, socket=Path("/elsewhere.sock")))
    settings = settings_of(config)
    assert (config.runtime_hook.index, config.runtime_hook.socket) == ("07", Path("/elsewhere.sock"))
    assert settings.batch == read_config(path).policies.batch_resources
    assert settings.batch is not None
    assert (settings.batch.memory, settings.devices, settings.cpus, settings.names) == (False, True, False, True)
    assert settings.believed == {"ml"}
    with pytest.raises(InvalidInput, match="--mode"):
        configure(NriArguments(path, mode="play"))


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("believed_namespaces", {"cpus": True}),
        ("believed_namespaces", {"devices": True}),
        ("index", {"index": "5"}),
        ("cdi_kind", {"cdi_kind": "nvidia.com/gpu"}),
        ("cdi_kind", {"cdi_kind": "gpu", "devices": True, "believed_namespaces": ("ml",)}),
        ("mps_pipe", {"mps_pipe": Path("/run/mps")}),
        ("mps_pipe", {"mps_pipe": Path("mps"), "devices": True, "believed_namespaces": ("ml",)}),
        ("mps_shared_memory", {"mps_shared_memory": Path("/run/shm")}),
        ("otlp_endpoint", {"otlp_endpoint": "http://h:4318"}),
        ("listen", {"listen": "nowhere"}),
    ],
)
def test_settings_that_make_no_sense(field: str, values: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=field):
        RuntimeHook(**values)  # type: ignore[arg-type]


def test_what_an_owner_of_a_pod_can_write_is_not_believed_by_default() -> None:
    settings = settings_of(AgentConfig(node="node"))
    assert replace(settings, batch=None) == FirstValueSettings(batch=None)
    assert (settings.believed, settings.cpus, settings.devices, settings.names) == (frozenset(), False, False, False)
