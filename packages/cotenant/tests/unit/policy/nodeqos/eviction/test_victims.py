"""Who leaves: opted in or not, in which order, counted once."""

from __future__ import annotations

import pytest
from tests.fakes.node.node_pods import pod

from cotenant.model.cluster.labels import SUB_PRIORITY
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.policy.nodeqos.eviction.goals import Currency, EvictionGoal, EvictionTrigger
from cotenant.policy.nodeqos.eviction.victims import (
    EVICTION_ENABLED,
    EVICTION_POLICY,
    EVICTION_PRIORITY,
    EvictionCandidate,
    candidate,
    choose,
    requested_by_pool,
    shortfalls,
)

IN = {EVICTION_ENABLED: "true"}


def goal(trigger: EvictionTrigger, amount: int, currency: Currency = Currency.USED, up_to: int = 7999) -> EvictionGoal:
    return EvictionGoal(trigger, ((currency, amount),), Reason("test", "test"), up_to)


def seen(one: NodePod, used: int | None = 10) -> EvictionCandidate:
    made = candidate(one, one.cpu_request_m, used)
    assert made is not None
    return made


def left(goals: list[EvictionGoal], pods: list[EvictionCandidate], **how: bool) -> list[str]:
    return [one.key.removeprefix("test/") for one, _ in choose(goals, pods, **how).victims]


def test_services_leave_only_if_they_opted_in_and_are_not_above_the_threshold() -> None:
    pods = [
        seen(pod("kept", QoSClass.LS, priority=5000)),
        seen(pod("high", QoSClass.LS, priority=6001, labels=IN)),
        seen(pod("prod", QoSClass.LS, labels=IN)),  # no priority is known: that of its class, production
        seen(pod("told", QoSClass.LS, priority=5000, labels=IN)),
        seen(pod("plain-be", QoSClass.BE, priority=5000)),
    ]
    assert left([goal(EvictionTrigger.MEMORY_USED, 10**9, up_to=6000)], pods) == ["told"]


def test_best_effort_leaves_without_being_asked_where_only_it_leaves() -> None:
    pods = [
        seen(pod("b", priority=5500)),
        seen(pod("a", priority=5000), 1),
        seen(pod("ls", QoSClass.LS, priority=1, labels=IN)),
    ]
    assert left([goal(EvictionTrigger.MEMORY_BEST_EFFORT, 10**9)], pods) == ["a", "b"]


def test_a_pod_may_say_which_triggers_take_it_and_one_that_cannot_be_read_takes_none() -> None:
    only = pod("only", annotations={EVICTION_POLICY: '["BECPUEvict"]'})
    broken = pod("broken", annotations={EVICTION_POLICY: "BECPUEvict"})
    surrogate = pod("surrogate", annotations={EVICTION_POLICY: "\ud800"})
    pods = [seen(only), seen(broken), seen(surrogate)]
    assert left([goal(EvictionTrigger.MEMORY_BEST_EFFORT, 10**9)], pods) == []
    assert left([goal(EvictionTrigger.CPU_SATISFACTION, 10**9)], pods) == ["only"]


def test_the_general_order_is_eviction_priority_then_priority_then_sub_priority_then_use() -> None:
    pods = [
        seen(pod("small", priority=5000, labels=IN), 1),
        seen(pod("large", priority=5000, labels=IN), 9),
        seen(pod("below", priority=4000, labels=IN)),
        seen(pod("labelled", priority=5000, labels=IN | {SUB_PRIORITY: "10"})),
        seen(pod("first", priority=7000, labels=IN, annotations={EVICTION_PRIORITY: "-1"})),
        seen(pod("last", priority=1, labels=IN, annotations={EVICTION_PRIORITY: "1"})),
        seen(pod("odd", priority=5001, labels=IN, annotations={EVICTION_PRIORITY: "²"})),
    ]
    # without a label the priority itself is the sub-priority: 5000, above 10
    order = ["first", "below", "labelled", "large", "small", "odd", "last"]
    assert left([goal(EvictionTrigger.CPU_USED, 10**9)], pods) == order


def test_satisfaction_evicts_the_highest_use_of_request_first() -> None:
    pods = [seen(pod("idle", cpu_m=1000), 100), seen(pod("busy", cpu_m=100), 90), seen(pod("asks-nothing"), 5000)]
    assert left([goal(EvictionTrigger.CPU_SATISFACTION, 10**9, Currency.REQUESTED_BATCH)], pods) == ["busy", "idle"]


def test_a_victim_counts_for_every_goal_and_is_taken_once() -> None:
    pods = [seen(pod("a", cpu_m=50, labels=IN), 30), seen(pod("b", cpu_m=5, labels=IN), 30)]
    goals = [goal(EvictionTrigger.CPU_SATISFACTION, 50, Currency.REQUESTED_BATCH), goal(EvictionTrigger.CPU_USED, 30)]
    assert left(goals, pods) == ["b", "a"]  # by use of request; b's request alone is not enough, a's use counts too
    assert left(goals[1:], pods) == ["a"]


