"""A plugin answers its runtime whatever happens: late, in pieces, too long, unknown, or with a decision that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.fakes.node.fake_hook_runtime import LONGEST_PIECE, FakeHookRuntime, PluginOfRuntime
from tests.fakes.waiting import patience

from cotenant.drivers.nri.containers import HookedContainer, HookedPod
from cotenant.drivers.nri.session import NriSession, RuntimeVersion
from cotenant.model.errors import CotenantError, Permanent, Transient
from cotenant.model.machine.first_values import NOTHING, FirstValues
from cotenant.model.machine.knob_values import CpuMax

POD = {"id": "s1", "uid": "u1", "namespace": "shop", "name": "batch-1", "labels": {"app": "batch"}}
CONTAINER = {"id": "c1", "pod_sandbox_id": "s1", "name": "work", "state": 3, "env": ["PATH=/bin", "HOME=/"]}


@dataclass
class Recorded:
    """A plugin that answers with `values`, or fails with `error`."""

    values: FirstValues = NOTHING
    error: Exception | None = None
    runtime: RuntimeVersion | None = None
    seen: list[tuple[HookedPod, HookedContainer]] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    is_asked: bool = False
    failures: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    def configured(self, runtime: RuntimeVersion) -> None:
        self.runtime = runtime

    def synchronized(
        self, pods: Sequence[HookedPod], found: Sequence[tuple[HookedPod, HookedContainer]], *, more: bool
    ) -> None:
        self.is_asked = not more
        self.running += [f"{pod.name}/{container.name}" for pod, container in found]

    def creating(self, pod: HookedPod, container: HookedContainer) -> FirstValues:
        self.seen.append((pod, container))
        if self.error is not None:
            raise self.error
        return self.values

    def updating(self, pod: HookedPod, container: HookedContainer) -> FirstValues:
        return self.creating(pod, container)

    def removed(self, container_id: str) -> None:
        self.gone.append(container_id)

    def failed(self, method: str) -> None:
        self.failures.append(method)


def with_plugin(
    folder: Path, plugin: Recorded, scenario: Callable[[PluginOfRuntime], Awaitable[None]], cpu_version: int = 1
) -> CotenantError | None:
    """Run a scenario at the runtime's end; what the session ended with."""

    async def play() -> CotenantError | None:
        async with asyncio.timeout(patience(20)), FakeHookRuntime(folder) as runtime:
            reader, writer = await asyncio.open_unix_connection(str(runtime.socket))
            session = asyncio.create_task(NriSession(reader, writer, plugin, cpu_version).run("cotenant", "50"))
            connected = await runtime.plugins.get()
            await scenario(connected)
            connected.close()
            try:
                await session
            except CotenantError as error:
                return error
            return None

    return asyncio.run(play())


def test_registration_configuration_and_what_runs(tmp_path: Path) -> None:
    plugin = Recorded()

    async def scenario(runtime: PluginOfRuntime) -> None:
        await runtime.register()
        assert (runtime.registered.plugin_name, runtime.registered.plugin_idx) == ("cotenant", "50")
        answer = await runtime.call("Configure", runtime_name="containerd", runtime_version="1.7.24")
        assert answer.events == (1 << 3) + (1 << 7)  # creations and updates, no other event waits for us
        first = await runtime.call("Synchronize", pods=[POD], containers=[CONTAINER], more=True)
        assert not plugin.is_asked
        last = await runtime.call("Synchronize", pods=[POD], containers=[{**CONTAINER, "name": "more"}])
        assert (first.more, last.more, list(first.update), list(last.update)) == (True, False, [], [])

    assert with_plugin(tmp_path, plugin, scenario) is None
    assert plugin.runtime == RuntimeVersion("containerd", "1.7.24")
    assert (plugin.running, plugin.is_asked) == (["batch-1/work", "batch-1/more"], True)


def test_a_container_gets_its_first_values(tmp_path: Path) -> None:
    plugin = Recorded(
        FirstValues(
            weight=1,
            quota=CpuMax(50_000),
            memory_bytes=64 << 20,
            cpus=(2, 3),
            cache_class="BE",
            environment=(("OTEL_SERVICE_NAME", "batch"),),
            devices=("nvidia.com/gpu=1",),
        )
    )

    async def scenario(runtime: PluginOfRuntime) -> None:
        await runtime.register()
        adjust = (await runtime.call("CreateContainer", pod=POD, container=CONTAINER)).adjust
        resources = adjust.linux.resources
        assert (resources.cpu.shares.value, resources.cpu.quota.value, resources.cpu.period.value) == (
            2,
            50_000,
            100_000,
        )
        assert (resources.cpu.cpus, resources.memory.limit.value, resources.rdt_class.value) == ("2-3", 64 << 20, "BE")
        assert [(entry.key, entry.value) for entry in adjust.env] == [("OTEL_SERVICE_NAME", "batch")]
        assert [device.name for device in adjust.CDI_devices] == ["nvidia.com/gpu=1"]
        assert not resources.unified
        (update,) = (await runtime.call("UpdateContainer", pod=POD, container=CONTAINER)).update
        assert (update.container_id, update.linux.resources.cpu.shares.value, update.ignore_failure) == ("c1", 2, True)

    assert with_plugin(tmp_path, plugin, scenario) is None
    pod, container = plugin.seen[0]
    assert (pod.namespace, pod.name, pod.uid, pod.labels.get("app")) == ("shop", "batch-1", "u1", "batch")
    assert (container.name, container.is_running, container.variables) == ("work", True, {"PATH", "HOME"})


