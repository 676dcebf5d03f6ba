"""The recovery ladder: every legal change of an incident's stage, what each rung sets, and the proofs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise, product
from random import Random
from typing import Any

import pytest
from tests.fakes.node.troubled_node import SECOND_US, TroubledNode, batch_pod, service_pod

from cotenant.engine.node.recovery.incident import MAX_EVENTS, MAX_PROOFS, Incident, Proof, TroubleReading
from cotenant.engine.node.recovery.policy import RecoveryMemory, decide
from cotenant.engine.node.recovery.rungs import max_action
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.engine.node.recovery.stages import LEGAL, IncidentStage, RecoveryRung, check, permitted
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.node_state import PPM, Alarm, NodeState, PodUse, ServiceHealth
from cotenant.model.machine.replica_signal import MaxAction, ReplicaSignal
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.interference.attribution.settings import AttributionSettings, EvidenceSignal

SETTINGS = RecoverySettings(
    max_action=MaxAction.EVICT,
    lease_us=10 * SECOND_US,
    after_us=5 * SECOND_US,
    leave_us=5 * SECOND_US,
    cleared_us=30 * SECOND_US,
)


class Run:
    """A node under the ladder; records every change of stage."""

    def __init__(self, settings: RecoverySettings = SETTINGS, seed: int = 3, **planted: Any) -> None:
        self.settings = settings
        self.node = TroubledNode(Random(seed), **({"guilty": "b"} | planted))
        self.memory = RecoveryMemory()
        self.verdict = PolicyVerdict(())
        self.obeys: Callable[[PolicyVerdict], PolicyVerdict] = lambda verdict: verdict
        self.change: Callable[[NodeState], NodeState] = lambda state: state

    def second(self, change: Callable[[NodeState], NodeState] = lambda state: state) -> PolicyVerdict:
        state = change(self.change(self.node.second()))
        self.verdict, self.memory = decide(state, self.settings, self.memory)
        self.node.obey(self.obeys(self.verdict))
        return self.verdict

    def seconds(self, count: int) -> Run:
        for _ in range(count):
            self.second()
        return self

    def until(self, stage: IncidentStage, rung: RecoveryRung | None = None, most: int = 240) -> Incident:
        """Run until the newest incident has the stage."""
        for _ in range(most):
            self.second()
            found = self.newest
            if (
                found is not None
                and found.stage is stage
                and (rung is None or (found.lease and found.lease.rung is rung))
            ):
                return found
        raise AssertionError(
            f"not {stage} within {most} s: {[event.text for event in found.events] if found else None}"
        )

    @property
    def newest(self) -> Incident | None:
        found = sorted((*self.memory.ended, *self.memory.incidents), key=lambda incident: incident.number)
        return found[-1] if found else None

    def changes(self) -> set[tuple[IncidentStage, IncidentStage]]:
        return {
            (one.stage, other.stage)
            for incident in (*self.memory.ended, *self.memory.incidents)
            for one, other in pairwise(incident.events)
        }


def limits(verdict: PolicyVerdict) -> dict[str, str]:
    return {f"{wish.target.group}:{wish.target.knob}": wish.value for wish in verdict.knobs}


def without(name: str) -> Callable[[NodeState], NodeState]:
    return lambda state: replace(state, pods=tuple(pod for pod in state.pods if pod.pod.uid != f"uid-{name}"))


@pytest.mark.parametrize(("before", "after"), list(product(IncidentStage, IncidentStage)))
def test_the_table_of_changes_is_the_only_way(before: IncidentStage, after: IncidentStage) -> None:
    if after in LEGAL[before]:
        check(before, after)
    else:
        with pytest.raises(Permanent, match="cannot change"):
            check(before, after)


def test_a_mild_neighbour_is_tightened_held_released_and_the_service_recovers() -> None:
    run = Run(replace(SETTINGS, lease_us=40 * SECOND_US))
    acting = run.until(IncidentStage.ACTING)
    assert acting.lease is not None
    assert acting.lease.rung is RecoveryRung.TIGHTEN
    assert list(limits(run.verdict)) == ["batch:cpu.max"]
    holding = run.until(IncidentStage.HOLDING)
    proof = holding.proofs[-1]
    assert proof.helped
    assert proof.during is not None
    assert proof.during.level_ppm < holding.threshold_ppm < proof.before.level_ppm
    assert holding.recovered_after_us is not None
    assert holding.recovered_after_us <= 10 * SECOND_US
    run.node.guilty = None
    run.until(IncidentStage.RELEASED)
    assert not run.verdict.knobs
    ended = run.until(IncidentStage.RECOVERED)
    assert ended.proofs[-1].after is not None
    assert "it recovered" in ended.events[-1].text
    assert run.changes() == {
        (IncidentStage.SUSPECTED, IncidentStage.ACTING),
        (IncidentStage.ACTING, IncidentStage.HOLDING),
        (IncidentStage.HOLDING, IncidentStage.RELEASED),
        (IncidentStage.RELEASED, IncidentStage.RECOVERED),
    }


def test_a_culprit_that_is_still_named_after_a_cap_in_vain_is_idled() -> None:
    """A cap leaves it a burst of its quota in each period, at its own weight."""
    run = Run(replace(SETTINGS, rungs=(RecoveryRung.CAP, RecoveryRung.IDLE)), harm=4.0)
    run.obeys = lambda verdict: (
        verdict if any(wish.target.knob is Knob.CPU_IDLE for wish in verdict.knobs) else replace(verdict, knobs=())
    )
    proofs = run.until(IncidentStage.HOLDING).proofs
    assert [(proof.rung, proof.helped) for proof in proofs] == [(RecoveryRung.CAP, False), (RecoveryRung.IDLE, True)]


def test_a_strong_neighbour_is_capped_then_idled_and_each_proof_is_of_its_own_rung() -> None:
    run = Run(harm=6.0)
    run.until(IncidentStage.ACTING, RecoveryRung.CAP)
    assert list(limits(run.verdict)) == ["batch/b:cpu.max"]
    run.until(IncidentStage.ACTING, RecoveryRung.IDLE)
    assert limits(run.verdict) == {"batch/b:cpu.max": "10000 100000", "batch/b:cpu.idle": "1"}
    proofs = run.until(IncidentStage.HOLDING).proofs
    assert [proof.rung for proof in proofs] == [RecoveryRung.TIGHTEN, RecoveryRung.CAP, RecoveryRung.IDLE]
    assert len({proof.before for proof in proofs}) == 1
    assert (IncidentStage.ACTING, IncidentStage.ACTING) in run.changes()


def test_the_mode_of_an_objective_limits_the_ladder() -> None:
    run = Run(replace(SETTINGS, max_action=MaxAction.OBSERVE))
    found = run.until(IncidentStage.EXHAUSTED)
    assert "maxAction observe" in found.events[-1].text
    assert not run.verdict.knobs
    capped = Run(replace(SETTINGS, max_action=MaxAction.CAP), harm=6.0)
    holding = capped.until(IncidentStage.HOLDING)
    assert holding.lease is not None
    assert holding.lease.rung is RecoveryRung.CAP
    assert "improved, and no stronger action is permitted" in holding.events[-1].text


def test_an_action_that_does_not_help_ends_and_its_pod_is_cleared() -> None:
    run = Run(stays_slow=True)
    run.until(IncidentStage.ACTING, RecoveryRung.CAP)
    found = run.until(IncidentStage.SUSPECTED)
    assert "did not help" in found.events[-1].text
    assert found.proofs[-1].helped is False
    assert not run.verdict.knobs
    assert [cleared.culprit for cleared in run.memory.cleared] == ["uid-b"]
    for _ in range(25):
        assert not run.second().knobs
    run.seconds(10)
    assert run.memory.cleared == () or run.memory.cleared[0].until_us > run.node.at_s * SECOND_US


def test_trouble_that_ends_after_an_action_in_vain_is_not_said_to_have_ended_without_one() -> None:
    run = Run(stays_slow=True)
    run.until(IncidentStage.ACTING, RecoveryRung.CAP)
    run.until(IncidentStage.SUSPECTED)
    run.node.stays_slow = False
    run.node.gone.add("uid-b")
    found = run.until(IncidentStage.RECOVERED)
    assert "the trouble ended when no action was in force any more" in found.events[-1].text


@pytest.mark.parametrize("planted", [{"load_growth": 2.4}, {"throttled_ppm": 400_000}], ids=["load", "quota"])
def test_a_cause_of_its_own_is_not_acted_on(planted: dict[str, Any]) -> None:
    run = Run(guilty=None, **planted)
    found = run.until(IncidentStage.OWN)
    assert found.attribution is not None
    assert found.attribution.culprit is None
    assert "no pod is named" in found.events[-1].text
    for _ in range(30):
        assert not run.second().knobs
    run.node.load_growth, run.node.throttled_ppm = 1.0, 0
    assert run.until(IncidentStage.RECOVERED).proofs == ()


def test_a_neighbour_that_comes_later_is_named_after_a_cause_of_its_own() -> None:
    run = Run(replace(SETTINGS, after_us=60 * SECOND_US), guilty=None, throttled_ppm=400_000, harm=4.0)
    run.until(IncidentStage.OWN)
    run.node.guilty, run.node.throttled_ppm, run.node.activity["b"] = "b", 0, 0.9
    run.until(IncidentStage.ACTING, most=120)
    assert (IncidentStage.OWN, IncidentStage.SUSPECTED) in run.changes()


def test_an_action_ends_when_the_cause_turns_out_to_be_the_services_own_quota() -> None:
    run = Run(harm=6.0)
    run.until(IncidentStage.ACTING)
    run.node.throttled_ppm = 900_000
    found = run.until(IncidentStage.OWN)
    assert "its own quota" in found.events[-1].text
    assert not run.verdict.knobs


def test_a_repeat_offender_is_held_for_longer_and_then_goes_one_rung_up() -> None:
    run = Run(replace(SETTINGS, recurrences=2, after_us=60 * SECOND_US))
    first = run.until(IncidentStage.HOLDING)
    run.until(IncidentStage.RELEASED)
    second = run.until(IncidentStage.HOLDING)
    assert (first.recurrences, second.recurrences) == (0, 1)
    assert first.lease is not None
    assert second.lease is not None
    assert second.lease.until_us - second.since_us == 2 * (first.lease.until_us - first.since_us)
    run.until(IncidentStage.RELEASED)
    third = run.until(IncidentStage.ACTING)
    assert third.lease is not None
    assert third.lease.rung is RecoveryRung.CAP
    assert (IncidentStage.RELEASED, IncidentStage.ACTING) in run.changes()


def test_an_evicted_culprit_is_proven_by_its_absence() -> None:
    run = Run(replace(SETTINGS, rungs=(RecoveryRung.EVICT,)))
    run.obeys = lambda verdict: PolicyVerdict(())
    acting = run.until(IncidentStage.ACTING)
    assert acting.lease is not None
    assert [eviction.key for eviction in run.verdict.evictions] == ["batch/b"]
    assert limits(run.verdict)["batch/b:cpu.idle"] == "1"
    run.obeys = lambda verdict: verdict
    released = run.until(IncidentStage.RELEASED)
    assert released.proofs[-1].helped
    assert not run.verdict.evictions
    assert run.until(IncidentStage.RECOVERED).recovered_after_us is not None
    assert (IncidentStage.ACTING, IncidentStage.RELEASED) in run.changes()


def test_an_eviction_that_does_not_happen_ends_the_ladder() -> None:
    run = Run(replace(SETTINGS, rungs=(RecoveryRung.EVICT,)))
    run.obeys = lambda verdict: PolicyVerdict(())
    found = run.until(IncidentStage.EXHAUSTED)
    assert "was not evicted within 21 s" in found.events[-1].text
    assert not run.verdict.evictions
    run.until(IncidentStage.SUSPECTED)
    assert {
        (IncidentStage.ACTING, IncidentStage.EXHAUSTED),
        (IncidentStage.EXHAUSTED, IncidentStage.SUSPECTED),
    } <= run.changes()


def as_service(state: NodeState) -> NodeState:
    """The culprit is itself a service."""
    return of_pod(state, "uid-b", lambda pod_use: replace(pod_use, pod=replace(pod_use.pod, qos=QoSClass.LS)))


def with_objective(state: NodeState) -> NodeState:
    """The victim's latency is judged by a ServiceObjective that allows everything."""
    signal = ReplicaSignal(
        *("shop/o", "shop/web", "shop/web", "", 10_000, 1000, MaxAction.EVICT, True, SECOND_US, 100, 1, 5000, 5000)
    )

    def judged(pod_use: PodUse) -> PodUse:
        return (
            pod_use
            if pod_use.health is None
            else replace(pod_use, health=replace(pod_use.health, objective="shop/o"), signals=(signal,))
        )

    return of_pod(state, "uid-web", judged)


