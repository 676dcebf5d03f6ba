"""The Device object of the machine's GPUs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from tests.fakes.node.fake_nvml import FakeNvml, Gpu
from tests.unit.engine.rules.test_devices import cluster, decided, pod

from cotenant.drivers.gpu.nvml import GpuReader
from cotenant.drivers.gpu.places import place_of, short_address
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.device import DeviceObject, read_devices
from cotenant.engine.node.agent import Agent
from cotenant.engine.node.gpu_lending.settings import GpuLendingSettings
from cotenant.engine.node.gpu_limits import ShareVerdict
from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.policies import PolicySettings
from cotenant.engine.rules.devices.requests import DeviceSettings
from cotenant.model.devices.inventory import NODE_ISOLATION
from cotenant.model.devices.partition import GPU_MODEL
from cotenant.model.devices.shares import HELD_BY_MPS
from cotenant.model.resources import GPU, LENT_GPU
from cotenant.policy.overcommit.gpu_totals import gpu_totals
from cotenant.services.agent.reports.devices import MARK, DeviceWriter, device_object_of, model_of
from cotenant.services.agent.reports.lent_gpus import LentGpus, lent_gpus
from cotenant.services.agent_settings.config import AgentConfig


class OneObject:
    """As much of a client as the writer needs."""

    def __init__(self, obj: dict[str, Any] | None = None) -> None:
        self.obj = obj
        self.writes = 0

    async def get(self, kind: Any, namespace: str, name: str) -> DeviceObject:
        if self.obj is None:
            raise NotFound(f"{kind.plural} {name}")
        return msgspec.convert(self.obj, DeviceObject)

    async def create(self, kind: Any, namespace: str, obj: dict[str, Any]) -> None:
        self.obj = obj
        self.writes += 1

    async def patch(self, kind: Any, namespace: str, name: str, body: dict[str, Any], **_: str) -> None:
        assert self.obj is not None
        merged = {**self.obj["metadata"].get("labels", {}), **body["metadata"]["labels"]}
        labels = {key: value for key, value in merged.items() if value is not None}
        self.obj = {**self.obj, "spec": body["spec"], "metadata": {**self.obj["metadata"], "labels": labels}}
        self.writes += 1


def machine(root: Path) -> None:
    for bridge, bus, numa in (("pci0000:16", "0000:17:00.0", 1), ("pci0000:96", "0000:97:00.0", -1)):
        device = root / "devices" / bridge / bus
        device.mkdir(parents=True)
        (device / "numa_node").write_text(f"{numa}\n")
        (root / "bus").mkdir(exist_ok=True)
        (root / "bus" / bus).symlink_to(device)


def test_the_place_of_a_gpu_is_read_from_sysfs(tmp_path: Path) -> None:
    machine(tmp_path)
    assert place_of(short_address("00000000:17:00.0"), tmp_path / "bus") == (1, "pci0000:16")
    assert place_of("0000:97:00.0", tmp_path / "bus") == (None, "pci0000:96")
    assert place_of("0000:01:00.0", tmp_path / "bus") == (None, None)
    assert place_of("") == (None, None)


def test_gpus_are_reported_and_updated_when_one_becomes_unhealthy() -> None:
    nvml = FakeNvml(Gpu("GPU-a"), Gpu("GPU-b", bus="0000AAAA:BB:00.0"))
    reader = GpuReader(nvml)
    client = OneObject()
    writer = DeviceWriter(client, "n", reader.read, lambda bus: (0, bus))  # type: ignore[arg-type]

    def write() -> bool:
        return asyncio.run(writer.write())

    assert write()
    assert not write()  # it says so already
    assert client.obj is not None
    assert (client.obj["apiVersion"], client.obj["kind"]) == ("scheduling.koordinator.sh/v1alpha1", "Device")
    told = read_devices(msgspec.convert(client.obj, DeviceObject))
    assert [(device.id, device.healthy, device.pcie) for device in told.devices] == [
        ("GPU-a", True, "0000:17:00.0"),
        ("GPU-b", True, "aaaa:bb:00.0"),
    ]
    assert told.labels.get(GPU_MODEL) == "H100"
    nvml.gpus[1].uncorrected = 2
    assert write()
    again = read_devices(msgspec.convert(client.obj, DeviceObject))
    assert [device.healthy for device in again.devices] == [True, False]
    assert (writer.written, writer.failures) == (2, 0)


def test_a_card_that_is_divided_is_nobodys_as_a_whole_until_it_is_whole_again() -> None:
    gpu = Gpu("GPU-a")
    client = OneObject()
    writer = DeviceWriter(client, "n", GpuReader(FakeNvml(gpu)).read, lambda bus: (0, bus))  # type: ignore[arg-type]

    def healthy() -> list[bool]:
        asyncio.run(writer.write())
        assert client.obj is not None
        return [device.healthy for device in read_devices(msgspec.convert(client.obj, DeviceObject)).devices]

    assert healthy() == [True]
    gpu.divided = True
    assert healthy() == [False]
    gpu.divided = False
    assert healthy() == [True]


def test_what_holds_shares_is_a_label_while_it_is_seen() -> None:
    client, seen = OneObject(), [ShareVerdict(why="no daemon")]
    reader = GpuReader(FakeNvml(Gpu("GPU-a")))
    writer = DeviceWriter(client, "n", reader.read, lambda bus: (None, None), lambda gpus: seen[0])  # type: ignore[arg-type]

    def label() -> str | None:
        asyncio.run(writer.write())
        return read_devices(msgspec.convert(client.obj, DeviceObject)).labels.get(NODE_ISOLATION)

    assert label() is None
    seen[0] = ShareVerdict(HELD_BY_MPS)
    assert (label(), client.writes) == (HELD_BY_MPS, 2)
    assert (label(), client.writes) == (HELD_BY_MPS, 2)
    seen[0] = ShareVerdict(why="a/b/c: a share, and not its limits")
    assert (label(), client.writes) == (None, 3)
    assert (label(), client.writes) == (None, 3)
    assert client.obj is not None
    client.obj["metadata"]["labels"][NODE_ISOLATION] = "HAMi-core"  # by hand
    for seen[0] in (ShareVerdict(HELD_BY_MPS), ShareVerdict()):
        assert (label(), client.writes) == ("HAMi-core", 3)


def test_the_scheduler_follows_what_the_agent_saw() -> None:
    """From the object that the agent writes to the engine's rule."""
    gpus = GpuReader(FakeNvml(Gpu("GPU-a"))).read()
    engine = cluster("n", settings=DeviceSettings(only_isolated=True))
    engine.plugins.devices.seen(device_object_of("n", gpus, lambda bus: (None, None)))
    engine.pod_seen(pod("x", {GPU: 50}), 0.0)
    assert not decided(engine, 0.0)
    engine.plugins.devices.seen(device_object_of("n", gpus, lambda bus: (None, None), HELD_BY_MPS))
    assert decided(engine, 400.0)["x"].holds.gpu_share == HELD_BY_MPS