def test_terminating_pods_count_until_they_are_overdue() -> None:
    going, staying = pod("going", phase=NodePodPhase.TERMINATING), pod("staying")
    pods = [seen(going), seen(staying)]
    assert left([goal(EvictionTrigger.MEMORY_BEST_EFFORT, 10)], pods) == []
    overdue = choose([goal(EvictionTrigger.MEMORY_BEST_EFFORT, 10)], pods, overdue=frozenset({going.uid}))
    assert [one.uid for one, _ in overdue.victims] == [staying.uid]


def test_pods_that_free_nothing_are_skipped_unless_the_order_is_strict() -> None:
    mid = pod("mid", QoSClass.LS, priority=7000, priority_class=PriorityClass.MID, cpu_m=10, labels=IN)
    pods = [seen(pod("other", priority=5000, cpu_m=10, labels=IN)), seen(mid)]
    wanted = [goal(EvictionTrigger.CPU_ALLOCATABLE, 10, Currency.REQUESTED_MID)]
    assert left(wanted, pods) == ["mid"]
    assert left(wanted, pods, strict_order=True) == ["other", "mid"]


def test_a_remaining_shortfall_is_reported() -> None:
    choice = choose([goal(EvictionTrigger.MEMORY_BEST_EFFORT, 25)], [seen(pod("a")), seen(pod("unknown"), None)])
    assert choice.short == ((EvictionTrigger.MEMORY_BEST_EFFORT, Currency.USED, 15),)
    assert [one.key for one, _ in choice.victims] == ["test/a"]


@pytest.mark.parametrize("one", [pod("over", phase=NodePodPhase.OVER), pod("beside", host_application=True)])
def test_what_has_ended_or_is_no_pod_cannot_leave(one: NodePod) -> None:
    assert candidate(one, 1, 1) is None


def test_requests_are_summed_by_pool_up_to_a_priority() -> None:
    pods = [
        seen(pod("a", cpu_m=1)),
        seen(pod("b", priority_class=PriorityClass.FREE, cpu_m=2)),
        seen(pod("c", QoSClass.LS, priority_class=PriorityClass.MID, cpu_m=4)),
        seen(pod("d", QoSClass.LS, priority_class=PriorityClass.PROD, cpu_m=8)),
    ]
    assert requested_by_pool(pods, 7999) == ((Currency.REQUESTED_BATCH, 3), (Currency.REQUESTED_MID, 4))
    assert requested_by_pool(pods, 5999) == ((Currency.REQUESTED_BATCH, 3),)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (None, 0),
        ("", 0),
        ("7", 7),
        ("-1", -1),
        ("-120", -120),
        ("+5", 0),
        ("--5", 0),
        ("-", 0),
        ("1.5", 0),
        (" 5", 0),
        ("999999999999", 999_999_999_999),
        ("1000000000000", 0),
    ],
)
def test_an_eviction_priority_is_a_whole_number_and_anything_else_is_none(text: str | None, read: int) -> None:
    assert seen(pod("p", annotations={} if text is None else {EVICTION_PRIORITY: text})).eviction_priority == read


def test_requests_of_a_pool_are_those_up_to_the_priority_and_no_others() -> None:
    pods = [
        seen(pod("one", priority=5000, cpu_m=1)),
        seen(pod("at", priority=5500, cpu_m=20)),
        seen(pod("above", priority=5501, cpu_m=300)),
        seen(pod("nothing", QoSClass.LS, priority=4000)),
        seen(pod("mid", QoSClass.LS, priority=4000, priority_class=PriorityClass.MID, cpu_m=4000)),
    ]
    assert dict(requested_by_pool(pods, 5500)) == {Currency.REQUESTED_BATCH: 21, Currency.REQUESTED_MID: 4000}


def test_of_equal_priority_the_largest_request_goes_first_where_requests_are_short() -> None:
    pods = [seen(pod(name, priority=5000, cpu_m=size, labels=IN), 100 - size) for name, size in (("s", 1), ("l", 9))]
    assert left([goal(EvictionTrigger.CPU_ALLOCATABLE, 10, Currency.REQUESTED_BATCH)], pods) == ["l", "s"]
    assert left([goal(EvictionTrigger.CPU_USED, 10**9)], pods) == ["s", "l"]


def test_what_remains_short_is_told_in_its_own_unit() -> None:
    chosen = choose([goal(EvictionTrigger.MEMORY_USED, 3 << 30)], [])
    (memory,) = shortfalls(chosen, "bytes")
    assert memory.text == "3.2 GB (used) remains short: no other pod is eligible"
    assert [(term.name, term.value, term.unit) for term in memory.terms] == [("short", 3 << 30, "bytes")]
    assert memory.rule == f"evict:{EvictionTrigger.MEMORY_USED}"
    (cpu,) = shortfalls(choose([goal(EvictionTrigger.CPU_USED, 1500)], []), "mCPU")
    assert cpu.text == "1.5 CPU (used) remains short: no other pod is eligible"
    assert shortfalls(choose([], []), "bytes") == ()


@pytest.mark.parametrize("pool", [one for one in Currency if one is not Currency.USED])
def test_what_is_freed_is_told_in_the_same_order_in_each_run(pool: Currency) -> None:
    one = EvictionCandidate("a", "test/a", True, True, 100, 0, 0, None, False, pool, 5, 7)
    choice = choose([goal(EvictionTrigger.MEMORY_BEST_EFFORT, 10)], [one])
    assert [currency for currency, _ in choice.freed] == [Currency.USED, pool]