def of_pod(state: NodeState, uid: str, change: Callable[[PodUse], PodUse]) -> NodeState:
    return replace(state, pods=tuple(change(pod) if pod.pod.uid == uid else pod for pod in state.pods))


def test_a_service_that_disturbs_another_is_to_be_moved_and_never_limited() -> None:
    run = Run()
    run.change = lambda state: with_objective(as_service(state))
    acting = run.until(IncidentStage.ACTING)
    assert acting.lease is not None
    assert acting.lease.rung is RecoveryRung.MOVE
    assert "the rebalancer is asked to move batch/b or shop/web" in acting.events[-1].text
    assert not run.verdict.knobs
    assert not run.verdict.evictions
    run.change = lambda state: without("b")(with_objective(state))
    run.node.guilty = None
    released = run.until(IncidentStage.RELEASED)
    assert released.proofs[-1].helped
    assert run.until(IncidentStage.RECOVERED).proofs[-1].rung is RecoveryRung.MOVE


def test_a_move_that_is_not_made_ends_the_ladder_and_is_asked_for_again_later() -> None:
    run = Run(replace(SETTINGS, move_us=20 * SECOND_US))
    run.change = lambda state: with_objective(as_service(state))
    found = run.until(IncidentStage.EXHAUSTED)
    assert found.events[-1].text == "neither batch/b nor shop/web was moved within 20 s"
    run.until(IncidentStage.ACTING, RecoveryRung.MOVE)
    # The service itself is moved.
    run.change = lambda state: without("web")(as_service(state))
    assert run.until(IncidentStage.GONE).events[-1].text == "shop/web left the node"


