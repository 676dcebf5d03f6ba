"""The ladder on a node with GPUs: the agent's reader, the policy and the keeper's driver in one loop, whose law of
contention is drawn by seed and known to none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.fakes.node.card_node import SECOND_US, CardNode
from tests.unit.engine.node.recovery.test_ladder import SETTINGS, Run, limits

from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.engine.node.recovery.stages import IncidentStage, RecoveryRung
from cotenant.engine.node.recovery.story import story
from cotenant.model.devices.card_sample import CardPath
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.counters import GpuCounters
from cotenant.model.machine.knob import Knob, KnobScope, LeaseState
from cotenant.model.machine.node_state import NodeState
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.interference.attribution.causes import TroubleCause
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.rules import KnobRules

WITH_CARDS = tuple(rung for rung in RecoveryRung if rung not in (RecoveryRung.CLOCKS, RecoveryRung.TIMESLICE))
ALL_RUNGS = replace(SETTINGS, rungs=WITH_CARDS, cards=tuple(f"GPU-{index}" for index in range(5)))
EVERY_KNOB = replace(ALL_RUNGS, rungs=tuple(RecoveryRung))
HELD_OUT = range(7000, 7030)


class CardRun(Run):
    """A node with cards under the ladder."""

    def __init__(self, settings: RecoverySettings = ALL_RUNGS, seed: int = 1, **planted: Any) -> None:
        super().__init__(settings)
        self.cards = CardNode(Random(seed), **planted)
        self.node = self.cards  # type: ignore[assignment]

    def named(self) -> set[str]:
        """Every culprit that something was done about."""
        return {proof.culprit for one in (*self.memory.ended, *self.memory.incidents) for proof in one.proofs}

    def rungs(self) -> list[RecoveryRung]:
        found = self.newest
        return [] if found is None else [proof.rung for proof in found.proofs]

    def told(self) -> str:
        state = self.cards.second()
        found = story("shop/llm", "n", state, self.memory, state.at_us)
        assert found is not None
        return "\n".join(found.text)


def test_a_pod_that_fills_the_card_is_named_held_and_proven() -> None:
    run = CardRun()
    acting = run.until(IncidentStage.ACTING)
    assert acting.lease is not None
    assert acting.lease.rung is RecoveryRung.CAP
    assert set(limits(run.verdict)) == {"batch/b:cpu.max"}
    run.until(IncidentStage.HOLDING)
    told = run.told()
    assert "caused by batch/b by its use of multiprocessors of GPU 0, confidence" in told
    assert "for batch/b helped" in told
    assert run.named() == {"batch/b"}


def test_the_memory_bandwidth_is_a_path_of_its_own() -> None:
    run = CardRun(path=CardPath.MEMORY_BANDWIDTH)
    run.until(IncidentStage.HOLDING)
    assert "caused by batch/b by its use of memory bandwidth of GPU 0" in run.told()


def test_a_few_large_kernels_do_not_follow_the_cpu_so_the_pod_is_suspended() -> None:
    run = CardRun()
    run.cards.law.follows_cpu, run.cards.law.harm = 0.0, 4.0
    run.until(IncidentStage.HOLDING)
    assert run.rungs() == [RecoveryRung.CAP, RecoveryRung.IDLE, RecoveryRung.FREEZE]
    assert limits(run.verdict)["batch/b:cgroup.freeze"] == "1"
    run.cards.guilty = ""
    run.until(IncidentStage.RELEASED)
    assert not run.verdict.knobs


def test_a_suspension_needs_memory_of_the_card_to_spare() -> None:
    run = CardRun(replace(ALL_RUNGS, rungs=(RecoveryRung.FREEZE,)))
    run.change = lambda state: replace(
        state, gpus=tuple(replace(gpu, memory_used_bytes=gpu.memory_total_bytes * 96 // 100) for gpu in state.gpus)
    )
    assert "no stronger action is permitted" in run.until(IncidentStage.EXHAUSTED).events[-1].text


def test_a_neighbour_on_the_same_root_has_its_own_cards_power_limited_and_gets_it_back() -> None:
    run = CardRun(path=CardPath.PCIE, full=False)
    run.cards.law.follows_power, run.cards.law.harm = 1.0, 5.0
    acting = run.until(IncidentStage.ACTING)
    assert acting.lease is not None
    assert (acting.lease.rung, acting.lease.card_power) == (RecoveryRung.POWER, (("GPU-1", 300_000),))
    assert run.cards.nvml.gpus[1].power_mw == 300_000
    assert "the power of GPUs that batch/b has alone is limited: GPU-1 to 300 W" in acting.events[-1].text
    run.cards.guilty = ""
    run.until(IncidentStage.RELEASED)
    assert [gpu.power_mw for gpu in run.cards.nvml.gpus] == [700_000] * 5


def test_the_limit_of_power_is_a_lease_that_ends_by_itself_also_after_the_keeper_was_killed(tmp_path: Path) -> None:
    run = CardRun(path=CardPath.PCIE, full=False)
    run.obeys = lambda verdict: PolicyVerdict(())
    run.until(IncidentStage.ACTING)
    gpu, now_us = run.cards.nvml.gpus[1], [1_000_000]

    def keeper() -> tuple[LeaseExecutor, LeaseFile]:
        file, trail = LeaseFile(tmp_path, "this boot"), AuditTrail(tmp_path)
        rules = KnobRules((), gpus=frozenset({"GPU-1"}))
        clock = Clock(lambda: now_us[0], lambda: 1.0)
        return LeaseExecutor({KnobScope.GPU: run.cards.knobs}, file, trail, clock, rules), file

    first, file = keeper()
    (answer,) = first.hold(run.verdict.knobs)
    assert (answer.state, gpu.power_mw) == (LeaseState.HELD, 300_000)
    now_us[0] += 31_000_000  # the agent is silent
    first.tick()
    assert gpu.power_mw == 700_000
    first.hold(run.verdict.knobs)
    file.close()  # and the keeper is gone
    second, file = keeper()
    assert gpu.power_mw == 300_000
    second.restart(file.found.leases)
    assert gpu.power_mw == 700_000
    file.close()


def test_a_stronger_rung_keeps_the_limit_of_power() -> None:
    run = CardRun(path=CardPath.PCIE, full=False, stays_slow=False)
    run.cards.law.follows_power, run.cards.law.harm = 0.5, 6.0
    run.until(IncidentStage.ACTING, RecoveryRung.CAP)
    assert set(limits(run.verdict)) == {"GPU-1:gpu.power", "batch/b:cpu.max"}


def test_clocks_are_locked_where_less_power_was_not_enough_and_both_return() -> None:
    run = CardRun(replace(EVERY_KNOB, rungs=(RecoveryRung.POWER, RecoveryRung.CLOCKS)), path=CardPath.PCIE, full=False)
    run.cards.law.follows_power, run.cards.law.harm = 0.0, 5.0  # what it draws is below every limit
    acting = run.until(IncidentStage.ACTING, RecoveryRung.CLOCKS)
    assert acting.lease is not None
    assert acting.lease.card_clocks == (("GPU-1", 990),)
    assert limits(run.verdict) == {"GPU-1:gpu.power": "300000", "GPU-1:gpu.clocks": "990 990"}
    assert run.cards.nvml.gpus[1].clocks_mhz == (990, 990)
    assert "the clocks of GPUs that batch/b has alone are locked: GPU-1 to 990 MHz" in acting.events[-1].text
    run.until(IncidentStage.HOLDING)
    run.cards.guilty = ""
    run.until(IncidentStage.RELEASED)
    assert [(gpu.power_mw, gpu.clocks_mhz) for gpu in run.cards.nvml.gpus] == [(700_000, None)] * 5


def test_a_shorter_time_slice_is_held_where_it_helps_and_ends_where_it_does_not() -> None:
    run = CardRun(replace(EVERY_KNOB, rungs=(RecoveryRung.TIMESLICE, RecoveryRung.CAP)))
    run.cards.follows_slice = True
    acting = run.until(IncidentStage.ACTING)
    assert acting.lease is not None
    assert (acting.lease.rung, acting.lease.card_slices) == (RecoveryRung.TIMESLICE, ("GPU-0",))
    assert limits(run.verdict) == {"GPU-0:gpu.timeslice": "short"}
    assert "everybody on GPU-0 has a short time-slice, batch/b too" in acting.events[-1].text
    assert run.until(IncidentStage.HOLDING).proofs[-1].helped
    without = CardRun(replace(EVERY_KNOB, rungs=(RecoveryRung.TIMESLICE, RecoveryRung.CAP)))
    without.cards.law.follows_cpu = 1.0
    found = without.until(IncidentStage.ACTING, RecoveryRung.CAP)
    assert found.proofs[0].helped is False
    without.until(IncidentStage.HOLDING)
    assert "batch/b:cpu.max" in limits(without.verdict)


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (CardPath.MEMORY_BANDWIDTH, lambda gpu: gpu),
        (CardPath.SM, lambda gpu: replace(gpu, compute_mode="exclusive-process")),
        (CardPath.SM, lambda gpu: replace(gpu, uuid=f"{gpu.uuid}-unnamed")),
    ],
    ids=["by bandwidth", "clients of MPS", "a card that was not named"],
)
def test_no_time_slice_is_set_where_it_is_no_turn_or_nobody_named_the_card(
    path: CardPath, change: Callable[[GpuCounters], GpuCounters]
) -> None:
    run = CardRun(EVERY_KNOB, path=path)
    run.change = lambda state: replace(state, gpus=tuple(map(change, state.gpus)))
    run.seconds(60)
    assert run.named() == {"batch/b"}
    assert RecoveryRung.TIMESLICE not in run.rungs()


def test_clocks_and_time_slices_are_not_among_the_usual_rungs() -> None:
    assert not {RecoveryRung.CLOCKS, RecoveryRung.TIMESLICE, RecoveryRung.FREEZE} & set(RecoverySettings().rungs)


def test_no_card_is_limited_that_was_not_named_or_is_another_ones_too() -> None:
    run = CardRun(replace(ALL_RUNGS, cards=("GPU-0",)), path=CardPath.PCIE, full=False)
    acting = run.until(IncidentStage.ACTING)
    assert acting.lease is not None
    assert acting.lease.rung is RecoveryRung.CAP
    shared = CardRun()  # on multiprocessors: the service has the same card
    shared.seconds(60)
    assert RecoveryRung.POWER not in shared.rungs()


def test_an_eviction_comes_after_something_that_returns_has_helped_and_leaves_time_for_a_checkpoint() -> None:
    settings = replace(ALL_RUNGS, rungs=(RecoveryRung.CAP, RecoveryRung.EVICT), threads_percent=30)
    run = CardRun(settings, grace_s=8)
    run.cards.law.follows_cpu, run.cards.law.harm = 0.5, 6.0
    acting = run.until(IncidentStage.ACTING, RecoveryRung.EVICT)
    assert acting.lease is not None
    assert acting.lease.until_us - acting.lease.since_us >= 8 * SECOND_US
    assert limits(run.verdict) == {"all:mps.threads": "30"}  # the pod has its CPU, to write its checkpoint
    assert [(gone.key, gone.grace_s) for gone in run.verdict.evictions] == [("batch/b", None)]
    holding = run.until(IncidentStage.HOLDING)
    text = "recovered; each MPS client of offline work that starts from now on has 30 % of a GPU's threads for 10 s"
    assert text in holding.events[-1].text
    assert limits(run.verdict) == {"all:mps.threads": "30"}
    assert not run.verdict.evictions
    assert holding.proofs[-1].helped
    run.until(IncidentStage.RELEASED)
    assert not run.verdict.knobs


def test_nobody_is_evicted_where_nothing_that_returns_helped() -> None:
    run = CardRun(replace(ALL_RUNGS, rungs=(RecoveryRung.CAP, RecoveryRung.IDLE, RecoveryRung.EVICT)))
    run.cards.law.follows_cpu, run.cards.law.harm = 0.0, 4.0
    run.seconds(90)
    assert run.named() == {"batch/b"}
    assert RecoveryRung.EVICT not in run.rungs()
    assert "batch/b is cleared" in "\n".join(event.text for event in run.newest.events if run.newest)  # type: ignore[union-attr]


def test_what_does_not_help_ends_and_clears_the_pod() -> None:
    """It filled the card when the trouble began, by chance."""
    run = CardRun(stays_slow=True)
    run.seconds(80)
    assert run.newest is not None
    assert run.newest.stage is IncidentStage.SUSPECTED
    assert not run.verdict.knobs
    assert not run.verdict.evictions
    assert [cleared.culprit for cleared in run.memory.cleared] == ["uid-b"]


@pytest.mark.parametrize("planted", [{"nobodys": True}, {"within": True}], ids=["no pod", "the service's own pod"])
def test_a_process_that_is_nobodys_or_the_services_own_costs_no_pod(planted: dict[str, Any]) -> None:
    run = CardRun(**planted).seconds(60)
    assert run.newest is not None
    assert run.named() == set()
    assert run.newest.attribution is not None
    cause = run.newest.attribution.cause
    assert cause is (TroubleCause.OUTSIDE if "nobodys" in planted else TroubleCause.OWN_LOAD)


def divided(gpu: GpuCounters) -> GpuCounters:
    return replace(gpu, divided=True)


def told_nothing(gpu: GpuCounters) -> GpuCounters:
    return replace(gpu, pods=tuple(replace(use, sm_percent=None, bandwidth_percent=None) for use in gpu.pods))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (divided, "SM: GPU 0 is divided (MIG)"),
        (told_nothing, "SM: GPU 0 has a driver that does not tell its processes apart"),
    ],
)
def test_where_a_path_is_not_measured_nobody_is_blamed_and_it_says_so(
    change: Callable[[GpuCounters], GpuCounters], why: str
) -> None:
    run = CardRun()
    run.change = lambda state: replace(state, gpus=tuple(map(change, state.gpus)))
    run.seconds(60)
    assert run.named() == set()
    assert f"not measured on its cards: {why}" in run.told()


def test_a_card_that_failed_is_the_cause_and_ends_what_is_held() -> None:
    run = CardRun(stays_slow=True)
    run.until(IncidentStage.ACTING)
    run.cards.nvml.events.append((run.cards.nvml.gpus[0], 79))
    found = run.until(IncidentStage.OWN)
    assert found.attribution is not None
    assert found.attribution.cause is TroubleCause.OWN_CARD
    assert "caused by GPU 0: Xid 79" in found.events[-1].text
    assert not run.verdict.knobs


def test_a_card_that_is_no_longer_read_is_the_cause_and_a_reading_that_failed_is_not() -> None:
    def without(*indexes: int) -> Callable[[NodeState], NodeState]:
        return lambda state: replace(state, gpus=tuple(gpu for gpu in state.gpus if gpu.index not in indexes))

    run = CardRun(stays_slow=True)
    run.until(IncidentStage.ACTING)
    run.change = without(0)
    assert "GPU-0 is no longer there" in run.until(IncidentStage.OWN).events[-1].text
    blind = CardRun(stays_slow=True)
    blind.until(IncidentStage.ACTING)
    blind.change = without(*range(5))
    blind.seconds(40)
    assert blind.newest is not None
    assert TroubleCause.OWN_CARD not in {blind.newest.attribution and blind.newest.attribution.cause}


def test_two_services_on_one_card_are_two_incidents_with_one_limit() -> None:
    run = CardRun()

    def twice(state: NodeState) -> NodeState:
        first = state.pods[0]
        second = replace(first, pod=replace(first.pod, uid="uid-other", name="other", group="pods/other"))
        gpus = tuple(
            replace(gpu, pods=(*gpu.pods, replace(gpu.pods[0], uid="uid-other", sm_percent=5, bandwidth_percent=5)))
            if gpu.index == 0
            else gpu
            for gpu in state.gpus
        )
        return replace(state, pods=(*state.pods, second), gpus=gpus)

    run.change = twice
    run.seconds(50)
    found = (*run.memory.ended, *run.memory.incidents)
    assert {one.name for one in found} == {"shop/llm", "shop/other"}
    assert run.named() == {"batch/b"}
    assert len({wish.target for wish in run.verdict.knobs}) == len(run.verdict.knobs)


def test_a_knob_that_the_node_lacks_is_not_asked_for() -> None:
    run = CardRun(replace(ALL_RUNGS, threads_percent=30), path=CardPath.PCIE, full=False)
    run.change = lambda state: replace(state, supported=state.supported - {Knob.GPU_POWER, Knob.MPS_THREADS})
    run.seconds(80)
    assert run.named() == {"batch/b"}
    assert RecoveryRung.POWER not in run.rungs()


@pytest.mark.parametrize(
    "wrong",
    [
        {"cards": ("GPU-a", "GPU-a")},
        {"cards": ("",)},
        {"threads_percent": 101},
        {"power_ppm": 1_000_001},
        {"clocks_ppm": 0},
    ],
)
def test_invalid_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        RecoverySettings(**wrong)


def outcomes(**planted: Any) -> Counter[str]:
    """Over the seeds: how often the guilty pod alone, an innocent, or nobody was held, and how often that helped."""
    found: Counter[str] = Counter()
    for seed in HELD_OUT:
        run = CardRun(seed=seed, **planted).seconds(100)
        named = run.named()
        found["guilty" if named == {"batch/b"} else "innocent" if named else "nobody"] += 1
        incidents = (*run.memory.ended, *run.memory.incidents)
        found["recovered"] += any(one.recovered_us is not None for one in incidents if one.proofs)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("path", [CardPath.SM, CardPath.MEMORY_BANDWIDTH])
@pytest.mark.parametrize("window_s", [1, 5])
def test_under_laws_that_were_not_looked_at_the_guilty_pod_is_held_and_the_service_recovers(
    path: CardPath, window_s: int
) -> None:
    found = outcomes(path=path, window_s=window_s)
    assert found["innocent"] == 0
    assert found["guilty"] >= 24
    assert found["recovered"] >= 24


@pytest.mark.slow
def test_on_pcie_a_pod_that_comes_and_goes_is_held() -> None:
    found = outcomes(path=CardPath.PCIE, full=False)
    assert (found["innocent"], found["guilty"] >= 24, found["recovered"] >= 24) == (0, True, True)


@pytest.mark.slow
@pytest.mark.parametrize("planted", [{"load_growth": 1.8}, {"stays_slow": True}], ids=["own load", "something else"])
def test_nobody_is_held_for_what_no_pod_did(planted: dict[str, Any]) -> None:
    assert outcomes(guilty="", **planted)["nobody"] >= 29
