"""A part of a card beside model servers: what is lent of it, who is suspended for a server, and who leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from tests.unit.engine.node.test_gpu_lending import GIB, SECOND, SERVER, card, given, use

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.gpu_lending.policy import GpuLendingMemory, decide, reads
from cotenant.engine.node.gpu_lending.settings import GpuLendingSettings
from cotenant.engine.node.instructions import Instructions
from cotenant.engine.node.policies import PolicySettings
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.counters import GpuCounters, GroupCounters, HostCounters, NodeSample
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse, ServiceHealth
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.model.resources import LENT_GPU

SETTINGS = GpuLendingSettings(beside_percent=50, headroom_percent=0, measured_every_s=10, patience_s=100)
LLM = replace(SERVER, objective_p99_us=1_000_000, workload="Deployment ml/llm")
TRAIN, OTHER = given("train", {LENT_GPU: 30}), given("other", {LENT_GPU: 20})
CALM = ServiceHealth(5 * SECOND, 100, 300_000, 0, 0)
CLOSE = ServiceHealth(5 * SECOND, 100, 990_000, 1, 0)
MISSED = ServiceHealth(5 * SECOND, 100, 2_000_000, 30, 0)


def busy(*uses: tuple[str, int, int]) -> GpuCounters:
    """A server that always answers, and these borrowers: uid, memory and multiprocessors."""
    return card(use("server", 50, 97), *(use(*one) for one in uses))


class Node:
    """A node whose samples a test makes, a second apart."""

    def __init__(self, settings: GpuLendingSettings = SETTINGS, supported: frozenset[Knob] = frozenset(Knob)) -> None:
        self.settings, self.supported, self.memory, self.at_s = settings, supported, GpuLendingMemory(), 0
        self.knobs: Mapping[KnobTarget, str] = {}

    def tick(
        self, pods: Sequence[NodePod], gpu: GpuCounters, health: ServiceHealth | None = CALM, seconds: int = 1
    ) -> PolicyVerdict:
        for _ in range(seconds):
            self.at_s += 1
            uses = tuple(PodUse(pod, GroupUse(pod.group), health=health if pod is LLM else None) for pod in pods)
            host = HostUse(8, 0, 64 * GIB, 0)
            state = NodeState(
                self.at_s * SECOND, SECOND, host, uses, knobs=self.knobs, supported=self.supported, gpus=(gpu,)
            )
            verdict, self.memory = decide(state, self.settings, self.memory)
            self.asked = reads(state)
        return verdict

    def until_leaving(self, pods: Sequence[NodePod], gpu: GpuCounters, health: ServiceHealth = CALM) -> PolicyVerdict:
        for _ in range(200):
            verdict = self.tick(pods, gpu, health)
            if verdict.evictions:
                return verdict
        raise AssertionError("nobody leaves")

    def lent(self) -> int:
        return self.memory.percent()["GPU-0"]


def suspended(verdict: PolicyVerdict) -> list[str]:
    assert all(knob.target.knob is Knob.CGROUP_FREEZE and knob.value == "1" for knob in verdict.knobs)
    return [knob.target.group for knob in verdict.knobs]


@pytest.mark.slow
def test_what_a_busy_server_leaves_is_lent_where_it_says_how_it_serves() -> None:
    node = Node()
    node.tick([LLM], busy(), seconds=500)
    assert node.lent() == 50, "by memory: it keeps kernels on its card at any load"
    off = Node(replace(SETTINGS, beside_percent=0))
    off.tick([LLM], busy(), seconds=500)
    assert off.lent() == 0
    other = Node()
    other.tick([SERVER], busy(), seconds=500)
    assert other.lent() == 0, "without an objective its kernels are all that is known of it"


@pytest.mark.slow
def test_a_borrower_has_its_part_while_the_server_is_calm_and_no_other_is_offered_one() -> None:
    node = Node()
    assert not node.tick([LLM, TRAIN], busy(("train", 30, 40)), seconds=500).knobs
    assert node.lent() == 30, "what is taken: two would have all of its multiprocessors"
    assert node.asked == (KnobTarget("pods/train", Knob.CGROUP_FREEZE),)


def test_who_does_not_fit_into_the_part_is_suspended_the_youngest_first_and_runs_again() -> None:
    node = Node()
    node.tick([LLM, TRAIN], busy(("train", 30, 40)), seconds=60)
    both = [LLM, TRAIN, OTHER]
    assert suspended(node.tick(both, busy(("train", 10, 20), ("other", 10, 20)))) == ["pods/other"]
    verdict = node.tick(both, busy(("train", 10, 40)), CLOSE, seconds=12)  # a window alone is noise
    assert suspended(verdict) == ["pods/train", "pods/other"]
    assert not verdict.evictions
    text = verdict.knobs[0].reason.text
    assert "ml/train is suspended: it borrowed 30 % of GPU 0" in text
    assert "p99 990000 us against 1000000 us" in text
    assert suspended(node.tick(both, busy(), seconds=30)) == ["pods/other"], "the oldest, once it has been calm"
    gone = [LLM, replace(TRAIN, phase=NodePodPhase.TERMINATING), OTHER]
    assert not node.tick(gone, busy()).knobs, "who leaves runs, for its checkpoint, and the next has its part"


@pytest.mark.slow
def test_who_is_suspended_for_long_leaves_and_nobody_is_offered_its_place() -> None:
    node = Node(replace(SETTINGS, guard=replace(SETTINGS.guard, cool_down_us=3_000 * SECOND)))
    pods = [LLM, TRAIN]
    node.tick(pods, busy(("train", 30, 40)), seconds=100)
    node.tick(pods, busy(("train", 30, 40)), MISSED, seconds=12)
    assert suspended(node.tick(pods, busy(("train", 30, 0)))) == ["pods/train"]
    verdict = node.until_leaving(pods, busy(("train", 30, 0)))
    (eviction,) = verdict.evictions
    assert (eviction.key, verdict.knobs) == ("ml/train", ())
    assert "it was suspended for 100 s" in eviction.reason.text
    node.tick([LLM], busy(), seconds=600)
    assert node.lent() == 0, "while the guard holds the card back"


@pytest.mark.parametrize("why", ["supported", "refused"])
def test_where_nobody_can_be_suspended_the_youngest_leaves(why: str) -> None:
    node = Node(supported=frozenset(Knob) - ({Knob.CGROUP_FREEZE} if why == "supported" else set()))
    node.knobs = {KnobTarget("pods/train", Knob.CGROUP_FREEZE): "0"}
    node.tick([LLM, TRAIN], busy(("train", 30, 40)), seconds=60)
    verdict = node.until_leaving([LLM, TRAIN], busy(("train", 30, 40)), CLOSE)
    assert [one.key for one in verdict.evictions] == ["ml/train"]
    assert why == "supported" or node.at_s > 65, "it had time to be suspended"


@pytest.mark.slow
def test_from_a_part_of_the_error_budget_on_nobody_runs_beside_the_server() -> None:
    node = Node(replace(SETTINGS, spent_percent=50, spent_s=300))
    pods = [LLM, TRAIN]
    node.tick(pods, busy(("train", 30, 40)), seconds=100)
    some = replace(CALM, over_objective=3)  # now and then: no guard stops that
    for _ in range(200):
        verdict = node.tick(pods, busy(("train", 30, 40)), some, seconds=2)
        if verdict.knobs:
            break
        node.tick(pods, busy(("train", 30, 40)), seconds=2)
    assert suspended(verdict) == ["pods/train"]
    assert "of its error budget is spent" in verdict.knobs[0].reason.text
    assert suspended(node.tick(pods, busy(("train", 30, 40)), seconds=30)) == ["pods/train"]
    fresh = replace(node.settings, patience_s=9000)
    node.settings = fresh
    assert not node.tick(pods, busy(("train", 30, 40)), seconds=200).knobs, "and again, as it is forgotten"


def test_silence_of_a_server_that_had_time_to_start_is_no_calm() -> None:
    node = Node(replace(SETTINGS, starting_s=60))
    assert not node.tick([LLM, TRAIN], busy(("train", 30, 40)), None, seconds=60).knobs
    verdict = node.tick([LLM, TRAIN], busy(("train", 30, 40)), None)
    assert suspended(verdict) == ["pods/train"]
    assert "nothing is heard of how ml/server serves" in verdict.knobs[0].reason.text


def test_memory_that_the_server_wants_back_still_makes_borrowers_leave_at_once() -> None:
    node = Node()
    node.tick([LLM, TRAIN], busy(("train", 30, 40)), seconds=60)
    verdict = node.tick([LLM, TRAIN], card(use("server", 80, 97), use("train", 20, 40)))
    assert [one.key for one in verdict.evictions] == ["ml/train"]
    assert "need 80 % of its memory" in verdict.evictions[0].reason.text


def test_the_agent_asks_its_keeper_to_suspend_a_borrower() -> None:
    """From samples and reported latencies to instructions, as its process drives it."""
    agent = Agent(AgentSettings(policies=PolicySettings(gpu_lending=SETTINGS), roots=("pods",)), "node-1")
    agent.pods_seen([LLM, TRAIN], 0)
    target = KnobTarget("pods/train", Knob.CGROUP_FREEZE)

    def ticks(begin_s: int, seconds: int, health: ServiceHealth) -> list[Instructions]:
        found = []
        for at_s in range(begin_s, begin_s + seconds):
            agent.health_reported("server", health, at_s * SECOND)
            groups = (GroupCounters("pods/server"), GroupCounters("pods/train"))
            gpus = (busy(("train", 30, 40)),)
            counters = HostCounters(8, 0, 64 * GIB, 32 * GIB)
            sample = NodeSample(at_s * SECOND, float(at_s), counters, groups, gpus=gpus)
            found.append(agent.sampled(sample, dict.fromkeys(agent.knobs_to_read(), "0")))
        return found

    assert not any(one.hold for one in ticks(1, 60, CALM))
    held = [knob for one in ticks(61, 4, MISSED) for knob in one.hold if knob.target == target]
    assert [knob.value for knob in held[:1]] == ["1"]
    assert "is suspended: it borrowed 30 % of GPU 0" in held[0].reason.text


@pytest.mark.parametrize(
    ("name", "value"), [("beside_percent", 100), ("spent_percent", 0), ("spent_s", 59), ("patience_s", -1)]
)
def test_settings_of_the_part_that_mean_nothing_are_refused(name: str, value: int) -> None:
    with pytest.raises(InvalidInput, match=name):
        GpuLendingSettings(**{name: value})  # type: ignore[arg-type]