def test_a_move_is_not_waited_for_after_the_trouble_has_ended() -> None:
    run = Run()
    run.change = lambda state: with_objective(as_service(state))
    run.until(IncidentStage.ACTING, RecoveryRung.MOVE)
    run.node.guilty = None
    assert run.until(IncidentStage.RELEASED).events[-1].text == "the trouble ended before the move"
    run.until(IncidentStage.RECOVERED)


def test_a_culprit_that_cannot_be_evicted_is_held_until_it_is_moved() -> None:
    run = Run(replace(SETTINGS, rungs=(RecoveryRung.EVICT, RecoveryRung.MOVE)))
    run.change = with_objective
    run.obeys = lambda verdict: replace(verdict, evictions=())
    run.until(IncidentStage.ACTING, RecoveryRung.EVICT)
    moving = run.until(IncidentStage.ACTING, RecoveryRung.MOVE)
    assert [proof.rung for proof in moving.proofs] == [RecoveryRung.EVICT, RecoveryRung.MOVE]
    assert limits(run.verdict) == {"batch/b:cpu.max": "10000 100000", "batch/b:cpu.idle": "1"}
    assert not run.verdict.evictions


def test_a_move_needs_an_objective_measured_from_spans() -> None:
    run = Run(replace(SETTINGS, rungs=(RecoveryRung.MOVE,)))
    assert "no stronger action" in run.until(IncidentStage.EXHAUSTED).events[-1].text