def test_what_is_lent_stands_on_the_cards_while_it_is_lent() -> None:
    client, offered = OneObject(), [LentGpus({"GPU-a": 40}, 30), LentGpus({"GPU-a": 0}, 30), None]
    reader = GpuReader(FakeNvml(Gpu("GPU-a"), Gpu("GPU-b")))
    writer = DeviceWriter(client, "n", reader.read, lambda bus: (None, None), lent=lambda: offered[0])  # type: ignore[arg-type]

    def told() -> tuple[list[int], bool, int]:
        assert asyncio.run(writer.write())
        found = read_devices(msgspec.convert(client.obj, DeviceObject))
        names = [LENT_GPU in device.total for device in found.devices]
        assert names in ([True, True], [False, False])
        return [device.total.get(LENT_GPU) for device in found.devices], names[0], found.returns_s()

    assert told() == ([40, 0], True, 30)
    assert gpu_totals(read_devices(msgspec.convert(client.obj, DeviceObject))).listed >= {LENT_GPU}
    assert not asyncio.run(writer.write())
    del offered[0]
    assert told() == ([0, 0], True, 30)  # known and nothing left, which is not the same as never
    del offered[0]
    assert told() == ([0, 0], False, 0)


def test_the_scheduler_gives_what_the_agent_lends() -> None:
    gpus = GpuReader(FakeNvml(Gpu("GPU-a"))).read()
    engine = cluster("n")
    engine.pod_seen(pod("train", {LENT_GPU: 30}), 0.0)
    for at, percent in enumerate((0, 30)):
        lent = LentGpus({"GPU-a": percent}, 30)
        engine.plugins.devices.seen(device_object_of("n", gpus, lambda bus: (None, None), HELD_BY_MPS, lent))
        assert ("train" in decided(engine, 400.0 * at)) is bool(percent)


def test_an_agent_that_only_observes_lends_nothing() -> None:
    lending = PolicySettings(gpu_lending=GpuLendingSettings(return_s=20))
    for mode in AgentMode:
        config = AgentConfig(node="n", mode=mode, policies=lending, writable=("pods",))
        found = lent_gpus(Agent(config.settings(), "n"), config)
        assert found == (LentGpus({}, 20) if mode is AgentMode.ACT else None)
    config = AgentConfig(node="n", mode=AgentMode.ACT, writable=("pods",))
    assert lent_gpus(Agent(config.settings(), "n"), config) is None


def test_an_object_of_another_agent_is_left_alone() -> None:
    client = OneObject({"metadata": {"name": "n"}, "spec": {"devices": []}})
    writer = DeviceWriter(client, "n", GpuReader(FakeNvml(Gpu("GPU-a"))).read, lambda bus: (None, None))  # type: ignore[arg-type]
    assert not asyncio.run(writer.write())
    assert client.writes == 0
    assert "another agent" in writer.problem


def test_a_machine_without_gpus_writes_nothing() -> None:
    client = OneObject()
    writer = DeviceWriter(client, "n", tuple)  # type: ignore[arg-type]
    assert not asyncio.run(writer.write())
    assert client.obj is None


def test_models_are_labels() -> None:
    assert model_of("NVIDIA H100 80GB HBM3") == "H100"
    assert model_of("Tesla T4") == "Tesla-T4"
    assert dict(device_object_of("n", (), lambda bus: (None, None)).labels) == dict([MARK])