def test_a_weight_on_cgroup_v2_is_the_knob_itself(tmp_path: Path) -> None:
    async def scenario(runtime: PluginOfRuntime) -> None:
        await runtime.register()
        resources = (await runtime.call("CreateContainer", pod=POD, container=CONTAINER)).adjust.linux.resources
        assert dict(resources.unified) == {"cpu.weight": "150"}
        assert not resources.HasField("cpu")

    assert with_plugin(tmp_path, Recorded(FirstValues(weight=150)), scenario, cpu_version=2) is None


def test_no_values_are_no_change(tmp_path: Path) -> None:
    async def scenario(runtime: PluginOfRuntime) -> None:
        await runtime.register()
        assert not (await runtime.call("CreateContainer", pod=POD, container=CONTAINER)).HasField("adjust")
        assert not (await runtime.call("UpdateContainer", pod=POD, container=CONTAINER)).update

    assert with_plugin(tmp_path, Recorded(), scenario) is None


def test_a_decision_that_fails_is_an_answer_without_a_change(tmp_path: Path) -> None:
    plugin = Recorded(FirstValues(weight=1), error=RuntimeError("a defect"))

    async def scenario(runtime: PluginOfRuntime) -> None:
        await runtime.register()
        assert not (await runtime.call("CreateContainer", pod=POD, container=CONTAINER)).HasField("adjust")
        plugin.error = None
        assert (await runtime.call("CreateContainer", pod=POD, container=CONTAINER)).HasField("adjust")

    assert with_plugin(tmp_path, plugin, scenario) is None
    assert plugin.failures == ["CreateContainer"]


def test_calls_in_halves_and_several_at_once(tmp_path: Path) -> None:
    async def scenario(runtime: PluginOfRuntime) -> None:
        await runtime.register()
        two = runtime.request("CreateContainer", "CreateContainerRequest", pod=POD, container=CONTAINER)
        two += runtime.request("StopContainer", "StopContainerRequest", pod=POD, container=CONTAINER)
        await runtime.send(two, piece=5)
        assert (await runtime.answer("CreateContainerResponse"))[1].adjust.linux.resources.cpu.shares.value == 2
        assert (await runtime.answer("StopContainerResponse"))[0] == 0

    assert with_plugin(tmp_path, Recorded(FirstValues(weight=1)), scenario) is None


@pytest.mark.parametrize(
    ("service", "method"), [("nri.pkg.api.v1alpha1.Plugin", "Dance"), ("other", "CreateContainer")]
)
def test_an_unknown_call_is_said_to_be_one(tmp_path: Path, service: str, method: str) -> None:
    async def scenario(runtime: PluginOfRuntime) -> None:
        await runtime.register()
        await runtime.send(runtime.request(method, "Empty", service=service))
        assert (await runtime.answer("Empty"))[0] == 12
        await runtime.send(runtime.request("StateChange", "StateChangeEvent", event=6, pod=POD))
        assert (await runtime.answer("Empty"))[0] == 0

    assert with_plugin(tmp_path, Recorded(), scenario) is None


def test_a_call_that_cannot_be_read_is_an_answer_without_a_change(tmp_path: Path) -> None:
    plugin = Recorded(FirstValues(weight=1))

    async def scenario(runtime: PluginOfRuntime) -> None:
        await runtime.register()
        await runtime.send(runtime.frame(1, 1, 1, b"\xff\xff\xff"))
        assert (await runtime.answer("Empty"))[0] == 0
        assert (await runtime.call("CreateContainer", pod=POD, container=CONTAINER)).HasField("adjust")

    assert with_plugin(tmp_path, plugin, scenario) is None
    assert plugin.failures == [""]


def test_a_message_that_is_too_long_is_refused_and_the_next_answered(tmp_path: Path) -> None:
    async def scenario(runtime: PluginOfRuntime) -> None:
        await runtime.register()
        await runtime.send(runtime.frame(1, 1, 1, bytes((4 << 20) + 1)))
        assert (await runtime.answer("Empty"))[0] == 8
        assert (await runtime.call("CreateContainer", pod=POD, container=CONTAINER)).HasField("adjust")

    assert with_plugin(tmp_path, Recorded(FirstValues(weight=1)), scenario) is None


def test_a_frame_that_is_too_long_ends_the_connection(tmp_path: Path) -> None:
    async def scenario(runtime: PluginOfRuntime) -> None:
        await runtime.register()
        await runtime.send(b"\x00\x00\x00\x01\xff\xff\xff\xff")
        assert await runtime.closed()

    assert isinstance(with_plugin(tmp_path, Recorded(), scenario), Permanent)


def test_answers_leave_in_pieces_that_a_runtime_can_read(tmp_path: Path) -> None:
    long = FirstValues(environment=(("OTEL_RESOURCE_ATTRIBUTES", "x" * 20_000),))

    async def scenario(runtime: PluginOfRuntime) -> None:
        await runtime.register()
        (variable,) = (await runtime.call("CreateContainer", pod=POD, container=CONTAINER)).adjust.env
        assert len(variable.value) == 20_000
        assert runtime.longest_piece == LONGEST_PIECE

    assert with_plugin(tmp_path, Recorded(long), scenario) is None


def test_a_runtime_that_refuses_the_plugin(tmp_path: Path) -> None:
    async def scenario(runtime: PluginOfRuntime) -> None:
        await runtime.register(code=3)

    assert "not here" in str(with_plugin(tmp_path, Recorded(), scenario))


def test_a_runtime_that_closes_before_it_answers(tmp_path: Path) -> None:
    async def scenario(runtime: PluginOfRuntime) -> None:
        runtime.close()

    assert isinstance(with_plugin(tmp_path, Recorded(), scenario), Transient)
