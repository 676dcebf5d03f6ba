"""A shadow beside a scheduler that binds: what it judges, what it compares, and that it holds nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.shadow.budget import RESERVE_S
from cotenant.engine.shadow.following import NodeSignals
from cotenant.engine.shadow.parking import Parking
from cotenant.engine.shadow.scheduler import AGAIN_S, ShadowScheduler
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Taint
from cotenant.model.decisions.shadow import NodeSignal, ShadowOutcome, ShadowPicture, Worse
from cotenant.model.groups.gang import GangNotes
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

REAL = "default-scheduler"


def size(cpu: int) -> Amounts:
    return Amounts.of({"cpu": cpu, "memory": cpu << 20})


def node(name: str, cpu: int = 4000, *taints: Taint) -> Node:
    return Node(name, size(cpu), Labels.of({HOSTNAME: name}), taints)


def pod(name: str, cpu: int = 1000, *, on: str = "", priority: int = 0, **more: object) -> ObservedPod:
    value = Pod(name, requests=size(cpu), priority=priority)
    return ObservedPod(value, f"uid-{name}", REAL, 0.0, node=on, **more)  # type: ignore[arg-type]


class World:
    """A shadow, and the scheduler that it watches, played by the test. Judging costs `cost_s` of CPU time each."""

    def __init__(self, *nodes: Node, cost_s: float = 0.0, share: float = 0.5, max_pending: int = 1000) -> None:
        parking, signals = Parking(), NodeSignals()
        self.parking, self._cost_s, self._cpu_s = parking, cost_s, 0.0
        self.cluster = Cluster(
            profile("least-allocated"),
            np.random.default_rng(1),
            EngineSettings(schedulers=(REAL,), max_pods=1),
            PluginRegistry(more=(parking, signals)),
        )
        for entry in nodes:
            self.cluster.node_seen(entry)
        self.shadow = ShadowScheduler(
            self.cluster, parking, signals, self._cpu, 0.0, share=share, max_pending=max_pending
        )
        self.shadow.listed()
        self.now_s = 0.0

    def _cpu(self) -> float:
        self._cpu_s += self._cost_s
        return self._cpu_s

    def see(self, *pods: ObservedPod) -> None:
        for seen in pods:
            self.shadow.pod_seen(seen, self.now_s)

    def bind(self, seen: ObservedPod, to: str) -> None:
        self.see(replace(seen, node=to))

    def judge(self, rounds: int = 1000) -> None:
        for _ in range(rounds):
            if self.shadow.next_s(self.now_s) > self.now_s:
                break
            self.shadow.work(self.now_s)
        self.check()

    def check(self) -> None:
        """Nothing is assigned but what the other scheduler has bound, and nobody is nominated or told to go."""
        self.cluster.validate()
        assert all(entry.state is SchedulingState.BOUND for entry in self.cluster.every_pod() if entry.node)
        assert not self.cluster.reserved()

    def outcomes(self) -> dict[ShadowOutcome, int]:
        found: dict[ShadowOutcome, int] = {}
        for (outcome, _), pods in self.shadow.outcomes.items():
            found[outcome] = found.get(outcome, 0) + pods
        return found


def test_a_choice_holds_nothing_and_the_next_pod_is_judged_without_it() -> None:
    world = World(node("a", 1500), node("b", 1000))
    world.see(pod("x"), pod("y"))
    world.judge()
    assert world.shadow.pending()["places"] == 2  # both on node a: neither has taken its room
    assert not world.cluster.assigned()
    assert world.shadow.judged == 2


def test_a_bind_is_compared_with_every_earlier_bind_in_the_picture() -> None:
    world = World(node("a", 4100), node("b"))
    x, y = pod("x"), pod("y")
    world.see(x, y)
    world.judge()
    world.bind(x, "a")
    world.bind(y, "b")  # with x on a, b has more left: a was the choice for both when they appeared
    world.check()
    assert world.shadow.outcomes == {(ShadowOutcome.AGREED, ShadowPicture.AT_BIND): 2}
    assert world.cluster.assigned() == {"uid-x": "a", "uid-y": "b"}


def test_equal_scores_are_agreement() -> None:
    world = World(node("a"), node("b"))
    x = pod("x")
    world.see(x)
    world.bind(x, "b")
    assert world.outcomes() == {ShadowOutcome.EQUAL_SCORE: 1}


def test_another_node_with_a_lower_score_has_the_term_that_decides() -> None:
    world = World(node("a"), node("b"))
    first, x = pod("first", 2000), pod("x")
    world.see(first)
    world.bind(first, "a")
    world.see(x)
    world.judge()
    world.bind(x, "a")
    report = world.shadow.report(1.0)
    (difference,) = report.differences
    assert (difference.outcome, difference.real, difference.ours) == (ShadowOutcome.OTHER_NODE, "a", "b")
    assert (difference.place, difference.of) == (2, 2)
    assert difference.behind > 0
    assert difference.words.startswith("b is ahead of a by ")
    assert difference.reason in difference.words
    assert (report.compared, report.agreed) == (2, 1)


def test_a_node_that_our_filters_refuse_is_named_with_the_filter() -> None:
    world = World(node("a", 4000, Taint("team", "x")), node("b"))
    x = pod("x")
    world.see(x)
    world.bind(x, "a")
    (difference,) = world.shadow.report(1.0).differences
    assert difference.reason == "TaintToleration"
    assert difference.words.startswith("a is refused: node(s) had untolerated taint")
    assert difference.place == 0


def test_a_pod_that_would_wait_here_says_for_what() -> None:
    world = World(node("a", 4000), node("b", 1000))
    x = pod("x", 3000)
    resident = pod("resident", 2000, on="a")
    world.see(resident, x)
    world.judge()
    assert world.shadow.pending()["waits"] == 1
    world.bind(x, "a")  # over what it has
    (difference,) = world.shadow.report(1.0).differences
    assert difference.outcome is ShadowOutcome.WOULD_WAIT
    assert difference.reason == "NodeResourcesFit"
    assert "Insufficient cpu (1 cpu)" in difference.words
    world.check()


def test_victims_of_a_preemption_stay() -> None:
    world = World(node("a", 2000))
    low = pod("low", 2000, on="a")
    high = pod("high", 2000, priority=10)
    world.see(low, high)
    world.judge()
    assert world.shadow.pending()["preempts"] == 1
    assert world.cluster.assigned() == {"uid-low": "a"}
    world.shadow.pod_gone("uid-low", 1.0)
    world.bind(high, "a")  # the other scheduler has preempted it: now the node is free
    assert world.outcomes() == {
        ShadowOutcome.AGREED: 1,
        ShadowOutcome.BEFORE_JUDGED: 1,
    }  # low was on its node at first sight


def nominations(world: World) -> dict[str, int]:
    return {counted.what: counted.pods for counted in world.shadow.report(0.0).nominations if counted.pods}


def test_a_nomination_is_compared_with_the_choice_before_it_once_a_node() -> None:
    world = World(node("a", 2000), node("b", 1000))
    low, other = pod("low", 2000, on="a"), pod("other", 1000, on="b")
    high = pod("high", 2000, priority=10)
    world.see(low, other, high)
    world.judge()
    nominated = replace(high, nominated_node="a")
    world.see(nominated, nominated)
    assert nominations(world) == {"same_node": 1}
    world.see(replace(high, nominated_node="b"))  # theirs changed its mind
    assert nominations(world) == {"same_node": 1, "other_node": 1}
    world.judge()


def test_nominations_of_pods_that_we_would_place_or_let_wait_or_have_not_judged() -> None:
    world = World(node("a", 2000))
    small, huge = pod("small", 1000), pod("huge", 9000)
    world.see(small, huge)
    world.judge()
    world.see(replace(small, nominated_node="a"), replace(huge, nominated_node="a"))
    world.see(pod("late", 1000, nominated_node="a"))
    assert nominations(world) == {"would_place": 1, "would_wait": 1, "not_judged": 1}


def test_a_pod_that_appears_while_there_is_no_cpu_time_is_compared_at_its_bind_or_counts_apart() -> None:
    world = World(node("a"), cost_s=4.0)
    first, second = pod("first"), pod("second")
    world.see(first, second)
    world.judge()
    assert world.shadow.judged == 1  # it took the whole reserve, and more
    world.bind(first, "a")  # the choice of before is what there is
    world.bind(second, "a")
    assert world.shadow.outcomes == {
        (ShadowOutcome.AGREED, ShadowPicture.EARLIER): 1,
        (ShadowOutcome.BEFORE_JUDGED, ShadowPicture.NONE): 1,
    }
    assert world.shadow.put_off == 2
    next_s = world.shadow.budget.has_again_s(0.0)
    assert next_s == pytest.approx((4.0 - RESERVE_S) / 0.5, abs=0.1)


def test_next_s_waits_for_cpu_time_and_does_not_spin() -> None:
    world = World(node("a"), cost_s=4.0)
    world.see(pod("first"), pod("second"))
    world.judge()
    world.now_s = world.shadow.next_s(0.0)
    assert world.now_s > 1.0
    world.judge()
    assert world.shadow.judged == 2


def test_a_pod_first_seen_on_a_node_counts_apart() -> None:
    world = World(node("a"))
    world.see(pod("x", on="a"), replace(pod("other", on="a"), scheduler="another"))
    assert world.outcomes() == {ShadowOutcome.BEFORE_JUDGED: 1}


def test_what_was_there_at_the_start_is_not_compared() -> None:
    world = World(node("a"))
    world.shadow._has_listed = False
    world.see(pod("x", on="a"))
    assert world.outcomes() == {}


def test_pods_deleted_before_a_bind_are_counted_and_forgotten() -> None:
    world = World(node("a"))
    x, y = pod("x"), pod("y", 9000)
    world.see(x, y)
    world.judge()
    world.shadow.pod_gone("uid-x", 1.0)
    world.see(replace(y, ends_s=5.0))  # terminating
    world.shadow.pod_gone("uid-y", 2.0)
    assert world.outcomes() == {ShadowOutcome.DELETED: 2}
    assert sum(world.shadow.pending().values()) == 0
    assert world.parking.longest() is None


def test_ten_thousand_pending_pods_are_judged_and_remembered_within_bounds() -> None:
    world = World(node("a", 64_000), max_pending=300)
    world.see(*(pod(f"x{i}", 100 + i) for i in range(400)))
    world.judge(rounds=2000)
    assert sum(world.shadow.pending().values()) == 300
    assert world.shadow.forgotten == 100
    assert world.shadow.judged == 300


def test_a_choice_for_a_pod_that_nobody_binds_is_made_anew() -> None:
    world = World(node("a"))
    world.see(pod("x"))
    world.judge()
    world.now_s = AGAIN_S + 1.0
    world.judge()
    assert world.shadow.judged == 2
    assert world.shadow.pending()["places"] == 1


def test_a_refused_pod_is_judged_again_when_a_node_comes() -> None:
    world = World(node("a", 500))
    world.see(pod("x"))
    world.judge()
    assert world.shadow.pending()["waits"] == 1
    world.now_s = 20.0
    world.cluster.node_seen(node("b"))
    world.judge()
    assert world.shadow.pending()["places"] == 1


def test_a_gang_is_judged_as_a_whole_and_compared_with_that() -> None:
    world = World(node("a", 2000), node("b", 2000))
    members = [
        replace(pod(f"m{i}", 2000), demands=Demands(gang=GangNotes(name="gang", min_available=2))) for i in range(2)
    ]
    world.see(*members)
    world.now_s = 30.0
    world.judge()
    assert world.shadow.pending()["places"] == 2
    world.bind(members[0], "a")
    world.bind(members[1], "b")
    assert sum(world.outcomes().get(outcome, 0) for outcome in (ShadowOutcome.AGREED, ShadowOutcome.OTHER_NODE)) == 2
    world.check()


def test_a_gated_pod_is_not_judged() -> None:
    world = World(node("a"))
    x = pod("x", gates=("hold",))
    world.see(x)
    world.judge()
    assert world.shadow.pending()["unseen"] == 1
    world.see(replace(x, gates=()))
    world.judge()
    assert world.shadow.pending()["places"] == 1


def followed(world: World) -> dict[NodeSignal, Worse]:
    world.now_s = world.shadow.following.window_s + 1.0
    world.shadow.work(world.now_s)
    (came,) = world.shadow.report(world.now_s).came
    return dict(came.signals)


def differing() -> World:
    world = World(node("a"), node("b"))
    first, x = pod("first", 2000), pod("x")
    world.see(first)
    world.bind(first, "a")
    world.see(x)
    world.bind(x, "a")  # ours: b
    return world


def test_what_came_of_both_nodes_is_counted() -> None:
    world = differing()
    pressed = node("a", 4000, Taint("node.kubernetes.io/memory-pressure"))
    world.cluster.node_seen(pressed)
    world.cluster.node_seen(node("a"))  # over again before the window ends
    world.see(replace(pod("first", 2000, on="a"), phase=PodPhase.FAILED, evicted=True))
    found = followed(world)
    assert found[NodeSignal.PRESSURE] is Worse.REAL
    assert found[NodeSignal.EVICTIONS] is Worse.REAL
    assert found[NodeSignal.NOT_READY] is Worse.NEITHER
    assert found[NodeSignal.LATENCY_P99] is Worse.UNKNOWN


def test_reports_of_both_nodes_are_compared_while_they_are_fresh() -> None:
    world = differing()
    at_s = world.shadow.following.window_s - 10.0
    world.cluster.report("a", (0.3, 0.1, 5.0, 0.0, 0.0, 1.0, at_s))
    world.cluster.report("b", (0.9, 0.1, 5.2, 0.0, 0.0, 1.0, at_s))
    found = followed(world)
    assert found[NodeSignal.CPU_USED] is Worse.OURS
    assert found[NodeSignal.LATENCY_P99] is Worse.ALIKE
    assert found[NodeSignal.VIOLATIONS] is Worse.NEITHER


def test_a_node_that_is_gone_says_nothing() -> None:
    world = differing()
    world.cluster.node_gone("b", 1.0)
    assert followed(world)[NodeSignal.PRESSURE] is Worse.UNKNOWN
