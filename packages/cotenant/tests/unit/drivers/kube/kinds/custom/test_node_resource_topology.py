"""NodeResourceTopology as Koordinator's agents write it, and what cannot be true of it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.fakes.cluster.cpu_cluster import cpus

from cotenant.drivers.kube.kinds.custom.node_resource_topology import (
    NodeResourceTopology,
    PodCpus,
    allocs_text,
    pools_text,
    read_node_topology,
    topology_text,
)
from cotenant.model.cpus.reported import NodeTopology, NumaZone
from cotenant.model.cpus.spec import NodeBindPolicy, NumaStrategy, TopologyPolicy
from cotenant.model.cpus.topology import numbers_in
from cotenant.model.errors import InvalidInput


def read(annotations: dict[str, Any], **more: Any) -> NodeTopology:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in annotations.items()}
    manifest = {"metadata": {"name": "a", "annotations": texts}, "topologyPolicies": [], "zones": [], **more}
    return read_node_topology(msgspec.json.decode(json.dumps(manifest), type=NodeResourceTopology))


def detail(*rows: tuple[int, int, int, int]) -> dict[str, Any]:
    return {"detail": [{"id": id_, "core": core, "socket": socket, "node": node} for id_, core, socket, node in rows]}


TOLD = {"node.koordinator.sh/cpu-topology": topology_text(cpus())}


def test_everything_that_keeps_cpus_is_kept() -> None:
    told = read(
        {
            **TOLD,
            "kubelet.koordinator.sh/cpu-manager-policy": {
                "policy": "static",
                "reservedCPUs": "0",
                "options": {"full-pcpus-only": "true", "distribute-cpus-across-numa": "true"},
            },
            "node.koordinator.sh/reservation": {"reservedCPUs": "1"},
            "node.koordinator.sh/system-qos-resource": {"cpuset": "2", "cpusetExclusive": True},
            "node.koordinator.sh/pod-cpu-allocs": [
                {"namespace": "n", "name": "g", "uid": "u", "cpuset": "3-4", "managedByKubelet": True},
                {"namespace": "n", "name": "ours", "uid": "v", "cpuset": "5"},
            ],
            "node.koordinator.sh/resource-amplification-ratio": {"cpu": 1.5},
            "node.koordinator.sh/cpu-shared-pools": "[]",
        },
        topologyPolicies=["Restricted"],
        zones=[
            {
                "name": "node-1",
                "type": "Node",
                "resources": [{"name": "memory", "capacity": "2Gi", "allocatable": "1Gi", "available": "1Gi"}],
            },
            {"name": "node-0", "type": "Node"},
            {"name": "node-x", "type": "Node"},
            {"name": "node-2", "type": "Core"},
        ],
    )
    assert [(reserved_cpus.who, numbers_in(reserved_cpus.cpus)) for reserved_cpus in told.kept] == [
        ("kubelet", (0,)),
        ("reservation", (1,)),
        ("system", (2,)),
        ("pod n/g by the kubelet's static policy", (3, 4)),
    ]
    assert numbers_in(told.reserved) == (0, 1, 2, 3, 4)
    assert (told.bind, told.strategy) == (NodeBindPolicy.FULL_CORES_ONLY, NumaStrategy.DISTRIBUTE_EVENLY)
    assert (told.policy, told.ratio_ppm) == (TopologyPolicy.RESTRICTED, 1_500_000)
    assert told.kubelet_gives
    assert told.zones == (NumaZone(0), NumaZone(1, None, 1 << 30))


def test_the_kubelets_options_count_with_its_static_policy_only() -> None:
    policy = {"policy": "none", "options": {"full-pcpus-only": "true"}}
    told = read({**TOLD, "kubelet.koordinator.sh/cpu-manager-policy": policy})
    assert (told.bind, told.kubelet_gives) == (NodeBindPolicy.NONE, False)


def test_equal_texts_are_one_topology() -> None:
    assert read(TOLD).topology is read(TOLD).topology


@pytest.mark.parametrize(
    ("annotations", "named"),
    [
        ({}, "cpu-topology"),
        ({"node.koordinator.sh/cpu-topology": "{"}, "cpu-topology"),
        ({"node.koordinator.sh/cpu-topology": {"detail": []}}, "at least one CPU"),
        ({"node.koordinator.sh/cpu-topology": detail((0, 0, 0, 0), (0, 1, 0, 0))}, "each CPU once"),
        ({"node.koordinator.sh/cpu-topology": detail((0, 0, 0, 0), (1, 0, 0, 1))}, "one NUMA node"),
        ({"node.koordinator.sh/cpu-topology": detail((0, 0, 0, 0), (1, 1, 1, 0))}, "in one socket"),
        ({"node.koordinator.sh/cpu-topology": detail((0, 0, -1, 0))}, "0 and more"),
        ({**TOLD, "node.koordinator.sh/pod-cpu-allocs": "{}"}, "pod-cpu-allocs"),
        ({**TOLD, "node.koordinator.sh/reservation": {"reservedCPUs": "one"}}, "reservation"),
    ],
)
def test_what_cannot_be_true_names_the_annotation(annotations: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        read(annotations)


@pytest.mark.parametrize(
    ("written", "ppm"),
    [
        ({"cpu": 0, "memory": 2}, (1_000_000, 2_000_000)),
        ({"cpu": 1.5}, (1_500_000, 1_000_000)),
        ("{", (1_000_000, 1_000_000)),
    ],
)
def test_a_ratio_that_means_nothing_leaves_the_cpus_and_the_other_ratio(written: object, ppm: tuple[int, int]) -> None:
    told = read({**TOLD, "node.koordinator.sh/resource-amplification-ratio": written})
    assert (told.ratio_ppm, told.memory_ratio_ppm) == ppm
    assert told.topology is read(TOLD).topology


def test_pools_are_what_nobody_has() -> None:
    assert json.loads(pools_text(cpus(), (0, 1, 5))) == [
        {"socket": 0, "node": 0, "cpuset": "2-3"},
        {"socket": 0, "node": 1, "cpuset": "4,6-7"},
    ]
    assert json.loads(allocs_text([PodCpus(namespace="n", name="g", uid="u", cpuset="3")])) == [
        {"namespace": "n", "name": "g", "uid": "u", "cpuset": "3"}
    ]
