from __future__ import annotations

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.device import DEVICES, DeviceObject, read_devices, written_devices
from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.devices.device import Device, DeviceType, FunctionGroup, VirtualFunction
from cotenant.model.devices.inventory import LINK_DOMAIN, NodeDevices
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, RDMA, Amounts

TEXT = """
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: Device
metadata:
  name: node-1
  labels: {node.koordinator.sh/gpu-model: H100, node.koordinator.sh/gpu-partition-policy: Honor}
  annotations:
    scheduling.koordinator.sh/gpu-partitions:
      '{"2": [{"minors": [0, 1], "gpuLinkType": "NVLink", "allocationScore": 3}]}'
spec:
  devices:
  - type: gpu
    id: GPU-a
    minor: 0
    moduleID: 1
    health: true
    labels: {cotenant.io/link-domain: "0"}
    resources: {koordinator.sh/gpu-core: "100", koordinator.sh/gpu-memory: 80Gi, koordinator.sh/gpu-memory-ratio: 100}
    topology: {socketID: -1, nodeID: 0, pcieID: "pci0000:16", busID: "0000:17:00.0"}
  - {type: gpu, minor: 1, resources: {koordinator.sh/gpu-core: "100"}}
  - type: rdma
    minor: 0
    health: true
    resources: {koordinator.sh/rdma: "100"}
    topology: {nodeID: -1, pcieID: "", busID: "0000:18:00.0"}
    vfGroups:
    - labels: {kind: fast}
      vfs: [{busID: "0000:18:00.1"}, {minor: 1, busID: "0000:18:00.2"}]
  - {type: xpu, minor: 0, health: true}
"""


def decoded(text: str) -> DeviceObject:
    return msgspec.convert(msgspec.yaml.decode(text), DeviceObject)


def test_a_device_object_is_read() -> None:
    told = read_devices(decoded(TEXT))
    gpu, silent, card = told.devices
    assert (told.node, told.wrong) == ("node-1", ())
    assert gpu == Device(
        DeviceType.GPU,
        0,
        Amounts.of({GPU_CORE: 100, GPU_MEMORY: 80 << 30, GPU_MEMORY_RATIO: 100}),
        True,
        0,
        "pci0000:16",
        "0",
        "GPU-a",
        Labels.of({LINK_DOMAIN: "0"}),
    )
    assert not silent.healthy
    assert (card.numa, card.pcie, card.id) == (None, None, "0000:18:00.0")
    assert card.total == Amounts.of({RDMA: 100})
    assert card.function_groups[0].functions == (
        VirtualFunction(0, "0000:18:00.1"),
        VirtualFunction(1, "0000:18:00.2"),
    )
    table, honor = told.partitions(NO_LABELS)
    assert table is not None
    assert (table.sizes(), honor) == ((2,), True)


def test_the_nodes_labels_speak_where_the_object_has_none() -> None:
    told = NodeDevices("n", ())
    table, honor = told.partitions(
        Labels.of({"node.koordinator.sh/gpu-model": "H100", "node.koordinator.sh/gpu-partition-policy": "Prefer"})
    )
    assert table is not None
    assert (table.sizes(), honor) == ((1, 2, 4, 8), False)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{type: gpu, minor: 0, health: true, resources: {koordinator.sh/gpu-core: many}}", "resources"),
        ("{type: gpu, health: true}", "minor"),
        ("{type: gpu, minor: 5000, health: true}", "minor"),
        ("{type: rdma, minor: 0, health: true, vfGroups: [{vfs: [{minor: 1}]}]}", "busID"),
    ],
)
def test_one_wrong_entry_costs_only_itself(entry: str, words: str) -> None:
    good = "{type: gpu, minor: 7, health: true, resources: {koordinator.sh/gpu-core: 100}}"
    told = read_devices(decoded(f"metadata: {{name: n}}\nspec: {{devices: [{entry}, {good}]}}"))
    assert [device.minor for device in told.devices if device.healthy] == [7]
    assert len(told.wrong) == 1
    assert words in told.wrong[0]


def test_a_minor_that_comes_twice_is_given_to_nobody() -> None:
    element = "{type: gpu, minor: 0, health: true, resources: {koordinator.sh/gpu-core: 100}}"
    told = read_devices(decoded(f"metadata: {{name: n}}\nspec: {{devices: [{element}, {element}]}}"))
    assert [(device.minor, device.healthy) for device in told.devices] == [(0, False)]
    assert told.wrong


def test_a_partition_table_that_cannot_be_read_makes_the_object_unusable() -> None:
    with pytest.raises(InvalidInput):
        read_devices(
            decoded('metadata: {name: n, annotations: {scheduling.koordinator.sh/gpu-partitions: "{\\"2\\": 1}"}}')
        )


def test_what_is_written_reads_back() -> None:
    functions = (FunctionGroup((VirtualFunction(1, "0000:18:00.2"),), Labels.of({"kind": "fast"})),)
    total = Amounts.of({GPU_CORE: 100, GPU_MEMORY: 3 << 30, GPU_MEMORY_RATIO: 100})
    told = NodeDevices(
        "n",
        (
            Device(DeviceType.GPU, 0, total, False, 1, "p", "2", "GPU-a", Labels.of({LINK_DOMAIN: "2"})),
            Device(DeviceType.RDMA, 3, Amounts.of({RDMA: 100}), function_groups=functions, id="0000:18:00.0"),
        ),
        labels=Labels.of({"node.koordinator.sh/gpu-model": "H20"}),
    )
    raw = msgspec.json.encode(written_devices(told))
    assert read_devices(msgspec.json.decode(raw, type=DEVICES.form)) == told
