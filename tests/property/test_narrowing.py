"""Narrowed rows are those that the rules, asked pair by pair, leave to the pod; and no placement breaks a rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.engine.encoding import Encoder
from cotenant.engine.narrowing import Narrowing
from cotenant.model.affinity import NodePolicy, PodTerm, SpreadConstraint, WhenUnsatisfiable
from cotenant.model.arrays import Int, Mask
from cotenant.model.errors import Permanent
from cotenant.model.labels import HOSTNAME, NO_LABELS, ZONE, Labels, LabelSelector, Operator, Requirement
from cotenant.model.node import Node
from cotenant.model.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.model.taints import Match, Taint, Toleration, first_repelling

SIZE = Amounts.of({"cpu": 1000, "memory": 1000})
KEYS = [HOSTNAME, ZONE]

selectors = st.one_of(
    st.none(),
    st.just(LabelSelector()),
    st.sampled_from(["x", "y"]).map(lambda app: LabelSelector.of({"app": app})),
    st.just(LabelSelector((Requirement("app", Operator.NOT_IN, ("x",)),))),
)
anti_terms = st.builds(
    PodTerm,
    st.sampled_from(KEYS),
    selectors,
    st.sampled_from([(), ("ns0",), ("ns0", "ns1")]),
    st.sampled_from([None, None, 5]),
)
constraints = st.builds(
    SpreadConstraint,
    st.sampled_from(KEYS),
    selectors,
    st.integers(1, 2),
    st.sampled_from(
        [WhenUnsatisfiable.DO_NOT_SCHEDULE, WhenUnsatisfiable.DO_NOT_SCHEDULE, WhenUnsatisfiable.SCHEDULE_ANYWAY]
    ),
    st.integers(1, 3),
    st.sampled_from(NodePolicy),
    st.sampled_from(NodePolicy),
)
pods = st.builds(
    Pod,
    name=st.just("p"),
    namespace=st.sampled_from(["ns0", "ns1"]),
    labels=st.sampled_from(["x", "y"]).map(lambda app: Labels.of({"app": app})),
    node_selector=st.sampled_from([NO_LABELS, NO_LABELS, Labels.of({"disk": "ssd"})]),
    tolerations=st.sampled_from([(), (Toleration("t", Match.EXISTS),)]),
    anti_affinity=st.lists(anti_terms, max_size=2).map(tuple),
    spread=st.lists(constraints, max_size=2).map(tuple),
)
nodes = st.builds(
    lambda zone, ssd, tainted: Node(
        "n",
        SIZE,
        Labels.of(({ZONE: zone} if zone else {}) | ({"disk": "ssd"} if ssd else {})),
        (Taint("t"),) if tainted else (),
    ),
    *(st.sampled_from(["", "a", "b", "c"]), st.booleans(), st.booleans()),
)


def in_domain_of(key: str, node: Node, other: Node) -> bool:
    return node.labels.get(key) is not None and node.labels.get(key) == other.labels.get(key)


def may(pod: Pod, node: Node, all_nodes: list[Node], seated: list[tuple[Pod, Node]]) -> bool:
    """The rules word by word, pair by pair."""
    for other, where in seated:
        for mine in pod.anti_affinity:
            if (
                mine.weight is None
                and in_domain_of(mine.topology_key, node, where)
                and mine.selects(pod.namespace, other.namespace, other.labels)
            ):
                return False
        for its in other.anti_affinity:
            if (
                its.weight is None
                and in_domain_of(its.topology_key, node, where)
                and its.selects(other.namespace, pod.namespace, pod.labels)
            ):
                return False
    hard = [constraint for constraint in pod.spread if constraint.forbids]
    for constraint in hard:
        key = constraint.topology_key
        if node.labels.get(key) is None:
            return False
        eligible = [
            n
            for n in all_nodes
            if all(n.labels.get(other.topology_key) is not None for other in hard)
            and (constraint.node_affinity_policy is NodePolicy.IGNORE or n.labels.contains(pod.node_selector))
            and (
                constraint.node_taints_policy is NodePolicy.IGNORE or first_repelling(n.taints, pod.tolerations) is None
            )
        ]
        count = {n.labels.get(key): 0 for n in eligible}
        for other, where in seated:
            if where in eligible and other.namespace == pod.namespace and constraint.selects(other.labels):
                count[where.labels.get(key)] += 1
        smallest = min(count.values()) if count and len(count) >= constraint.min_domains else 0
        here = count.get(node.labels.get(key), 0)
        if here + constraint.selects(pod.labels) - smallest > constraint.max_skew:
            return False
    return True


class World:
    """Nodes, pods and who sits where, beside the narrowing under test."""

    def __init__(self, drawn: list[Node]) -> None:
        self.encoder = Encoder(half_node_cores=1.0)
        self.nodes = [
            replace(node, name=f"n{i}", labels=Labels((*node.labels, (HOSTNAME, f"n{i}"))))
            for i, node in enumerate(drawn)
        ]
        for node in self.nodes:
            self.encoder.add_node(node)
        self.narrowing = Narrowing(self.encoder)
        self.pods: dict[int, Pod] = {}
        self.seats: dict[int, int] = {}

    def add(self, pod: Pod) -> int:
        named = replace(pod, name=f"p{len(self.pods)}")
        number, shape = self.encoder.add_pod(named)
        self.narrowing.watch(number, named, shape)
        self.pods[number] = named
        return number

    def expected(self, number: int) -> list[bool]:
        seated = [(self.pods[other], self.nodes[row]) for other, row in self.seats.items()]
        return [may(self.pods[number], node, self.nodes, seated) for node in self.nodes]

    def check(self, number: int) -> Mask:
        allowed = self.narrowing.allowed(number)
        found = allowed if len(allowed) else np.ones(len(self.nodes), dtype=np.bool_)
        assert found.tolist() == self.expected(number)
        assert sum(r.nodes for r in self.narrowing.rejections(number)) == int((~found).sum())
        return found


@pytest.mark.slow
@given(st.lists(nodes, min_size=1, max_size=5), st.lists(st.tuples(pods, st.integers(0, 9)), min_size=1, max_size=8))
@settings(deadline=None)
def test_allowed_rows_are_those_of_the_rules(drawn: list[Node], script: list[tuple[Pod, int]]) -> None:
    world = World(drawn)
    for pod, choice in script:
        number = world.add(pod)
        rows = np.flatnonzero(world.check(number))
        if choice == 9 and world.seats:  # somebody leaves instead
            left = next(iter(world.seats))
            del world.seats[left]
            world.narrowing.leave(left)
        elif len(rows):
            world.seats[number] = int(rows[choice % len(rows)])
            world.narrowing.seat(number, world.seats[number])
    for number in world.pods:
        if number not in world.seats:
            world.check(number)


@pytest.mark.slow
@given(st.lists(nodes, min_size=1, max_size=5), st.lists(pods, min_size=1, max_size=8))
@settings(deadline=None)
def test_a_queue_is_placed_one_by_one_where_rules_ask_for_it(drawn: list[Node], queue: list[Pod]) -> None:
    world = World(drawn)
    numbers = np.array([world.add(pod) for pod in queue])

    def lowest_row(positions: Int, allowed: Mask) -> Int:
        """Stands in for the compiled placement: every pod to the lowest allowed row."""
        rows = np.flatnonzero(allowed) if len(allowed) else np.arange(len(world.nodes))
        for number in numbers[positions].tolist():
            may_go = [row for row, yes in enumerate(world.expected(number)) if yes]
            assert rows.tolist() == may_go
            if may_go:
                world.seats[number] = may_go[0]
        return np.full(len(positions), rows[0] if len(rows) else -1, dtype=np.int64)

    placed = world.narrowing.place(numbers, lowest_row)
    assert {int(n): int(r) for n, r in zip(numbers, placed) if r >= 0} == world.seats


def test_a_new_node_opens_a_domain_and_a_lost_one_closes_it() -> None:
    world = World([Node("n", SIZE, Labels.of({ZONE: "a"}))])
    constraint = SpreadConstraint(ZONE, LabelSelector())
    first, second = (world.add(Pod("p", spread=(constraint,))) for _ in range(2))
    world.narrowing.seat(first, 0)
    assert world.narrowing.allowed(second).tolist() == [True]
    world.encoder.add_node(Node("late", SIZE, Labels.of({ZONE: "b"})))
    assert world.narrowing.allowed(second).tolist() == [False, True]
    world.encoder.remove_node("late")
    assert world.narrowing.allowed(second)[0]


def test_a_pod_sits_once_and_is_forgotten_whole() -> None:
    world = World([Node("n", SIZE)])
    never = PodTerm(HOSTNAME, LabelSelector())
    first, second = world.add(Pod("p", anti_affinity=(never,))), world.add(Pod("q"))
    world.narrowing.seat(first, 0)
    with pytest.raises(Permanent, match="already sits"):
        world.narrowing.seat(first, 0)
    assert world.narrowing.allowed(second).tolist() == [False]
    assert [r.reason for r in world.narrowing.rejections(second)] == [
        "node(s) didn't satisfy existing pods anti-affinity rules"
    ]
    world.narrowing.forget(first)
    assert len(world.narrowing.allowed(second)) == 0
