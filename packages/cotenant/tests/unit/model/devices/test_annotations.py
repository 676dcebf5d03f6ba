from __future__ import annotations

import pytest

from cotenant.model.cluster.labels import LabelSelector, Requirement, SelectorOperator
from cotenant.model.devices.allocation import DeviceAllocation, format_allocations, parse_allocations
from cotenant.model.devices.device import Device, DeviceType, VirtualFunction
from cotenant.model.devices.hints import (
    CountBy,
    DeviceHint,
    DeviceScope,
    JointAllocation,
    PartitionSpec,
    parse_hints,
    parse_joint,
    parse_partition_spec,
)
from cotenant.model.devices.partition import Partition, PartitionTable, halves, table_of_model
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, RDMA, Amounts

GIVEN = (
    DeviceAllocation(
        DeviceType.GPU, 0, Amounts.of({GPU_CORE: 50, GPU_MEMORY: 8 << 30, GPU_MEMORY_RATIO: 50}), id="GPU-a"
    ),
    DeviceAllocation(DeviceType.RDMA, 1, Amounts.of({RDMA: 1}), (VirtualFunction(2, "0000:09:00.4"),)),
)


def test_an_allocation_is_written_as_node_agents_read_it() -> None:
    text = format_allocations(GIVEN)
    assert text == (
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"8Gi",'
        '"koordinator.sh/gpu-memory-ratio":"50"},"id":"GPU-a"}],"rdma":[{"minor":1,"resources":'
        '{"koordinator.sh/rdma":"1"},"extension":{"vfs":[{"minor":2,"busID":"0000:09:00.4"}]}}]}'
    )
    assert parse_allocations(text) == GIVEN


def test_amounts_written_as_numbers_are_read_too() -> None:
    text = '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":100,"koordinator.sh/gpu-memory":"16Gi"}}]}'
    (got,) = parse_allocations(text)
    assert got.amounts == Amounts.of({GPU_CORE: 100, GPU_MEMORY: 16 << 30})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"xpu":[]}',
        '{"gpu":{}}',
        '{"gpu":[3]}',
        '{"gpu":[{"minor":-1}]}',
        '{"gpu":[{"minor":5000}]}',
        '{"gpu":[{"minor":0,"resources":{"a":"-1"}}]}',
        '{"gpu":[{"minor":0,"resources":3}]}',
        '{"gpu":[{"minor":0,"extension":3}]}',
        '{"gpu":[{"minor":0,"extension":{"vfs":[{"minor":0}]}}]}',
    ],
)
def test_what_is_no_allocation_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_allocations(text)


def test_hints_are_read() -> None:
    text = (
        '{"rdma":{"vfSelector":{"matchExpressions":[{"key":"type","operator":"In","values":["general"]}]},'
        '"allocateStrategy":"RequestsAsCount","exclusivePolicy":"DeviceLevel"},'
        '"gpu":{"selector":{"matchLabels":{"model":"A100"}},"requiredTopologyScope":"NUMANode"}}'
    )
    gpu, rdma = parse_hints(text)
    assert gpu == DeviceHint(DeviceType.GPU, LabelSelector.of({"model": "A100"}), scope=DeviceScope.NUMA)
    general = LabelSelector((Requirement("type", SelectorOperator.IN, ("general",)),))
    assert rdma == DeviceHint(DeviceType.RDMA, function_selector=general, count_by=CountBy.REQUESTS, whole_device=True)


@pytest.mark.parametrize(
    "text",
    [
        "3",
        '{"tpu":{}}',
        '{"gpu":3}',
        '{"gpu":{"selector":3}}',
        '{"gpu":{"selector":{"matchExpressions":[3]}}}',
        '{"gpu":{"allocateStrategy":"Some"}}',
        '{"gpu":{"requiredTopologyScope":"Rack"}}',
        '{"gpu":{"exclusivePolicy":"Rack"}}',
    ],
)
def test_a_hint_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_hints(text)


def test_which_types_go_together() -> None:
    both = JointAllocation((DeviceType.GPU, DeviceType.RDMA), True)
    assert parse_joint('{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}') == both
    assert parse_joint("{}") is None
    for text in (
        '{"deviceTypes":["gpu","gpu"]}',
        '{"deviceTypes":"gpu"}',
        '{"deviceTypes":["gpu"],"requiredScope":"x"}',
    ):
        with pytest.raises(InvalidInput):
            parse_joint(text)


def test_partition_specs_and_tables() -> None:
    assert parse_partition_spec("{}") == PartitionSpec()
    assert parse_partition_spec('{"allocatePolicy":"Restricted","ringBusBandwidth":"400G"}') == PartitionSpec(
        True, 400_000_000_000
    )
    table = PartitionTable.parse(
        '{"2":[{"minors":[0,2]},{"minors":[1,3],"allocationScore":5,"ringBusBandwidth":10}],"3":[{"minors":[0,1,2]}]}'
    )
    assert table.sizes() == (2, 3)
    assert table.sets(2) == (Partition(0b1010, 5, 10), Partition(0b101, 0))
    assert table.sets(4) == ()


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"2":3}',
        '{"2":[{"minors":[0,0]}]}',
        '{"2":[{"minors":[0]}]}',
        '{"1":[{"minors":[-1]}]}',
        '{"1":[{"minors":[0],"allocationScore":"a"}]}',
    ],
)
def test_a_table_that_contradicts_itself_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        PartitionTable.parse(text)


def test_the_table_of_halves_has_any_size() -> None:
    assert [len(halves(16).sets(size)) for size in (1, 2, 4, 8, 16)] == [16, 8, 4, 2, 1]
    assert table_of_model("H100") == halves(8)
    assert table_of_model("T4") is None
    with pytest.raises(InvalidInput, match="a power of two"):
        halves(6)


def test_a_minor_has_bounds() -> None:
    with pytest.raises(InvalidInput):
        Device(DeviceType.GPU, 1024)
