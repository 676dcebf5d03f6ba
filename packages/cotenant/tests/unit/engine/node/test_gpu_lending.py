"""Lending of idle GPUs: what is offered after measurements, and who leaves when a holder wants its card back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.decision_log import DecisionKind
from cotenant.engine.node.gpu_lending.policy import GpuLendingMemory, decide
from cotenant.engine.node.gpu_lending.settings import GpuLendingSettings
from cotenant.engine.node.policies import PolicySettings
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.seal import SealStanding
from cotenant.model.devices.allocation import DEVICE_ALLOCATED
from cotenant.model.devices.card_need import GPU_NEED
from cotenant.model.errors import InvalidInput
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.counters import GpuCounters, GpuPodUse, HostCounters, NodeSample
from cotenant.model.machine.node_decision import EvictPod
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse, ServiceHealth
from cotenant.model.resources import GPU_CORE, GPU_MEMORY_RATIO, LENT_GPU

GIB = 1 << 30
SECOND = 1_000_000
SETTINGS = GpuLendingSettings()
WHOLE = {GPU_CORE: 100, GPU_MEMORY_RATIO: 100}


def given(name: str, amounts: dict[str, int], minor: int = 0, **more: object) -> NodePod:
    written = json.dumps({"gpu": [{"minor": minor, "resources": {k: str(v) for k, v in amounts.items()}}]})
    made = NodePod(name, "ml", name, f"pods/{name}", annotations=Labels.of({DEVICE_ALLOCATED: written}))
    return replace(made, **more)  # type: ignore[arg-type]


SERVER = given("server", WHOLE)
TRAIN = given("train", {LENT_GPU: 40}, grace_s=20)
OTHER = given("other", {LENT_GPU: 30}, grace_s=300)


def use(uid: str, memory_percent: int, sm: int | None = 0) -> GpuPodUse:
    return GpuPodUse(uid, memory_percent * 80 * GIB // 100, sm, sm)


def card(*uses: GpuPodUse, index: int = 0) -> GpuCounters:
    total = sum(one.memory_bytes for one in uses)
    return GpuCounters(index, f"GPU-{index}", "H100", True, 0, 80 * GIB, total, pods=uses)


class Machine:
    """A node whose samples a test makes; times in seconds."""

    def __init__(self, settings: GpuLendingSettings = SETTINGS) -> None:
        self.settings, self.memory, self.at_s = settings, GpuLendingMemory(), 0
        self.text, self.frozen = "", ""

    def tick(
        self,
        pods: Sequence[NodePod],
        *gpus: GpuCounters,
        after_s: int = 1,
        health: ServiceHealth | None = None,
        kubelet: KubeletFacts | None = None,
    ) -> tuple[EvictPod, ...]:
        self.at_s += after_s
        uses = tuple(PodUse(pod, GroupUse(pod.group), health=health if pod is SERVER else None) for pod in pods)
        host, facts = HostUse(8, 0, 64 * GIB, 0), kubelet or KubeletFacts()
        state = NodeState(self.at_s * SECOND, SECOND, host, uses, gpus=gpus, kubelet=facts)
        state = replace(state, lending_frozen=self.frozen)
        verdict, self.memory = decide(state, self.settings, self.memory)
        self.text = "; ".join(reason.text for reason in verdict.reasons)
        self.terms = verdict.reasons[0].terms
        return verdict.evictions

    def warm(
        self, pods: Sequence[NodePod], *gpus: GpuCounters, minutes: int = 60, kubelet: KubeletFacts | None = None
    ) -> None:
        for _ in range(minutes):
            assert not self.tick(pods, *gpus, after_s=60, kubelet=kubelet)

    def lent(self, index: int = 0) -> int:
        return self.memory.percent()[f"GPU-{index}"]


def test_nothing_is_lent_of_a_held_card_before_its_use_is_known() -> None:
    machine = Machine()
    machine.warm([SERVER], card(use("server", 30, 20)), minutes=10)
    assert machine.lent() == 0


def test_what_a_holder_leaves_is_lent_in_steps_and_the_terms_add_up() -> None:
    machine = Machine()
    machine.warm([SERVER], card(use("server", 30, 20)))
    assert machine.lent() == 60  # 100 less 30 of memory less 10 headroom, in tens
    assert sum(term.value for term in machine.terms) == 600
    assert {term.name for term in machine.terms} >= {"memory: capacity", "headroom"}
    assert "GPU 0 of ml/server: 60 % is lent, 0 % taken" in machine.text


def test_an_offer_grows_by_one_step_a_measurement() -> None:
    machine = Machine()
    machine.warm([], card(), minutes=4)  # the first begins the time that is measured
    assert machine.lent() == 30
    machine.warm([], card(), minutes=20)
    assert machine.lent() == 90  # a card that nobody holds, less the headroom


def test_frozen_no_offer_rises_and_it_falls_as_before() -> None:
    machine = Machine()
    machine.warm([SERVER], card(use("server", 30, 20)), minutes=10)
    machine.frozen = "frozen by ada: outage"
    machine.warm([SERVER], card(use("server", 30, 20)))
    assert machine.lent() == 0
    assert machine.frozen in {term.name for term in machine.terms}
    machine.frozen = ""
    machine.warm([SERVER], card(use("server", 30, 20)))
    assert machine.lent() == 60
    machine.frozen = "frozen by ada: outage"
    machine.warm([SERVER], card(use("server", 50, 20)), minutes=2)
    fell = machine.lent()
    assert 0 < fell <= 40
    machine.warm([SERVER], card(use("server", 30, 20)))
    assert machine.lent() <= fell


def test_an_allocated_card_that_nobody_uses_is_lent_once_its_holder_had_time_to_start() -> None:
    machine = Machine()
    machine.warm([SERVER], card(), minutes=4)
    assert machine.lent() == 0
    machine.warm([SERVER], card(), minutes=60)
    assert machine.lent() == 90


def test_a_card_that_a_device_plugin_gave_is_its_pod_s_before_a_process_runs_on_it() -> None:
    pod = NodePod("serve", "ml", "serve", "pods/serve")
    kubelet = KubeletFacts(given_devices=(("GPU-0", "ml/serve"), ("GPU-1", "ml/other")))
    machine = Machine()
    machine.warm([pod], card(), card(index=1), minutes=4, kubelet=kubelet)
    assert (machine.lent(0), machine.lent(1)) == (0, 30)


def test_jitter_of_the_holders_use_is_kept_in_reserve() -> None:
    machine = Machine()
    for minute in range(120):
        machine.tick([SERVER], card(use("server", 30, 20 + 40 * (minute % 7 == 0))), after_s=60)
    assert machine.lent() <= 40  # multiprocessors: 60 % now and then, though 20 in the mean


def test_memory_into_which_a_cache_may_grow_is_not_lent() -> None:
    machine = Machine()
    part = {GPU_CORE: 50, GPU_MEMORY_RATIO: 40}
    grows = given("grows", part)
    grows = replace(
        grows,
        annotations=Labels.of(
            {DEVICE_ALLOCATED: grows.annotations.get(DEVICE_ALLOCATED) or "", GPU_NEED: '{"cacheGrowth": 20}'}
        ),
    )
    machine.warm([grows], card(use("grows", 30, 20)))
    assert machine.lent() == 20  # 100 less 30 of memory less 40 to which it may grow (50 and 20) less 10 headroom


def test_a_card_whose_driver_does_not_tell_processes_apart_is_not_lent() -> None:
    machine = Machine()
    machine.warm([SERVER], card(use("server", 30, None)))
    assert machine.lent() == 0
    assert "nothing is lent, its driver does not tell processes apart" in machine.text


@pytest.mark.parametrize(("busy", "memory_percent", "lent"), [(0, 9, True), (0, 11, False), (1, 0, False)])
def test_a_card_that_is_in_use_by_nobody_that_is_shown_is_not_lent(busy: int, memory_percent: int, lent: bool) -> None:
    machine = Machine()
    used = memory_percent * 80 * GIB // 100
    machine.warm([SERVER], replace(card(), utilisation_percent=busy, memory_used_bytes=used))
    assert (machine.lent() > 0) is lent
    assert ("nothing is lent, it is in use, and its driver does not show by which process" in machine.text) is not lent


def test_a_program_that_was_given_nothing_holds_what_it_uses() -> None:
    machine = Machine()
    machine.warm([SERVER], card(use("server", 30, 20), use("", 40, 0)))
    assert machine.lent() == 20


def test_memory_that_a_holder_wants_back_makes_the_youngest_leave_at_once_with_the_shorter_time() -> None:
    machine = Machine()
    machine.warm([SERVER], card(use("server", 20, 10)))
    machine.tick([SERVER, TRAIN], card(use("server", 20, 10), use("train", 30, 80)))
    machine.tick([SERVER, TRAIN, OTHER], card(use("server", 20, 10), use("train", 30, 80), use("other", 20, 10)))
    (eviction,) = machine.tick([SERVER, TRAIN, OTHER], card(use("server", 50, 10), use("train", 30, 80)))
    assert (eviction.key, eviction.grace_s) == ("ml/other", 30)  # it would like 300 s
    assert "GPU 0 is wanted back: its holders need 50 % of its memory, 70 % are lent" in eviction.reason.text
    both = machine.tick([SERVER, TRAIN, OTHER], card(use("server", 70, 10), use("train", 30, 80)))
    assert [(one.key, one.grace_s) for one in both] == [("ml/other", 30), ("ml/train", 20)]
    assert machine.lent() <= 30


def test_who_leaves_already_is_counted_as_gone() -> None:
    machine = Machine()
    leaving = replace(OTHER, phase=NodePodPhase.TERMINATING)
    machine.warm([SERVER], card(use("server", 20, 10)))
    assert not machine.tick([SERVER, TRAIN, leaving], card(use("server", 50, 10), use("train", 30, 80)))


def test_multiprocessors_may_be_short_for_a_few_seconds() -> None:
    machine = Machine()
    machine.warm([SERVER], card(use("server", 20, 10)))
    busy = card(use("server", 20, 90), use("train", 30, 80))
    assert not machine.tick([SERVER, TRAIN], busy)
    assert not machine.tick([SERVER, TRAIN], busy, after_s=4)
    (eviction,) = machine.tick([SERVER, TRAIN], busy)
    assert "need 90 % of its multiprocessors, 40 % are lent" in eviction.reason.text


def test_a_new_holder_counts_by_its_request_before_it_runs() -> None:
    machine = Machine()
    machine.warm([], card())
    assert not machine.tick([TRAIN], card(use("train", 30, 80)))
    (eviction,) = machine.tick([TRAIN, SERVER], card(use("train", 30, 80)))
    assert eviction.key == "ml/train"
    assert machine.lent() == 0


def test_a_missed_objective_makes_one_after_another_leave_and_nothing_is_lent_for_a_while() -> None:
    machine = Machine()
    bad = ServiceHealth(5 * SECOND, 100, 2_000, 30, 0)
    machine.warm([SERVER], card(use("server", 20, 10)))
    pods = [SERVER, TRAIN, OTHER]
    shared = card(use("server", 20, 10), use("train", 10, 5), use("other", 10, 5))
    assert not machine.tick([SERVER, TRAIN], shared)
    assert not machine.tick(pods, shared, health=ServiceHealth(5 * SECOND, 100, 900, 1, 0))
    (first,) = machine.tick(pods, shared, health=bad)
    assert (first.key, machine.lent()) == ("ml/other", 0)
    assert "it misses its objective beside what is lent" in first.reason.text
    assert not machine.tick(pods, shared, health=bad)
    (second,) = machine.tick([SERVER, TRAIN], shared, health=bad, after_s=30)
    assert second.key == "ml/train"
    machine.warm([SERVER], card(use("server", 20, 10)), minutes=9)
    assert machine.lent() == 0
    machine.warm([SERVER], card(use("server", 20, 10)), minutes=9)
    assert machine.lent() > 0


def test_what_an_owner_writes_about_what_it_holds_is_not_believed_where_a_seal_refuses_it() -> None:
    machine = Machine()
    forged = replace(given("forged", {LENT_GPU: 90}), holdings=SealStanding.REFUSED)
    machine.warm([SERVER], card(use("server", 20, 10)))
    assert not machine.tick([SERVER, forged], card(use("server", 50, 10), use("forged", 40, 90)))
    assert "0 % taken" in machine.text  # it is a program that was given nothing: it holds what it uses
    assert machine.lent() == 0


def test_cards_are_judged_one_by_one() -> None:
    machine = Machine()
    pods = [SERVER, given("second", WHOLE, minor=1)]
    machine.warm(pods, card(use("server", 30, 20)), card(use("second", 80, 90), index=1))
    assert (machine.lent(0), machine.lent(1)) == (60, 0)
    machine.warm([SERVER], card(use("server", 30, 20)), minutes=1)
    assert set(machine.memory.percent()) == {"GPU-0"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("risk", 0.0), ("risk", 1.0), ("return_s", 0), ("headroom_percent", 100), ("step_percent", 0),
     ("measured_every_s", 5), ("pause_s", -1)],
)  # fmt: skip
def test_settings_that_mean_nothing_are_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=name):
        GpuLendingSettings(**{name: value})  # type: ignore[arg-type]


def test_without_gpus_nothing_happens() -> None:
    machine = Machine()
    assert not machine.tick([SERVER])
    assert machine.text == "no GPU is read here"


def test_the_agent_asks_for_the_eviction_once_within_its_limits_and_says_why() -> None:
    """From samples to an instruction, as its process drives it."""
    agent = Agent(AgentSettings(policies=PolicySettings(gpu_lending=SETTINGS), roots=("pods",)), "node-1")
    agent.pods_seen([SERVER, TRAIN], 0)
    for minute in range(60):
        shared = card(use("server", 20, 10), use("train", 30, 80))
        assert not agent.sampled(sample(minute * 60, shared), {}).evict
    agent.pods_seen([SERVER, TRAIN, OTHER], 3_599 * SECOND)
    wanted = card(use("server", 60, 10), use("train", 30, 80), use("other", 10, 0))
    (eviction,) = agent.sampled(sample(3_600, wanted), {}).evict
    assert (eviction.key, eviction.grace_s) == ("ml/other", 30)
    assert not agent.sampled(sample(3_601, wanted), {}).evict
    (noted,) = [one for one in agent.decisions() if one.what is DecisionKind.EVICTED]
    assert (noted.policy, noted.pod) == ("gpu-lending", "ml/other")


def sample(at_s: int, *gpus: GpuCounters) -> NodeSample:
    return NodeSample(at_s * SECOND, float(at_s), HostCounters(8, 0, 64 * GIB, 32 * GIB), gpus=gpus)
