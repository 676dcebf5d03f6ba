"""The rung for disks: a pod that makes a service wait for one is named by what it moves and limited there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.engine.node.recovery.test_ladder import SETTINGS, Run, limits

from cotenant.engine.node.recovery.stages import IncidentStage, RecoveryRung
from cotenant.engine.node.recovery.story import story
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.knob_values import parse_io_max
from cotenant.model.machine.node_pod import NodeContainer
from cotenant.model.machine.node_state import NodeState

MIB = 1 << 20
WRITES = 80 * MIB


def test_a_pod_that_writes_is_named_by_it_limited_there_and_the_service_recovers() -> None:
    run = Run(harm=4.0, disk_bps=WRITES)
    acting = run.until(IncidentStage.ACTING)
    assert acting.lease is not None
    assert acting.lease.rung is RecoveryRung.DISK
    (wish,) = run.verdict.knobs
    assert (wish.target.group, wish.target.knob) == ("batch/b", Knob.IO_MAX)
    (device,) = parse_io_max(wish.value)
    assert device.device == "8:0"
    assert device.rbps == device.wbps
    assert 10 * MIB < (device.wbps or 0) < WRITES // 2
    holding = run.until(IncidentStage.HOLDING)
    assert holding.proofs[-1].helped
    state = run.node.second()
    told = story("shop/web", "n", state, run.memory, state.at_us)
    assert told is not None
    text = " ".join(told.text)
    assert "caused by batch/b by its use of disks" in text
    assert "disk for batch/b helped" in text


def test_a_neighbour_on_the_cpu_that_also_writes_is_not_held_at_the_disk() -> None:
    def writes(state: NodeState) -> NodeState:
        pods = tuple(
            replace(pod, use=replace(pod.use, io_written_bps=(pod.use.cpu_m or 0) * 50_000)) for pod in state.pods
        )
        return replace(state, pods=pods)

    run = Run(harm=4.0)
    run.change = writes
    acting = run.until(IncidentStage.ACTING)
    assert acting.lease is not None
    assert acting.lease.rung is RecoveryRung.TIGHTEN
    assert all(wish.target.knob is not Knob.IO_MAX for wish in run.verdict.knobs)


def missing_knob(state: NodeState) -> NodeState:
    return replace(state, supported=state.supported - {Knob.IO_MAX})


def unknown_disks(state: NodeState) -> NodeState:
    return replace(state, host=replace(state.host, disks=()))


@pytest.mark.parametrize("lacking", [missing_knob, unknown_disks])
def test_where_disks_cannot_be_limited_the_cpu_is(lacking: Callable[[NodeState], NodeState]) -> None:
    run = Run(harm=4.0, disk_bps=WRITES)
    run.change = lacking
    acting = run.until(IncidentStage.ACTING)
    assert acting.lease is not None
    assert acting.lease.rung is RecoveryRung.TIGHTEN


def test_a_limit_that_does_not_help_goes_on_to_the_cpu_of_the_same_pod() -> None:
    run = Run(SETTINGS, harm=4.0, disk_bps=WRITES)
    run.obeys = lambda verdict: replace(
        verdict, knobs=tuple(w for w in verdict.knobs if w.target.knob is not Knob.IO_MAX)
    )
    first = run.until(IncidentStage.ACTING, RecoveryRung.DISK)
    second = run.until(IncidentStage.ACTING, RecoveryRung.TIGHTEN)
    assert {wish.target.knob for wish in run.verdict.knobs} == {Knob.IO_MAX, Knob.CPU_MAX}
    assert first.lease is not None
    assert second.lease is not None
    assert (second.lease.disk_bps or 0) < (first.lease.disk_bps or 0)


def test_on_cgroup_v1_the_limit_is_set_on_each_container_since_a_pods_own_holds_for_no_process() -> None:
    def version_1(state: NodeState) -> NodeState:
        pods = []
        for pod in state.pods:
            containers = tuple(NodeContainer(name, f"{pod.pod.group}/{name}", "ab" * 32) for name in ("main", "log"))
            sandbox = NodeContainer("cd" * 6, f"{pod.pod.group}/pause", "cd" * 32)
            containers = (*containers, sandbox)
            pods.append(replace(pod, pod=replace(pod.pod, containers=containers)))
        return replace(state, pods=tuple(pods), kubelet=KubeletFacts(cgroup_version=1))

    run = Run(harm=4.0, disk_bps=WRITES)
    run.change = version_1
    acting = run.until(IncidentStage.ACTING)
    assert acting.lease is not None
    assert acting.lease.disk_bps is not None
    held = limits(run.verdict)
    assert set(held) == {"batch/b/main:io.max", "batch/b/log:io.max"}
    assert {parse_io_max(value)[0].wbps for value in held.values()} == {acting.lease.disk_bps // 2}


def test_where_a_groups_own_waiting_is_not_known_the_machines_is_evidence() -> None:
    acting = Run(harm=4.0, disk_bps=WRITES, knows_stalls=False).until(IncidentStage.ACTING)
    assert acting.lease is not None
    assert acting.lease.rung is RecoveryRung.DISK
    assert acting.attribution is not None
    assert acting.attribution.culprit is not None
    assert [term.name for term in acting.attribution.culprit.evidence] == ["latency"]


def test_a_writer_is_not_named_by_latency_alone_the_first_time() -> None:
    run = Run(harm=4.0, disk_bps=WRITES, knows_stalls=False, presses=False)
    for _ in range(24):
        assert not run.second().knobs
    assert run.newest is not None
    assert run.newest.stage is IncidentStage.SUSPECTED