def test_a_culprit_that_leaves_ends_the_action() -> None:
    run = Run(replace(SETTINGS, rungs=(RecoveryRung.CAP,)))
    run.until(IncidentStage.ACTING)
    run.node.gone.add("uid-b")
    found = run.until(IncidentStage.SUSPECTED)
    assert "batch/b left the node" in found.events[-1].text
    run.until(IncidentStage.RECOVERED)
    held = Run(replace(SETTINGS, lease_us=100 * SECOND_US, longest_lease_us=100 * SECOND_US))
    held.until(IncidentStage.HOLDING)
    held.node.gone.add("uid-b")
    assert "left the node" in held.until(IncidentStage.RELEASED).events[-1].text
    assert {
        (IncidentStage.ACTING, IncidentStage.SUSPECTED),
        (IncidentStage.SUSPECTED, IncidentStage.RECOVERED),
    } <= run.changes()


def test_trouble_that_returns_under_a_lease_takes_the_next_rung() -> None:
    run = Run(replace(SETTINGS, lease_us=100 * SECOND_US, longest_lease_us=100 * SECOND_US))
    run.until(IncidentStage.HOLDING)
    run.node.harm = 8.0
    found = run.until(IncidentStage.ACTING)
    assert found.lease is not None
    assert found.lease.rung is RecoveryRung.CAP
    assert (IncidentStage.HOLDING, IncidentStage.ACTING) in run.changes()


