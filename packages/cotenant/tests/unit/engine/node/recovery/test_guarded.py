"""A service beside the guard: what the guard does before an incident opens is told, with who is held, by whom, why and
since when; trouble that goes on under it still names its cause.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from tests.fakes.node.job_of_pods import WORKLOAD, as_job
from tests.fakes.node.troubled_node import SECOND_US, TroubledNode
from tests.unit.engine.node.recovery.test_ladder import SETTINGS

from cotenant.engine.node.recovery.harm import harms
from cotenant.engine.node.recovery.incident import Incident
from cotenant.engine.node.recovery.policy import RecoveryMemory, decide
from cotenant.engine.node.recovery.stages import IncidentStage
from cotenant.engine.node.recovery.story import story
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.knob_values import CpuMax, parse_cpu_max
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.node_state import BindingLimit, NodeState
from cotenant.policy.credit.pricing import CauseVerdict
from cotenant.policy.nodeqos.cpu import best_effort
from cotenant.policy.nodeqos.cpu.suppression import SuppressConfig

GUARD = best_effort.BestEffortCpuConfig(suppress=SuppressConfig(enabled=False))
TARGET = KnobTarget("batch", Knob.CPU_MAX)


class Guarded:
    """The node under the guard, whose quota stands in the sample after; nothing obeys the ladder."""

    def __init__(self, seed: int = 3, **planted: Any) -> None:
        options: dict[str, Any] = {"guilty": "b", "harm": 6.0, **planted}
        self.node = TroubledNode(Random(seed), **options)
        self.guard, self.memory = best_effort.BestEffortCpuMemory(), RecoveryMemory()
        self.quota = CpuMax(None)

    def second(self) -> NodeState:
        state = replace(as_job(self.node.second(), "b"), knobs={TARGET: str(self.quota)})
        if self.guard.binding is not None:
            limit = BindingLimit("best-effort-cpu", self.guard.binding, self.guard.binding_us)
            state = replace(state, limits={"batch": limit})
        verdict, self.guard = best_effort.decide(state, GUARD, self.guard)
        _, self.memory = decide(state, SETTINGS, self.memory)
        values = [knob.value for knob in verdict.knobs if knob.target == TARGET]
        self.quota = parse_cpu_max(values[0]) if values else CpuMax(None)
        self.node.limits = {} if self.quota.cpu_m is None else {"batch": self.quota.cpu_m / 1000}
        return state

    def until(self, stage: IncidentStage) -> Incident:
        for _ in range(120):
            self.second()
            found = (*self.memory.incidents, *self.memory.ended)
            if found and found[0].stage is stage:
                return found[0]
        raise AssertionError([event.text for incident in self.memory.incidents for event in incident.events])

    def told(self) -> str:
        state = self.second()
        found = story("shop/web", "n", state, self.memory, state.at_us)
        assert found is not None
        return "\n".join(found.text)


def test_trouble_that_the_guard_ends_is_told_with_who_was_held_why_and_since_when() -> None:
    run = Guarded()
    opened = run.until(IncidentStage.GUARDED)
    assert opened.restraint is not None
    assert opened.restraint.by == "the guard"
    assert "guard cuts best-effort work" in opened.restraint.why
    assert "shop/web: p99" in opened.restraint.why
    assert WORKLOAD in dict(opened.restraint.held)
    ended = run.until(IncidentStage.RECOVERED)
    assert ended.proofs == ()
    assert ended.recovered_after_us is not None
    assert ended.recovered_after_us <= 20 * SECOND_US
    restraint = ended.restraint
    assert restraint is not None
    assert restraint.during is not None
    assert restraint.during.level_ppm < ended.threshold_ppm < ended.before.level_ppm
    assert 0 <= restraint.since_us - ended.opened_us <= 5 * SECOND_US
    last = ended.events[-1].text
    assert "the trouble ended while the guard held all best-effort work at" in last
    assert f"and with it {WORKLOAD}" in last
    told = run.told()
    assert f"  guard     {last.removeprefix('the trouble ended while ').partition('; it recovered')[0]}" in told
    assert "the guard holds all best-effort work on this node at" in told


def test_the_recovery_under_the_guard_is_told_before_its_incident_ends() -> None:
    """Three calm samples prove it, as they prove an action; the incident is kept open for longer."""
    run = Guarded()
    run.until(IncidentStage.GUARDED)
    told_after: list[int] = []
    while run.memory.incidents:
        now_us = run.second().at_us
        (incident,) = run.memory.incidents or run.memory.ended[:1]
        if incident.recovered_us is not None and incident.stage is IncidentStage.GUARDED:
            told_after.append(now_us - incident.recovered_us)
            assert incident.calm_us == incident.recovered_us
    assert told_after == list(range((SETTINGS.proof_samples - 1) * SECOND_US, SETTINGS.after_us, SECOND_US))
    (ended,) = run.memory.ended
    assert ended.stage is IncidentStage.RECOVERED


def test_a_recovery_that_was_told_too_early_is_taken_back() -> None:
    run = Guarded()
    run.until(IncidentStage.GUARDED)
    while run.memory.incidents[0].recovered_us is None:
        run.second()
    assert "  recovery  after" in run.told()
    run.node.harm = 60.0  # more than the guard holds back
    run.node.limits = {}
    while run.memory.incidents[0].recovered_us is not None:
        run.second()
    (incident,) = run.memory.incidents
    assert incident.calm_us is None
    assert "  recovery  not yet" in run.told()


@pytest.mark.parametrize("seed", range(4, 12))
def test_in_each_trouble_it_is_told_who_was_held(seed: int) -> None:
    """Whether the guard is enough, or the ladder acts, too."""
    run = Guarded(seed)
    ended = run.until(IncidentStage.RECOVERED)
    assert ended.restraint is not None
    assert WORKLOAD in dict(ended.restraint.held)
    assert f"and with it {WORKLOAD}" in run.told()


def test_the_guards_incident_names_its_culprit_where_the_evidence_is_enough() -> None:
    run = Guarded()
    ended = run.until(IncidentStage.RECOVERED)
    assert ended.attribution is not None
    culprit = ended.attribution.culprit
    assert culprit is not None, ended.attribution.reason.text
    assert WORKLOAD in (culprit.workload, culprit.owner)
    (harm,) = harms(run.memory, run.second())
    assert harm.verdict is CauseVerdict.ATTRIBUTED


def test_trouble_that_goes_on_under_the_guard_names_the_culprit() -> None:
    run = Guarded(harm=25.0)  # what the guard leaves is enough to be late
    found = run.until(IncidentStage.ACTING)
    assert found.acted_on is not None
    assert found.acted_on.culprit is not None
    assert WORKLOAD in (found.acted_on.culprit.workload, found.acted_on.culprit.owner)
    told = run.told()
    assert "  guard     the guard held all best-effort work" in told
    assert "  action    tighten" in told


def test_without_a_limit_in_force_single_bad_samples_open_nothing() -> None:
    run = Guarded(guilty=None)
    for _ in range(60):
        run.second()
    assert run.memory.opened == 0


def test_late_requests_while_nobody_was_cut_are_not_the_guards() -> None:
    """A quota that stood before: who never ran is held by it and has harmed nobody."""
    run = Guarded(guilty=None, callee_slow=20.0)
    run.node.activity = dict.fromkeys(run.node.suspects, 0.0)
    run.node.suspects = ()
    for _ in range(40):
        run.second()
    (incident,) = run.memory.incidents
    assert incident.stage is not IncidentStage.GUARDED
    assert incident.restraint is None or incident.restraint.held == ()


def test_a_limit_whose_owner_becomes_known_is_told_as_the_owners() -> None:
    """While the keeper answers, a quota that stands is nobody's for a moment."""
    run = Guarded(guilty=None, spans=True, callee_slow=20.0)
    for _ in range(26):
        _, run.memory = decide(run.node.second(), SETTINGS, run.memory)
    limit = BindingLimit("best-effort-cpu", Reason("cpu-guard", "guard holds at 0.2 CPU"), 5 * SECOND_US)
    nobodys: dict[str, BindingLimit] = {}
    for limits in (nobodys, {"batch": limit}):
        state = replace(run.node.second(), knobs={TARGET: "20000 100000"}, limits=limits)
        _, run.memory = decide(state, SETTINGS, run.memory)
    (incident,) = run.memory.incidents
    assert incident.restraint is not None
    assert (incident.restraint.by, incident.restraint.since_us) == ("the guard", 5 * SECOND_US)


def test_who_runs_below_a_limit_that_stood_before_is_told_without_a_claim() -> None:
    run = Guarded(guilty=None, spans=True, callee_slow=20.0)
    limits = {"batch": BindingLimit("best-effort-cpu", Reason("cpu-guard", "guard holds at 0.2 CPU"), SECOND_US)}
    for _ in range(40):
        run.node.limits = {"batch": 0.2}
        state = replace(run.node.second(), knobs={TARGET: "20000 100000"}, limits=limits)
        _, run.memory = decide(state, SETTINGS, run.memory)
    (incident,) = run.memory.incidents
    assert incident.restraint is not None
    assert incident.restraint.held == ()
    assert "batch/a (" in incident.restraint.who
    assert "before" not in incident.restraint.who
    told = run.told()
    assert "  action    none; the guard held all best-effort work at 0.2 CPU and with it batch/" in told
