"""Short days of the world of GPUs: what holds under every rule, what an eviction costs, what ours takes and leaves."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from cotenant.engine.node.gpu_lending.settings import GpuLendingSettings
from cotenant.model.devices.card_need import CardNeed
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant.policy.overcommit.peak import PeakSettings
from cotenant_lab.gpuworld.arrivals import OfflineJob
from cotenant_lab.gpuworld.beside import BesideRule
from cotenant_lab.gpuworld.comparing import POLICIES, best, compare, run_one, settings_of
from cotenant_lab.gpuworld.config import GpuWorldConfig
from cotenant_lab.gpuworld.lending import LentRule
from cotenant_lab.gpuworld.product import CotenantRule
from cotenant_lab.gpuworld.sharing import Card, PlainRule, ReplicaPhase, ServerSignal, plain_replica_card, usual_pods
from cotenant_lab.gpuworld.world import GpuOutcome, GpuWorld

SHORT = GpuWorldConfig(cards=6, peak_replicas=3, day_s=600, backlog=12, max_batch=16)


def job(number: int = 0, memory_pct: int = 30, **fields: float) -> OfflineJob:
    return replace(OfflineJob(number, 0.0, 900.0, memory_pct, 0.5, 0.3, 0.1), **fields)  # type: ignore[arg-type]


def ours(cards: int = 2, risk: float = 0.5, lends_at_risk: bool = False) -> CotenantRule:
    usual = usual_pods(SHORT)
    return CotenantRule(cards, 2, 50, usual, GuardConfig(), PeakSettings(risk=risk), lends_at_risk)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_holds_every_second(policy: str) -> None:
    setting, rule = list(settings_of(SHORT, policy).items())[-1]
    world = GpuWorld(SHORT, 3, rule)
    while world.now_s < SHORT.day_s:
        world.step()
        serving = sum(card.replica is ReplicaPhase.SERVING for card in world.cards)
        assert serving >= 1
        assert sum(card.replica is not ReplicaPhase.NONE for card in world.cards) <= SHORT.cards
        for card in world.cards:
            assert card.free_pct >= 0
            assert not (world.rule.alone and card.replica is not ReplicaPhase.NONE and card.jobs)
        assert (world.replicas.batch <= SHORT.max_batch).all()
        assert (world.replicas.reserved <= SHORT.kv_tokens).all()
        running = [one.number for card in world.cards for one in card.jobs]
        assert len(running) == len(set(running))
        assert not set(running) & {one.number for one in world.queue}
        assert all(0.0 <= one.done_s <= one.work_s for one in world.jobs)
    assert asdict(world._outcome()) == asdict(run_one(SHORT, policy, setting, 3))


def test_an_eviction_costs_the_work_since_the_last_checkpoint() -> None:
    world = GpuWorld(SHORT, 1, lambda: PlainRule(alone=True))
    card, victim = world.cards[0], job(done_s=700.0, started_s=1.0)
    card.jobs.append(victim)
    world._evict(card, victim)
    assert (victim.done_s, victim.started_s, world.lost_s, world.evictions) == (600.0, -1.0, 100.0, 1)
    assert world.queue == [victim]
    assert not card.jobs


def test_a_replica_takes_an_idle_card_then_one_beside_jobs_then_the_youngest_jobs() -> None:
    old, young = job(1, 60, started_s=1.0), job(2, 60, started_s=5.0)
    cards = [Card(0, jobs=[old]), Card(1, jobs=[young]), Card(2, jobs=[job(3, 20)]), Card(3)]
    assert plain_replica_card(cards, alone=False) == 3
    assert plain_replica_card(cards[:3], alone=False) == 2
    assert plain_replica_card(cards[:2], alone=False) == 1
    assert ours(4).replica_card(cards) == 2
    assert ours(2).replica_card(cards[:2]) == 1


def test_ours_places_by_the_ledger_and_frees_what_ended() -> None:
    rule, cards = ours(), [Card(0, ReplicaPhase.SERVING, 50), Card(1)]
    assert rule.job_card(cards, job(1, 60)) == 1
    cards[1].jobs.append(job(1, 60))
    assert rule.job_card(cards, job(2, 60)) is None
    assert rule.job_card(cards, job(2, 45)) == 0
    cards[1].jobs.clear()
    assert rule.job_card(cards, job(2, 60)) == 1


def test_ours_by_need_keeps_jobs_apart_that_want_the_same_as_they_were_measured() -> None:
    busy, bound = job(1, measured_sm_pct=80, measured_bandwidth_pct=10), job(2, measured_sm_pct=10)
    cards = [Card(0, jobs=[busy]), Card(1, jobs=[bound])]
    like = job(3, measured_sm_pct=80)
    assert ours().job_card(cards, like) == 0, "it packs where needs are not looked at"
    assert replace(ours(), replica_need=CardNeed(50, 50)).job_card(cards, like) == 1
    beside = [Card(0, ReplicaPhase.SERVING, 50), Card(1, jobs=[bound])]
    assert replace(ours(), replica_need=CardNeed(50, 50)).job_card(beside, like) == 1, "nor beside a busy replica"


def test_what_was_measured_of_a_job_has_an_error_and_changes_nothing_else() -> None:
    exact, seen = replace(SHORT, need_error_sd=0.0), replace(SHORT, need_error_sd=0.5)
    first, second = (GpuWorld(config, 3, lambda: PlainRule()).jobs for config in (exact, seen))
    assert all(one.measured_sm_pct == round(100 * one.sm) for one in first)
    assert [one.measured_sm_pct for one in second] != [one.measured_sm_pct for one in first]
    assert [(one.sm, one.work_s, one.memory_pct) for one in second] == [
        (one.sm, one.work_s, one.memory_pct) for one in first
    ]


def test_ours_lends_no_card_beyond_the_risk() -> None:
    rule, cards = ours(4, lends_at_risk=True), [Card(number) for number in range(4)]
    rule.measured(0.0, 1, 3)  # nothing is known yet: by what the service may ask for, one card of four
    assert rule.job_card(cards, job(1, 60)) is not None
    cards[0].jobs.append(job(1, 60))
    assert rule.job_card(cards, job(2, 60)) is None
    assert rule.job_card(cards, job(2, 30)) is not None  # leaves room for a replica


def test_jobs_beside_a_replica_have_no_more_than_their_part_and_the_whole_card_elsewhere() -> None:
    rule = replace(ours(), beside_milli=500)
    beside, alone = Card(0, ReplicaPhase.SERVING, 50, [job()]), Card(1, jobs=[job(1)])
    calm = ServerSignal(5_000_000, 20_000_000, 50, 300_000, 0, 400)
    assert rule.ceiling_milli(beside, calm) == 500
    assert rule.ceiling_milli(alone, None) == 1000
    missed = ServerSignal(10_000_000, 20_000_000, 50, 1_500_000, 20, 400)
    assert rule.ceiling_milli(beside, missed) < 500, "the guard goes below it"


def test_how_long_jobs_wait_counts_those_that_never_start() -> None:
    config = replace(SHORT, day_s=120, backlog=2, job_every_s=1e9)
    full = GpuWorld(config, 1, lambda: PlainRule(jobs_per_card=0)).run()
    assert (full.starts, full.queue_s) == (0, 120.0)


def test_the_guard_cuts_a_card_whose_replica_misses_and_no_other() -> None:
    rule = ours()
    cards = [Card(number, ReplicaPhase.SERVING, 50, [job(number)]) for number in range(2)]
    ceilings = {0: 1000, 1: 1000}
    for second in range(5, 40, 5):
        for number, p99_ppm in ((0, 1_500_000), (1, 300_000)):
            over = 20 if p99_ppm > 1_000_000 else 0
            signal = ServerSignal(second * 1_000_000, 20_000_000, 50, p99_ppm, over, ceilings[number] // 2)
            ceilings[number] = rule.ceiling_milli(cards[number], signal)
    assert ceilings[0] < 100
    assert ceilings[1] == 1000
    assert rule.ceiling_milli(cards[0], None) == 1000  # no replica: the whole card


def outcome(missed: float, offline_cards: float) -> GpuOutcome:
    return GpuOutcome(100, missed, 500.0, 50.0, offline_cards, 0.0, 10, 1)


def test_tuned_is_who_does_most_within_the_budget_else_who_misses_least() -> None:
    tried = {
        "bold": [outcome(0.03, 9.0)],
        "even": [outcome(0.012, 7.0), outcome(0.006, 8.0)],
        "shy": [outcome(0.0, 5.0)],
    }
    assert best(SHORT, tried) == "even"
    assert best(replace(SHORT, budget=0.001), tried) == "shy"
    assert best(SHORT, {name: tried[name] for name in ("bold",)} | {"bolder": [outcome(0.02, 1.0)]}) == "bolder"


def test_a_comparison_tunes_and_reports_and_repeats() -> None:
    config = replace(SHORT, day_s=600, peak_replicas=1, cards=3)
    found = compare(config, ("spot",), (5,), (8,))
    assert found == compare(config, ("spot",), (5,), (8,))
    assert found.of("spot").setting in settings_of(config, "spot")
    assert found.of("spot").outcomes == (run_one(config, "spot", found.of("spot").setting, 5),)


def lending(risk: float = 0.9) -> LentRule:
    settings = GpuLendingSettings(risk=risk, headroom_percent=0, step_percent=5, starting_s=0)
    return LentRule(held=1, replica_pct=50, settings=settings, jobs_per_card=2, leave_s=15.0)


def looked_at(rule: LentRule, card: Card, minutes: int, from_s: float = 0.0) -> list[OfflineJob]:
    return [gone for at in range(minutes * 6) for gone in rule.observed(from_s + 10.0 * at, [card, Card(1)], {})]


def test_an_idle_card_is_lent_by_the_agents_own_policy_once_its_use_is_known() -> None:
    rule, small = lending(), job(memory_pct=30)
    cards = [Card(0), Card(1)]
    assert rule.job_card(cards, small) == 1  # the jobs' own
    cards[1].jobs += [job(1, 40), job(2, 40)]
    assert rule.job_card(cards, small) is None
    assert not looked_at(rule, cards[0], 60)
    assert rule.job_card(cards, small) == 0
    assert rule.replica_card(cards) == 0
    borrowed = Card(0, jobs=[small])
    assert not looked_at(rule, borrowed, 2, 3600.0)
    borrowed.replica = ReplicaPhase.SERVING  # beside it, as no rule would put them
    assert small in looked_at(rule, borrowed, 1, 3720.0)


def beside(cards: int = 2) -> BesideRule:
    settings = GpuLendingSettings(headroom_percent=0, measured_every_s=20, beside_percent=50)
    return BesideRule(cards, 2, 50, CardNeed(50, 50), settings, 15.0)


def test_lent_parts_are_those_of_the_agents_policy_and_cards_those_of_the_schedulers_allocation() -> None:
    rule, small, large = beside(), job(1, 30), job(2, 80)
    cards = [Card(0), Card(1)]
    assert (rule.limit_milli(small), rule.limit_milli(large)) == (500, 1000)
    assert rule.job_card(cards, large) is not None
    assert rule.replica_card([Card(0, jobs=[small]), Card(1)]) == 1, "where least is lent"
    cards = [Card(0, ReplicaPhase.SERVING, 50), Card(1)]
    calm = ServerSignal(0, 20_000_000, 100, 300_000, 0, 0)
    for at_s in range(0, 600, 5):
        assert not rule.observed(float(at_s), cards, {0: calm})
    cards[1].jobs.append(large)
    assert rule.job_card(cards, small) == 0, "beside the replica, whose memory leaves half"
    assert rule.job_card(cards, job(3, 60)) is None


def test_a_borrower_beside_a_replica_in_trouble_is_suspended_and_keeps_its_place() -> None:
    rule, borrower = beside(), job(1, 30)
    cards = [Card(0, ReplicaPhase.SERVING, 50, [borrower]), Card(1)]
    calm = ServerSignal(0, 20_000_000, 100, 300_000, 0, 400)
    missed = ServerSignal(0, 20_000_000, 100, 1_500_000, 20, 400)
    for at_s in range(0, 300, 5):
        assert not rule.observed(float(at_s), cards, {0: calm})
    assert rule.limit_milli(borrower) == 500
    for at_s in range(300, 330, 5):
        assert not rule.observed(float(at_s), cards, {0: missed})
    assert rule.limit_milli(borrower) == 0
    assert rule.job_card(cards, job(2, 20)) == 1, "nobody is offered the rest"


def test_who_is_given_time_writes_a_checkpoint_and_the_replica_waits_for_it() -> None:
    waits = []
    for leave_s in (0.0, 15.0):
        world = GpuWorld(SHORT, 1, lambda leave_s=leave_s: PlainRule(alone=True, leave_s=leave_s))  # type: ignore[misc]
        for card in world.cards:
            if card.replica is ReplicaPhase.NONE:
                card.jobs.append(job(card.number, 60, done_s=700.0, started_s=1.0))
        world.now_s = 60
        started = world._start_replica()
        waits.append(world._ready_s[started.number])
        assert world.lost_s == (0.0 if leave_s else 100.0)
    assert waits[1] - waits[0] == 15.0
