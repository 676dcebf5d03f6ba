"""An incident whose cause changes while it goes on: at first work outside the pods, then a pod, which is held."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.node.troubled_node import OBJECTIVE_US, SECOND_US
from tests.unit.engine.node.recovery.test_ladder import SETTINGS, Run

from cotenant.engine.node.recovery.incident import Incident
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.engine.node.recovery.stages import IncidentStage
from cotenant.model.machine.node_state import NodeState
from cotenant.policy.interference.attribution.attribute import attribute
from cotenant.policy.interference.attribution.causes import TroubleCause
from cotenant.policy.interference.attribution.settings import AttributionSettings

OUTSIDE_S, POD_S = 20, 34  # after these seconds the one begins, and the other in its place
WHOLE = replace(SETTINGS, attribution=AttributionSettings(recent_us=60 * SECOND_US))


def started(state: NodeState) -> NodeState:
    """What is started takes a CPU before it runs: by work in no pod, and the service waits for that."""
    at_s = state.at_us // SECOND_US
    is_started = OUTSIDE_S < at_s <= POD_S
    outside_m = 60 + at_s % 4 * 10 + (900 if is_started else 0)
    host = replace(state.host, cpu_m=outside_m + sum(entry.use.cpu_m or 0 for entry in state.pods))
    if not is_started:
        return replace(state, host=host)
    web, *others = state.pods
    used_m = web.use.cpu_m or 0
    use = replace(web.use, run_delay_ppm=used_m * (1800 + at_s % 5 * 100), cpu_stall_ppm=used_m * 1500)
    assert web.health is not None
    late = replace(web.health, p99_us=OBJECTIVE_US * (7 + at_s % 3), over_objective=web.health.requests // 5)
    return replace(state, host=host, pods=(replace(web, use=use, health=late), *others))


def node(settings: RecoverySettings = SETTINGS, seed: int = 3) -> Run:
    run = Run(settings, seed, suspects=("a", "b"), always_on=True, from_s=POD_S, probe=False, harm=2.5)
    run.change = started
    return run


def acting(run: Run) -> Incident:
    own = run.until(IncidentStage.OWN, most=POD_S)
    assert own.attribution is not None
    assert own.attribution.cause is TroubleCause.OUTSIDE
    found = run.until(IncidentStage.ACTING, most=POD_S + 20 - run.node.at_s)
    assert found.number == own.number
    return found


def test_the_pod_is_named_held_and_the_service_recovers() -> None:
    run = node()
    found = acting(run)
    assert found.attribution is not None
    assert found.attribution.culprit is not None
    assert found.attribution.culprit.name == "batch/b"
    held = run.until(IncidentStage.HOLDING, most=60)
    assert held.recovered_after_us is not None
    assert not any("outside" in event.text for event in held.events if event.at_us > found.since_us)


def test_before_that_part_was_asked_by_itself_nobody_was_held() -> None:
    run = node(WHOLE).seconds(POD_S + 20)
    assert run.newest is not None
    assert run.newest.stage is IncidentStage.OWN


def test_what_an_action_is_compared_with_is_the_level_of_that_part() -> None:
    """The beginning was worse: against it every action would have helped."""
    run = node()
    found = acting(run)
    answer = found.attribution
    assert answer is not None
    assert answer.since_us > OUTSIDE_S * SECOND_US
    levels = [
        service.levels[answer.signal]
        for sample, service in run.memory.history.of(found.victim)
        if sample.at_us >= answer.since_us and service.levels[answer.signal] > found.threshold_ppm
    ]
    assert found.proofs[-1].before.level_ppm == sum(levels) // len(levels)


def test_while_it_is_held_the_cause_is_asked_of_the_same_part() -> None:
    """A hold that does not help at once is not ended for *work outside the pods*, since who is held looks idle."""
    run = node()
    found = acting(run)
    assert found.attribution is not None
    run.node.stays_slow = True
    run.seconds(6)
    newest = run.newest
    assert newest is not None
    assert newest.number == found.number
    assert newest.stage is not IncidentStage.OWN
    state = run.node.second()
    alone = attribute(run.memory.history, state, state.pods[0], SETTINGS.attribution, found.attribution.since_us - 1)
    assert alone is not None
    assert alone.cause in (TroubleCause.POD, TroubleCause.UNKNOWN)
