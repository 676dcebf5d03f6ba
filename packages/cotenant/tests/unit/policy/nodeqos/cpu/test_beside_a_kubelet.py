"""Limits of best-effort work on groups that a kubelet writes too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.policy.nodeqos.nodes import container, in_use, node

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.kubelet.facts import STATIC, KubeletFacts
from cotenant.model.machine.counters import LogicalCpu
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.node_state import GroupUse, NodeState
from cotenant.policy.nodeqos.cpu.best_effort import BestEffortCpuConfig, BestEffortCpuMemory, decide

BEST_EFFORT, BURSTABLE = "kubepods/besteffort", "kubepods/burstable"
ID = "a" * 64
UID = "0a1b2c3d-0000-4000-8000-00000000000"
JOB, SERVICE = f"{BEST_EFFORT}/pod{UID}1", f"{BURSTABLE}/pod{UID}2"
CPUS = tuple(LogicalCpu(cpu, cpu, 0, 0) for cpu in range(4))


def state(*entries: Any, common: str | None = BEST_EFFORT, facts: KubeletFacts | None = None) -> NodeState:
    best_effort = GroupUse(common, cpu_m=2000) if common else None
    made = node(list(entries), used_m=3000, best_effort_group=common, best_effort=best_effort)
    return replace(made, cpus=CPUS, kubelet=facts or KubeletFacts(1))


def job(group: str = JOB) -> Any:
    containers = (container("main", group=f"{group}/{ID}"),)
    return in_use("job", 2000, QoSClass.BE, group=group, containers=containers)


def service(group: str = SERVICE) -> Any:
    return in_use("web", 500, QoSClass.LS, group=group)


def knobs(made: NodeState, config: BestEffortCpuConfig | None = None) -> dict[str, set[Knob]]:
    verdict, _ = decide(made, config or BestEffortCpuConfig(), BestEffortCpuMemory())
    found: dict[str, set[Knob]] = {}
    for knob in verdict.knobs:
        found.setdefault(knob.target.group, set()).add(knob.target.knob)
    return found


def test_the_group_of_all_best_effort_pods_is_not_set_idle() -> None:
    """The kubelet writes its weight, which an idle group refuses."""
    assert Knob.CPU_IDLE not in knobs(state(service(), job()))[BEST_EFFORT]


def test_a_service_without_requests_has_its_best_effort_neighbours_idle() -> None:
    """It is in the class of best-effort pods, so there is no common group, and each pod is limited by itself."""
    neighbour = f"{BEST_EFFORT}/pod{UID}3"
    found = knobs(state(service(neighbour), job(), common=None))
    assert Knob.CPU_IDLE in found[JOB]
    assert neighbour not in found


def test_a_best_effort_pod_with_requests_is_not_set_idle() -> None:
    """A resize writes its weight."""
    group = f"{BURSTABLE}/pod{UID}1"
    assert not any(Knob.CPU_IDLE in held for held in knobs(state(service(), job(group), common=None)).values())


@pytest.mark.parametrize("version", [1, 2])
def test_a_quota_is_set_where_the_runtime_can_still_start_containers(version: int) -> None:
    """On cgroup v1 a container's quota may not be above its pod's: there the containers are limited."""
    group = f"{BURSTABLE}/pod{UID}1"
    found = knobs(state(service(), job(group), common=None, facts=KubeletFacts(version)))
    limited = {held for held, which in found.items() if which & {Knob.CPU_MAX, Knob.CPUSET_CPUS}}
    assert limited == ({f"{group}/{ID}"} if version == 1 else {group})


@pytest.mark.parametrize(("version", "knob"), [(1, Knob.CPU_MAX), (2, Knob.CPUSET_CPUS)])
def test_beside_the_static_cpu_manager_lists_are_narrowed_only_where_containers_still_start(
    version: int, knob: Knob
) -> None:
    """On cgroup v1 a list of the kubelet's outside of ours would be refused: a quota takes the place of the list."""
    found = knobs(state(service(), job(), facts=KubeletFacts(version, cpu_manager=STATIC)))[BEST_EFFORT]
    assert found == {knob}
