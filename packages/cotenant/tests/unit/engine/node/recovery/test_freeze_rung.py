"""The rung that suspends the culprit: only where it is configured, permitted, and the node has memory to spare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.engine.node.recovery.test_ladder import SETTINGS, Run, limits

from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.engine.node.recovery.stages import IncidentStage, RecoveryRung
from cotenant.engine.node.recovery.story import story
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.node_state import NodeState
from cotenant.model.machine.replica_signal import MaxAction

FREEZE_ONLY = replace(SETTINGS, rungs=(RecoveryRung.FREEZE,))
FROZEN = {"batch/b:cpu.max": "10000 100000", "batch/b:cpu.idle": "1", "batch/b:cgroup.freeze": "1"}


def test_nothing_is_frozen_unless_it_is_configured() -> None:
    assert RecoveryRung.FREEZE not in RecoverySettings().rungs


def test_a_culprit_is_suspended_proven_and_released_when_the_lease_is_over() -> None:
    run = Run(FREEZE_ONLY, harm=6.0)
    run.until(IncidentStage.ACTING, RecoveryRung.FREEZE)
    assert limits(run.verdict) == FROZEN
    holding = run.until(IncidentStage.HOLDING)
    assert [(proof.rung, proof.helped) for proof in holding.proofs] == [(RecoveryRung.FREEZE, True)]
    run.node.guilty = None
    run.until(IncidentStage.RELEASED)
    assert not run.verdict.knobs
    state = run.node.second()
    told = story("shop/web", "n", state, run.memory, state.at_us)
    assert told is not None
    assert any("freeze for batch/b helped" in line for line in told.text)


def test_a_pod_that_is_to_be_evicted_is_not_frozen() -> None:
    """Its processes have to run to end."""
    run = Run(replace(SETTINGS, rungs=(RecoveryRung.FREEZE, RecoveryRung.EVICT)), harm=6.0)
    run.obeys = lambda verdict: replace(verdict, knobs=())  # the freeze does nothing
    run.node.harm = 6.0
    run.until(IncidentStage.ACTING, RecoveryRung.FREEZE)
    run.node.harm = 3.0  # improved, not recovered
    run.until(IncidentStage.ACTING, RecoveryRung.EVICT)
    assert "batch/b:cgroup.freeze" not in limits(run.verdict)


def full(state: NodeState) -> NodeState:
    """A tenth of the memory is what a frozen pod may take from the others."""
    return replace(state, host=replace(state.host, memory_used_bytes=state.host.memory_total_bytes * 91 // 100))


def without_freezer(state: NodeState) -> NodeState:
    return replace(state, supported=state.supported - {Knob.CGROUP_FREEZE})


@pytest.mark.parametrize("change", [full, without_freezer])
def test_nothing_is_frozen_where_memory_is_short_or_the_kernel_cannot(change: Callable[[NodeState], NodeState]) -> None:
    run = Run(FREEZE_ONLY, harm=6.0)
    run.change = change
    assert "no stronger action is permitted" in run.until(IncidentStage.EXHAUSTED).events[-1].text


def test_a_service_that_may_only_idle_others_freezes_nobody() -> None:
    run = Run(replace(FREEZE_ONLY, max_action=MaxAction.IDLE), harm=6.0)
    assert "no stronger action is permitted" in run.until(IncidentStage.EXHAUSTED).events[-1].text
