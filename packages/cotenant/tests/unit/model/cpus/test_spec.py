from __future__ import annotations

import pytest

from cotenant.model.cpus.spec import (
    BindPolicy,
    ExclusivePolicy,
    NumaAmount,
    NumaTopologySpec,
    ResourceSpec,
    ResourceStatus,
    TopologyPolicy,
)
from cotenant.model.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("{}", ResourceSpec()),
        ('{"preferredCPUBindPolicy":"SpreadByPCPUs"}', ResourceSpec(preferred=BindPolicy.SPREAD)),
        (
            '{"requiredCPUBindPolicy":"FullPCPUs","preferredCPUExclusivePolicy":"PCPULevel"}',
            ResourceSpec(BindPolicy.FULL_CORES, exclusive=ExclusivePolicy.CORE),
        ),
    ],
)
def test_a_spec_is_read_and_written_again(text: str, spec: ResourceSpec) -> None:
    assert ResourceSpec.parse(text) == spec
    assert spec.format() == text


def test_a_required_default_requires_nothing() -> None:
    assert ResourceSpec.parse('{"requiredCPUBindPolicy":"Default"}') == ResourceSpec()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"preferredCPUBindPolicy":"Tight"}', '{"requiredCPUBindPolicy":3}'])
def test_what_is_no_spec_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        ResourceSpec.parse(text)


def test_a_status_is_written_shortest_and_read_again() -> None:
    status = ResourceStatus((0, 1, 2, 8), (NumaAmount(0, 3500, 1 << 30), NumaAmount(1, None, None)))
    text = status.format()
    assert text == (
        '{"cpuset":"0-2,8","numaNodeResources":[{"node":0,"resources":{"cpu":"3500m","memory":"1Gi"}},'
        '{"node":1,"resources":{}}]}'
    )
    assert ResourceStatus.parse(text) == status
    assert ResourceStatus.parse("{}") == ResourceStatus()


@pytest.mark.parametrize(
    "text",
    [
        '{"cpuset":"a"}',
        '{"cpuset":3}',
        '{"numaNodeResources":{}}',
        '{"numaNodeResources":[3]}',
        '{"numaNodeResources":[{"node":-1}]}',
        '{"numaNodeResources":[{"node":0,"resources":{"cpu":"x"}}]}',
        '{"numaNodeResources":[{"node":0,"resources":{"cpu":null}}]}',
    ],
)
def test_what_is_no_status_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="resource-status"):
        ResourceStatus.parse(text)


def test_numa_topology_spec() -> None:
    assert NumaTopologySpec.parse('{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Required"}') == (
        NumaTopologySpec(TopologyPolicy.SINGLE_NUMA_NODE, True)
    )
    with pytest.raises(InvalidInput, match="one of BestEffort, Restricted, SingleNUMANode"):
        NumaTopologySpec.parse('{"numaTopologyPolicy":"single-numa-node"}')
    with pytest.raises(InvalidInput, match="Preferred or Required"):
        NumaTopologySpec.parse('{"singleNUMANodeExclusive":"yes"}')
