"""The ladder against a workload: its pods are limited together, and who left is not waited for; and trouble that
another policy ended.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from tests.fakes.node.job_of_pods import WORKLOAD, as_job
from tests.fakes.node.troubled_node import SECOND_US, TroubledNode
from tests.unit.engine.node.recovery.test_ladder import SETTINGS, limits

from cotenant.engine.node.recovery.policy import RecoveryMemory, decide
from cotenant.engine.node.recovery.stages import IncidentStage, RecoveryRung
from cotenant.engine.node.recovery.story import story
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_pod import NodeContainer
from cotenant.model.machine.node_state import NodeState
from cotenant.model.machine.replica_signal import MaxAction, ReplicaSignal


class Run:
    """Nothing obeys: the trouble goes on whatever is done."""

    def __init__(
        self, rungs: tuple[RecoveryRung, ...] = (RecoveryRung.TIGHTEN, RecoveryRung.CAP), **planted: Any
    ) -> None:
        self.node = TroubledNode(Random(3), **({"guilty": "b", "harm": 6.0} | planted))
        self.memory = RecoveryMemory()
        self.settings = replace(SETTINGS, rungs=rungs, cleared_us=600 * SECOND_US)

    def second(self, pods: int = 4, quota: str = "max 100000") -> tuple[NodeState, dict[str, str], set[str]]:
        state = as_job(self.node.second(), "b", pods)
        state = replace(state, knobs={KnobTarget("batch", Knob.CPU_MAX): quota})
        verdict, self.memory = decide(state, self.settings, self.memory)
        return state, limits(verdict), {eviction.uid for eviction in verdict.evictions}

    def until(self, rung: RecoveryRung) -> tuple[NodeState, dict[str, str], set[str]]:
        for _ in range(120):
            shown = self.second()
            lease = self.memory.incidents[0].lease if self.memory.incidents else None
            if lease is not None and lease.rung is rung:
                return shown
        raise AssertionError(self.memory.incidents)


def test_the_cap_of_a_workload_is_divided_among_its_pods() -> None:
    run = Run()
    _, knobs, _ = run.until(RecoveryRung.TIGHTEN)
    assert list(knobs) == ["batch:cpu.max"]
    state, knobs, _ = run.until(RecoveryRung.CAP)
    assert set(knobs) == {f"batch/b-{number}:cpu.max" for number in range(4)}
    lease = run.memory.incidents[0].lease
    assert lease is not None
    assert lease.group_m is not None
    assert {int(value.split()[0]) for value in knobs.values()} == {lease.group_m // 4 * 100}
    told = story("shop/web", "n", state, run.memory, state.at_us)
    assert told is not None
    assert (told.incidents[0].workload, told.incidents[0].culprit[:8]) == (WORKLOAD, "batch/b-")
    assert any(f"cap for {WORKLOAD}" in line for line in told.text)


def test_fewer_pods_of_a_workload_share_its_cap() -> None:
    run = Run()
    run.until(RecoveryRung.CAP)
    _, knobs, _ = run.second(pods=2)
    assert set(knobs) == {"batch/b-0:cpu.max", "batch/b-1:cpu.max"}


def test_all_pods_of_a_workload_are_evicted() -> None:
    run = Run(rungs=(RecoveryRung.EVICT,))
    _, _, evicted = run.until(RecoveryRung.EVICT)
    assert evicted == {f"uid-b-{number}" for number in range(4)}


def test_a_workload_that_did_not_help_is_cleared_as_a_whole() -> None:
    run = Run(rungs=(RecoveryRung.CAP,))
    run.until(RecoveryRung.CAP)
    while not run.memory.cleared:
        run.second()
    assert {cleared.culprit for cleared in run.memory.cleared} == {WORKLOAD}
    for _ in range(40):
        _, knobs, _ = run.second()
        assert knobs == {}


def test_trouble_that_ended_while_another_policy_held_best_effort_work_says_so() -> None:
    run = Run(guilty=None, spans=True, callee_slow=20.0)
    for _ in range(26):
        run.second(quota="20000 100000")
    run.node.callee_slow = 1.0
    for _ in range(20):
        state, _, _ = run.second()
    ended = run.memory.ended[-1]
    told = story("shop/web", "n", state, run.memory, state.at_us)
    assert told is not None
    assert "  action    none; another policy held all best-effort work at 0.2 CPU" in told.text
    assert ended.stage is IncidentStage.RECOVERED
    assert "the trouble ended while another policy held all best-effort work at 0.2 CPU" in ended.events[-1].text


def test_the_story_says_why_an_objective_is_only_observed_and_that_a_service_asks_for_the_least_weight() -> None:
    signal = ReplicaSignal(
        "shop/o", "shop/web", "shop/web", "", 10_000, 1000, MaxAction.IDLE, False, SECOND_US, 100, 1, 5000, 5000
    )
    state = next(TroubledNode(Random(1)).states(1))
    web = state.pods[0]

    def told(request_m: int, guard: bool) -> str:
        pod = replace(web.pod, containers=(NodeContainer("main", "pods/web/main", cpu_request_m=request_m),))
        entry = replace(web, pod=pod, signals=(replace(signal, guard=guard),))
        found = story("shop/web", "n", replace(state, pods=(entry, *state.pods[1:])), RecoveryMemory(), state.at_us)
        assert found is not None
        return " ".join(found.text)

    assert "shop/o is only observed" in told(100, False)
    assert "only observed" not in told(100, True)
    assert "it requests 1 mCPU, which is the least CPU weight" in told(1, True)
    assert "least CPU weight" not in told(100, True)