def test_trouble_that_returns_for_another_cause_is_examined_anew() -> None:
    run = Run(replace(SETTINGS, after_us=60 * SECOND_US))
    run.until(IncidentStage.HOLDING)
    run.until(IncidentStage.RELEASED)
    run.node.guilty, run.node.throttled_ppm = None, 400_000
    run.until(IncidentStage.OWN)
    assert {
        (IncidentStage.RELEASED, IncidentStage.SUSPECTED),
        (IncidentStage.SUSPECTED, IncidentStage.OWN),
    } <= run.changes()


@pytest.mark.parametrize(
    "stage",
    [IncidentStage.ACTING, IncidentStage.HOLDING, IncidentStage.RELEASED, IncidentStage.EXHAUSTED, IncidentStage.OWN],
)
def test_a_service_that_leaves_ends_its_incident(stage: IncidentStage) -> None:
    fields: dict[str, Any] = {"throttled_ppm": 400_000} if stage is IncidentStage.OWN else {}
    settings = replace(SETTINGS, max_action=MaxAction.OBSERVE) if stage is IncidentStage.EXHAUSTED else SETTINGS
    run = Run(settings, **fields)
    if stage is IncidentStage.RELEASED:
        run.until(IncidentStage.HOLDING)
    run.until(stage)
    run.second(without("web"))
    assert run.newest is not None
    assert run.newest.stage is IncidentStage.GONE
    assert run.memory.incidents == ()
    assert not run.verdict.knobs


def test_a_repeat_offender_without_a_stronger_rung_is_exhausted_only_where_no_rung_is_possible() -> None:
    run = Run(replace(SETTINGS, after_us=60 * SECOND_US))
    run.until(IncidentStage.HOLDING)
    run.until(IncidentStage.RELEASED)
    run.settings = replace(run.settings, max_action=MaxAction.OBSERVE)
    run.until(IncidentStage.EXHAUSTED)
    assert (IncidentStage.RELEASED, IncidentStage.EXHAUSTED) in run.changes()


def test_a_service_is_never_limited_for_another_one() -> None:
    run = Run()
    for _ in range(40):
        assert not run.second(as_service).knobs
    found = run.newest
    assert found is not None
    assert any(event.stage is IncidentStage.EXHAUSTED and "is itself a service" in event.text for event in found.events)


def test_an_alarm_repeats_the_verdict_without_a_step() -> None:
    run = Run()
    run.until(IncidentStage.ACTING)
    state = run.node.second()
    alarmed = replace(state, alarms=(Alarm(state.at_us, "", "cpu"),))
    verdict, memory = decide(alarmed, run.settings, run.memory)
    assert memory is run.memory
    assert limits(verdict) == limits(run.verdict)


def test_two_services_with_one_culprit_take_the_smaller_cap() -> None:
    one, other = (
        Run(replace(SETTINGS, rungs=(RecoveryRung.CAP,)), harm=6.0),
        Run(replace(SETTINGS, rungs=(RecoveryRung.CAP,)), harm=6.0),
    )
    found, second = one.until(IncidentStage.ACTING), other.until(IncidentStage.ACTING)
    assert second.lease is not None
    wider = replace(second, number=2, lease=replace(second.lease, group_m=(second.lease.group_m or 0) + 500))
    memory = replace(one.memory, incidents=(wider, found))
    state = replace(one.node.second(), alarms=(Alarm(1, "", "cpu"),))
    verdict, _ = decide(state, one.settings, memory)
    assert found.lease is not None
    assert limits(verdict) == {"batch/b:cpu.max": f"{(found.lease.group_m or 0) * 100} 100000"}


def test_an_objective_measured_from_spans_says_how_strong_an_action_may_be() -> None:
    def signal(action: MaxAction, guard: bool) -> ReplicaSignal:
        return ReplicaSignal(
            "shop/o", "shop/web", "shop/web", "", 10_000, 1000, action, guard, SECOND_US, 100, 1, 5000, 5000
        )

    health = ServiceHealth(SECOND_US, 100, 5000, 1, 0, objective="shop/o")
    entry = next(TroubledNode(Random(1)).states(1)).pods[0]
    for action in MaxAction:
        measured = PodUse(entry.pod, entry.use, health=health, signals=(signal(action, True),))
        assert max_action(measured, SETTINGS) is action
        assert max_action(replace(measured, signals=(signal(action, False),)), SETTINGS) is MaxAction.OBSERVE
    assert max_action(entry, SETTINGS) is SETTINGS.max_action
    assert max_action(None, SETTINGS) is SETTINGS.max_action


