"""The grace of starting pods: who gets it, for how long, what it costs, and that it disturbs no other arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.unit.policy.nodeqos.nodes import health, in_use, node

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.knob_values import parse_cpu_max
from cotenant.model.machine.node_decision import DecisionTerm
from cotenant.model.machine.node_pod import NodePodPhase
from cotenant.model.machine.node_state import GroupUse, NodeState, PodUse
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.nodeqos.cpu.best_effort import BestEffortCpuConfig, BestEffortCpuMemory, decide
from cotenant.policy.nodeqos.cpu.startup_grace import RULE, StartupGraceConfig
from cotenant.policy.nodeqos.cpu.suppression import SuppressConfig, SuppressionForm
from cotenant.policy.nodeqos.guard.track import GuardMode

GROUP = "kubepods/besteffort"
CONFIG = BestEffortCpuConfig(suppress=SuppressConfig(form=SuppressionForm.QUOTA))
WITHOUT = replace(CONFIG, grace=StartupGraceConfig(enabled=False))
QUOTA = KnobTarget(GROUP, Knob.CPU_MAX)


def batch(name: str, cpu_m: int = 10, tenant: str = "a", **fields: object) -> PodUse:
    return in_use(name, cpu_m, QoSClass.BE, **{"group": f"{GROUP}/{name}", "tenant": tenant} | fields)


class Node:
    """Two CPUs on which a service leaves 200 mCPU of the threshold; each decision's knobs are in force until the
    next.
    """

    def __init__(self, config: BestEffortCpuConfig = CONFIG, web_m: int = 1100, common: bool = True) -> None:
        self.config, self.web_m, self.common = config, web_m, common
        self.memory = BestEffortCpuMemory()
        self.at_s = 100.0
        self.knobs: dict[KnobTarget, str] = {}

    def state(self, pods: Sequence[PodUse]) -> NodeState:
        used_m = sum(entry.use.cpu_m or 0 for entry in pods)
        fields = {"best_effort_group": GROUP, "best_effort": GroupUse(GROUP, cpu_m=used_m)} if self.common else {}
        return node([in_use("web", self.web_m), *pods], cpus=2, at_s=self.at_s, knobs=dict(self.knobs), **fields)

    def tick(self, *pods: PodUse, passes_s: float = 1.0) -> PolicyVerdict:
        self.at_s += passes_s
        verdict, self.memory = decide(self.state(pods), self.config, self.memory)
        self.knobs |= {knob.target: knob.value for knob in verdict.knobs}
        return verdict

    def quota_m(self, *pods: PodUse, passes_s: float = 1.0, group: str = GROUP) -> int:
        """The quota after a tick."""
        verdict = self.tick(*pods, passes_s=passes_s)
        (knob,) = [wish for wish in verdict.knobs if wish.target == KnobTarget(group, Knob.CPU_MAX)]
        return parse_cpu_max(knob.value).cpu_m or 0


def test_a_new_pod_raises_a_tight_quota_for_ten_seconds_and_the_terms_add_up() -> None:
    one = Node()
    assert one.quota_m(batch("old")) == 200
    verdict = one.tick(batch("old"), batch("new"))
    (knob,) = [wish for wish in verdict.knobs if wish.target == QUOTA]
    assert knob.value == "40000 100000"
    assert sum(term.value for term in knob.reason.terms) == 400
    assert knob.reason.terms[-1] == DecisionTerm("start-up grace", 200, "mCPU")
    assert knob.reason.text.endswith("0.2 CPU more while pods start (1)")
    assert [reason.text for reason in verdict.reasons if reason.rule == RULE] == ["0.2 CPU more while pods start (1)"]
    rest = [one.quota_m(batch("old"), batch("new")) for _ in range(12)]
    assert rest == [400] * 9 + [200] * 3
    assert one.quota_m(batch("old"), batch("new")) == 200  # and not again


@pytest.mark.parametrize(
    ("pods", "quota_m"),
    [
        ([batch("new", 10)], 400),
        ([batch("a", tenant="a"), batch("b", tenant="b"), batch("c", tenant="c")], 600),  # two at a time
        ([batch("new", phase=NodePodPhase.OVER)], 200),
        ([batch("new", phase=NodePodPhase.TERMINATING)], 200),
        ([in_use("service", 0)], 200),
        ([batch("new", group="")], 200),
    ],
)
def test_who_gets_it(pods: list[PodUse], quota_m: int) -> None:
    one = Node()
    assert one.quota_m(batch("old")) == 200
    assert one.quota_m(batch("old"), *pods) == pytest.approx(quota_m, abs=20)


def test_pods_from_before_the_agent_get_none_nor_those_that_came_back() -> None:
    one = Node()
    assert one.quota_m(batch("a"), batch("b")) == 200
    assert one.quota_m(batch("a"), batch("b")) == 200


def test_it_ends_when_the_pod_has_used_what_a_start_takes() -> None:
    one = Node()
    one.tick(batch("old"))
    assert [one.quota_m(batch("old"), batch("new", 300)) for _ in range(5)] == [400, 400, 400, 200, 200]


def test_it_ends_when_the_kubelet_says_that_the_containers_run() -> None:
    one = Node()
    one.tick(batch("old"))
    assert one.quota_m(batch("old"), batch("new")) == 400
    assert one.quota_m(batch("old"), batch("new", has_started=True)) == 200
    assert one.quota_m(batch("old"), batch("new")) == 200  # one of its containers is made again


def test_a_pod_that_spins_beside_others_costs_what_a_start_may_take_and_no_more() -> None:
    one = Node()
    one.tick(batch("old", 190))
    given = [one.quota_m(batch("old", 300), batch("new", 100)) for _ in range(12)]
    assert given == [400] * 5 + [200] * 7  # 0.2 CPU for five seconds: its own use, 0.1 CPU, says nothing for ten
    assert one.memory.grace.starting == ()


def test_of_what_the_group_did_not_take_nothing_is_counted() -> None:
    one = Node()
    one.tick(batch("old"))
    assert [one.quota_m(batch("old", 150), batch("new", 20)) for _ in range(10)][:9] == [400] * 9


def test_while_the_guard_cuts_for_a_service_only_one_pod_at_a_time_gets_it() -> None:
    one = Node()
    one.tick(batch("old", 190))
    calm = one.quota_m(batch("old", 190), batch("a", tenant="a"), batch("b", tenant="b"))
    slow = in_use("slow", 10, objective_p99_us=50_000, health=health(90_000, over=500))
    pods = [slow, batch("old", 190), batch("a", tenant="a"), batch("b", tenant="b"), batch("c", tenant="c")]
    one.tick(*pods)
    (wanted,) = [knob for knob in one.memory.wanted if knob.target == QUOTA]
    cut_m = parse_cpu_max(wanted.value).cpu_m or 0
    assert (calm, one.memory.guard.objectives.mode) == (600, GuardMode.CUT)
    assert parse_cpu_max(one.knobs[QUOTA]).cpu_m == cut_m + 200


@pytest.mark.parametrize(("web_m", "quota_m"), [(1100, 400), (400, 1000), (0, 1300)])
def test_an_ample_quota_is_not_raised(web_m: int, quota_m: int) -> None:
    one = Node(web_m=web_m)
    one.tick(batch("old"))
    assert one.quota_m(batch("old"), batch("new")) == quota_m


def test_a_pod_outside_a_common_group_has_its_own_quota_raised() -> None:
    one = Node(common=False)
    one.tick(batch("old"))
    verdict = one.tick(batch("old"), batch("new"))
    quotas = {
        knob.target.group: parse_cpu_max(knob.value).cpu_m or 0
        for knob in verdict.knobs
        if knob.target.knob is Knob.CPU_MAX
    }
    terms = next(knob.reason.terms for knob in verdict.knobs if knob.target.knob is Knob.CPU_MAX)
    assert sum(quotas.values()) == sum(term.value for term in terms) == 400
    assert quotas[f"{GROUP}/new"] >= 200


def test_steps_and_dead_bands_are_those_of_the_budget_without_the_grace() -> None:
    """Also on a large node, where the grace is less than the dead band."""
    one, other = Node(), Node(WITHOUT)
    for second in range(60):
        pods = [batch("old"), *(batch(f"new-{second // 12}") for _ in range(1))]
        for entry in (one, other):
            entry.web_m = 1100 - 20 * (second % 7)
            entry.tick(*pods)
        quotas = [[knob for knob in entry.memory.wanted if knob.target == QUOTA] for entry in (one, other)]
        assert quotas[0] == quotas[1]


def test_a_tenant_that_starts_a_pod_each_second_cannot_live_on_it_and_starves_nobody() -> None:
    one = Node()
    one.tick(batch("old"))
    given_ms = 0
    for second in range(600):
        pods = [batch("old"), *(batch(f"h{n}", 0, "hostile") for n in range(max(0, second - 20), second + 1))]
        given_ms += one.quota_m(*pods) - 200
    assert given_ms <= 2000 + 10 * 1000 + 400  # its burst, its rate, one interval
    assert "without a grace" in " ".join(reason.text for reason in one.tick(*pods).reasons)
    assert one.quota_m(*pods, batch("other", 0, "kind")) == 400


def test_what_is_owed_is_forgotten_and_nothing_is_kept_for_pods_that_are_gone() -> None:
    one = Node()
    one.tick(batch("old"))
    for second in range(30):
        one.tick(batch("old"), batch(f"n{second}", tenant=f"t{second}"))
    assert one.memory.grace.owed
    one.tick(batch("old"), passes_s=3600)
    grace = one.memory.grace
    assert (grace.owed, grace.raised, grace.starting) == ((), (), ())
    assert len(grace.known) == 2


def test_settings_that_make_no_sense_are_refused() -> None:
    for wrong in ({"each_m": 0}, {"max_pods": 0}, {"burst_us": -1}, {"longest_us": 0}):
        with pytest.raises(InvalidInput):
            StartupGraceConfig(**wrong)
