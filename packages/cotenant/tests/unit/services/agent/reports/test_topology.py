"""The NodeResourceTopology of the machine's CPUs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import cast

import pytest
from tests.fakes.cluster.cpu_cluster import cpus

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kubelet.cpu_manager import CpuManager, read_cpu_manager
from cotenant.drivers.proc.topology import read_memory_bytes
from cotenant.model.cpus.reported import (
    CPU_SHARED_POOLS,
    CPU_TOPOLOGY,
    KUBELET_CPU_MANAGER_POLICY,
    NODE_RESERVATION,
    POD_CPU_ALLOCS,
)
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.node_pod import NodePod
from cotenant.services.agent.reports.topology import PERIOD_S, NodeTopologyWriter, annotations_of, policies_of, zones


def pod(name: str, *own: int) -> NodePod:
    return NodePod(f"uid-{name}", "ns", name, f"pods/{name}", own_cpus=own)


def test_assigned_and_free_cpus_are_reported() -> None:
    given = (("uid-theirs", (6,)), ("uid-gone", (7,)), ("uid-none", ()))
    kubelet = KubeletFacts(cpu_manager="static", given_cpus=given)
    said = annotations_of(cpus(), (pod("ours", 2, 3), pod("theirs", 6), pod("shares")), (0,), kubelet)
    assert json.loads(said[POD_CPU_ALLOCS] or "") == [
        {"namespace": "ns", "name": "theirs", "uid": "uid-theirs", "cpuset": "6", "managedByKubelet": True},
        {"uid": "uid-gone", "cpuset": "7", "managedByKubelet": True},
        {"namespace": "ns", "name": "ours", "uid": "uid-ours", "cpuset": "2-3"},
    ]
    assert [load["cpuset"] for load in json.loads(said[CPU_SHARED_POOLS] or "")] == ["1", "4-5"]
    assert json.loads(said[KUBELET_CPU_MANAGER_POLICY] or "") == {"policy": "static"}
    assert json.loads(said[NODE_RESERVATION] or "") == {"reservedCPUs": "0"}
    assert len(json.loads(said[CPU_TOPOLOGY] or "")["detail"]) == 8


def test_annotations_without_content_are_removed() -> None:
    said = annotations_of(cpus(), (), (), KubeletFacts())
    assert {key for key, text in said.items() if text is None} == {
        POD_CPU_ALLOCS,
        KUBELET_CPU_MANAGER_POLICY,
        NODE_RESERVATION,
    }


def test_the_kubelets_options_and_reserved_cpus_are_reported() -> None:
    kubelet = KubeletFacts(cpu_manager="static", cpu_options=(("full-pcpus-only", "true"),), reserved_cpus=(0, 1))
    said = annotations_of(cpus(), (), (4,), kubelet)
    assert json.loads(said[KUBELET_CPU_MANAGER_POLICY] or "") == {
        "policy": "static",
        "options": {"full-pcpus-only": "true"},
        "reservedCPUs": "0-1",
    }
    assert [load["cpuset"] for load in json.loads(said[CPU_SHARED_POOLS] or "")] == ["2-3", "5-7"]


@pytest.mark.parametrize(
    ("policy", "scope", "reported"),
    [
        ("", "", []),
        ("none", "", ["None"]),
        ("best-effort", "container", ["BestEffort"]),
        ("restricted", "pod", ["Restricted"]),
        ("single-numa-node", "", ["SingleNUMANodeContainerLevel"]),
        ("single-numa-node", "pod", ["SingleNUMANodePodLevel"]),
        ("one-to-come", "pod", []),
    ],
)
def test_the_topology_managers_policy_in_the_objects_words(policy: str, scope: str, reported: list[str]) -> None:
    assert policies_of(KubeletFacts(topology_manager=policy, topology_scope=scope)) == reported


def test_one_zone_per_numa_node() -> None:
    first, second = zones(cpus(), ((0, 1 << 30),))
    assert (first["name"], [entry["name"] for entry in first["resources"]]) == ("node-0", ["cpu", "memory"])
    assert [entry["allocatable"] for entry in first["resources"]] == ["4", "1Gi"]
    assert (second["name"], [entry["name"] for entry in second["resources"]]) == ("node-1", ["cpu"])


def test_the_kubelets_state_file(tmp_path: Path) -> None:
    path = tmp_path / "cpu_manager_state"
    assert read_cpu_manager(path) == CpuManager()
    path.write_text(
        json.dumps(
            {"policyName": "static", "defaultCpuSet": "0,3-7", "entries": {"u": {"a": "1", "b": "2"}}, "checksum": 1}
        )
    )
    assert read_cpu_manager(path) == CpuManager("static", (("u", (1, 2)),))
    path.write_text('{"policyName":"static","entries":{"u":{"a":"x"}}}')
    assert read_cpu_manager(path) == CpuManager()


def test_memory_of_numa_nodes(tmp_path: Path) -> None:
    for node, text in (("node1", "Node 1 MemTotal:       2 kB\nNode 1 MemFree: 1 kB\n"), ("node0", "nonsense\n")):
        folder = tmp_path / "devices/system/node" / node
        folder.mkdir(parents=True)
        (folder / "meminfo").write_text(text)
    assert read_memory_bytes(str(tmp_path)) == ((1, 2048),)


@pytest.mark.parametrize(("known_after", "looks"), [(None, 30), (3, 3)], ids=["as before", "the keeper answers"])
def test_what_the_kubelet_gives_is_written_as_soon_as_it_is_known(known_after: int | None, looks: int) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    def kubelet() -> KubeletFacts:
        is_known = known_after is not None and len(slept) >= known_after
        return KubeletFacts(cpu_manager="static") if is_known else KubeletFacts()

    writer = NodeTopologyWriter(cast("Client", None), "n", tuple, cpus=tuple, kubelet=kubelet, sleep=sleep)

    async def scenario() -> None:
        await writer.write()
        await writer.rest()

    asyncio.run(scenario())
    assert len(slept) == looks
    assert sum(slept) <= PERIOD_S