_OF_CARDS = {RecoveryRung.POWER, RecoveryRung.CLOCKS, RecoveryRung.TIMESLICE}
_CAPS = {RecoveryRung.DISK, RecoveryRung.TIGHTEN, RecoveryRung.CAP} | _OF_CARDS


@pytest.mark.parametrize(
    ("most", "allowed"),
    [
        (MaxAction.OBSERVE, set()),
        (MaxAction.CAP, _CAPS),
        (MaxAction.IDLE, _CAPS | {RecoveryRung.IDLE}),
        (MaxAction.EVICT, set(RecoveryRung)),
    ],
)
def test_rungs_by_the_strongest_action(most: MaxAction, allowed: set[RecoveryRung]) -> None:
    assert {rung for rung in RecoveryRung if permitted(rung, most)} == allowed


def test_proofs_and_events_are_bounded() -> None:
    run = Run()
    incident = run.until(IncidentStage.ACTING)
    for at in range(100):
        incident = incident.with_proof(Proof(RecoveryRung.CAP, "batch/b", at, TroubleReading(1, None)))
        incident = incident.to(IncidentStage.ACTING, at, "again")
    assert len(incident.proofs) == MAX_PROOFS
    assert len(incident.events) == MAX_EVENTS
    assert incident.events[0].stage is IncidentStage.SUSPECTED


@pytest.mark.parametrize(
    "fields",
    [
        {"rungs": (RecoveryRung.CAP, RecoveryRung.TIGHTEN)},
        {"rungs": (RecoveryRung.CAP, RecoveryRung.CAP)},
        {"lease_us": 0},
        {"longest_lease_us": 1},
        {"cap_ppm": 1_000_001},
        {"settle_us": -1},
    ],
)
def test_impossible_settings_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        RecoverySettings(**fields)


def _runs() -> Iterator[tuple[int, MaxAction]]:
    return ((seed, action) for seed, action in zip(range(8), [*MaxAction] * 2, strict=True))


@pytest.mark.slow
def test_whatever_happens_changes_are_legal_and_only_leases_in_force_set_knobs() -> None:
    """Random harm, load, quota, departures and refusals; `check` raises for an illegal change."""
    for seed, action in _runs():
        random = Random(seed)
        run = Run(replace(SETTINGS, max_action=action), seed=seed, harm=random.choice([1.5, 4.0, 8.0]))
        if seed % 2:
            run.obeys = lambda verdict: replace(verdict, evictions=())
        for _ in range(120):
            if random.random() < 0.03:
                run.node.stays_slow = not run.node.stays_slow
            if random.random() < 0.03:
                run.node.load_growth = random.choice([1.0, 2.4])
            if random.random() < 0.03:
                run.node.throttled_ppm = random.choice([0, 400_000])
            if random.random() < 0.02:
                run.node.gone ^= {"uid-b"}
            leaves = random.random() < 0.01
            verdict = run.second(without("web") if leaves else lambda state: state)
            in_force = any(
                entry.stage in (IncidentStage.ACTING, IncidentStage.HOLDING) for entry in run.memory.incidents
            )
            assert in_force or not verdict.knobs
            assert all(wish.target.knob in (Knob.CPU_MAX, Knob.CPU_IDLE) for wish in verdict.knobs)
            assert len({entry.victim for entry in run.memory.incidents}) == len(run.memory.incidents)
            if action is not MaxAction.EVICT:
                assert not verdict.evictions
            for incident in run.memory.incidents:
                assert (incident.lease is not None) == (incident.stage in (IncidentStage.ACTING, IncidentStage.HOLDING))
        assert run.changes() <= {(before, after) for before, allowed in LEGAL.items() for after in allowed}


def test_pods_of_the_fake_are_what_they_seem() -> None:
    assert service_pod().objective_p99_us
    assert batch_pod("a").best_effort


def test_trouble_that_returns_at_once_still_shows_the_level_without_the_action() -> None:
    """Latency of a window of two seconds: at the return no window lies wholly behind the release."""

    def slow(state: NodeState) -> NodeState:
        web = state.pods[0]
        assert web.health is not None
        health = replace(web.health, window_us=10 * SECOND_US)
        return replace(state, pods=(replace(web, health=health), *state.pods[1:]))

    run = Run(replace(SETTINGS, after_us=60 * SECOND_US, proof_us=30 * SECOND_US))
    for _ in range(200):
        run.second(slow)
        found = run.newest
        if found is not None and (IncidentStage.RELEASED, IncidentStage.ACTING) in run.changes():
            break
    assert found is not None
    released = found.proofs[-2]
    assert released.after is not None
    assert released.after.level_ppm > 0


def test_a_latency_that_becomes_silent_is_replaced_by_a_signal_with_its_own_threshold() -> None:
    signals = (EvidenceSignal.LATENCY, EvidenceSignal.RUN_DELAY, EvidenceSignal.BLAME)
    settings = replace(SETTINGS, attribution=AttributionSettings(signals=signals, min_confidence_ppm=PPM))
    run = Run(settings, harm=6.0)
    opened = run.until(IncidentStage.SUSPECTED)  # nothing is certain enough to be named
    assert opened.threshold_ppm == PPM
    run.node.latency = False
    run.settings = replace(settings, attribution=AttributionSettings(signals=signals))
    acting = run.until(IncidentStage.ACTING)
    assert acting.attribution is not None
    assert acting.attribution.signal is EvidenceSignal.RUN_DELAY
    assert acting.threshold_ppm == acting.attribution.threshold_ppm < PPM
    holding = run.until(IncidentStage.HOLDING)
    assert holding.proofs[-1].during is not None
    assert holding.proofs[-1].during.level_ppm <= holding.threshold_ppm


def test_a_window_with_too_few_requests_does_not_make_those_before_it_good() -> None:
    """A service that gets next to no CPU answers few requests, and what it waited for is its usual level by then: one
    window that tells no latency was told as the recovery from trouble that had lasted for half a minute.
    """
    signals = (EvidenceSignal.LATENCY, EvidenceSignal.RUN_DELAY, EvidenceSignal.BLAME)
    run = Run(replace(SETTINGS, attribution=AttributionSettings(signals=signals, min_confidence_ppm=PPM)), harm=6.0)
    run.node.stays_slow = True
    run.change = waits_as_ever
    run.until(IncidentStage.SUSPECTED)
    run.seconds(3 * SETTINGS.after_us // SECOND_US)
    run.second(with_few_requests)
    run.seconds(2)
    (incident,) = run.memory.incidents
    assert (incident.stage, incident.calm_us, run.memory.ended) == (IncidentStage.SUSPECTED, None, ())


def waits_as_ever(state: NodeState) -> NodeState:
    return of_pod(state, "uid-web", lambda entry: replace(entry, use=replace(entry.use, run_delay_ppm=0)))


def with_few_requests(state: NodeState) -> NodeState:
    def fewer(entry: PodUse) -> PodUse:
        assert entry.health is not None
        return replace(entry, health=replace(entry.health, requests=10, over_objective=2))

    return of_pod(state, "uid-web", fewer)


def frozen(state: NodeState) -> NodeState:
    return replace(state, held={entry.pod.namespace: "frozen by eve: checkout is down" for entry in state.pods})


def test_while_it_is_frozen_nothing_is_begun_and_after_that_it_is() -> None:
    run = Run()
    run.change = frozen
    run.seconds(60)
    incident = run.memory.incidents[0]
    assert incident.stage is IncidentStage.SUSPECTED
    assert incident.proofs == ()
    told = [event.text for event in incident.events if event.text.startswith("nothing is begun")]
    assert told == ["nothing is begun: frozen by eve: checkout is down"]
    assert limits(run.verdict) == {}
    run.change = lambda state: state
    assert run.until(IncidentStage.ACTING).lease is not None


def test_a_freeze_keeps_what_is_in_force_and_gives_it_back_in_time() -> None:
    run = Run()
    rung = run.until(IncidentStage.ACTING).lease.rung  # type: ignore[union-attr]
    run.change = frozen
    for _ in range(100):
        run.second()
        lease = run.memory.incidents[-1].lease if run.memory.incidents else None
        assert lease is None or lease.rung is rung  # no other one is begun
    assert all(proof.rung is rung for incident in run.memory.incidents for proof in incident.proofs)
