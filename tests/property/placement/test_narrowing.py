"""Narrowed rows equal those of the rules checked pair by pair; preferences have their values; and nothing remains
after removal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.cluster import plain_rules, rule_worlds
from tests.fakes.cluster.plain_rules import Cluster, Resident
from tests.property.few import examples, first_cases

from cotenant.engine.cycle.runs import place_in_runs
from cotenant.engine.encoding import label_rows
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state import pod_counts, pod_kind, term_rules, topology
from cotenant.engine.state.narrowing import Narrowing
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster import labels as label_values
from cotenant.model.cluster.affinity import (
    PodTerm,
    SpreadConstraint,
    WhenUnsatisfiable,
)
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import NamespaceFacts, VolumeNeed
from cotenant.model.cluster.pod import HostPort, Pod
from cotenant.model.errors import Permanent
from cotenant.model.resources import Amounts

SIZE = Amounts.of({"cpu": 1000, "memory": 1000})
MANY = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


class World:
    """Nodes, pods and assignments, beside the narrowing under test."""

    def __init__(self, nodes: list[Node]) -> None:
        self.encoder = Encoder(half_node_cores=1.0)
        self.nodes = nodes
        for node in self.nodes:
            self.encoder.add_node(node)
        self.narrowing = Narrowing(self.encoder)
        self.pods: dict[int, Pod] = {}
        self.needs: dict[int, tuple[VolumeNeed, ...]] = {}
        self.assigned: dict[int, int] = {}
        self.held: dict[int, dict[str, str]] = {}
        self.terminating: set[int] = set()
        self.namespaces: dict[str, Labels] = {}
        self.added = 0

    def add(self, pod: Pod, needs: tuple[VolumeNeed, ...] = ()) -> int:
        self.added += 1
        named = replace(pod, name=f"p{self.added}")
        number, shape = self.encoder.add_pod(named)
        self.narrowing.add_pod(number, named, shape, needs)
        self.pods[number] = named
        self.needs[number] = needs
        return number

    def assign(self, number: int, row: int) -> None:
        self.held[number] = dict(self.narrowing.choices(number, row))
        self.assigned[number] = row
        self.narrowing.assign(number, row)

    def unassign(self, number: int) -> None:
        del self.assigned[number]
        self.narrowing.unassign(number)

    def remove(self, number: int) -> None:
        self.assigned.pop(number, None)
        self.terminating.discard(number)
        self.narrowing.remove_pod(number)
        self.encoder.remove_pod(self.pods.pop(number).key)
        self.encoder.release_pod(number)

    def label(self, namespace: str, labels: Labels) -> None:
        self.namespaces[namespace] = labels
        self.narrowing.set_namespace(NamespaceFacts(namespace, labels))

    def plain(self) -> Cluster:
        residents = [
            Resident(self.pods[n], self.nodes[row], n in self.terminating, self.needs[n], self.held[n])
            for n, row in self.assigned.items()
        ]
        return Cluster(self.nodes, residents, self.namespaces)

    def expected(self, number: int) -> list[bool]:
        cluster = self.plain()
        return [plain_rules.may(cluster, self.pods[number], node, self.needs[number]) for node in self.nodes]

    def check(self, number: int) -> Mask:
        allowed = self.narrowing.allowed(number)
        found = allowed if len(allowed) else np.ones(len(self.nodes), dtype=np.bool_)
        assert found.tolist() == self.expected(number)
        return found

    def check_preferences(self, number: int, feasible: Int) -> None:
        expected = plain_rules.wishes(self.plain(), self.pods[number], [self.nodes[row] for row in feasible])
        found = self.narrowing.preference_score(number, feasible)
        # a part equal on all rows decides nothing and is left out
        assert np.allclose(found - found.max(initial=0.0), np.array(expected) - max(expected, default=0.0))
        if not self.narrowing.has_preferences(number):
            assert len(set(expected)) <= 1


def _usual_pod(rng: np.random.Generator) -> Pod:
    return rule_worlds.a_pod(rng, "p", float(rng.choice([0.1, 0.3])))


def run(
    rng: np.random.Generator, steps: int, check: bool, a_pod: Callable[[np.random.Generator], Pod] = _usual_pod
) -> World:
    """Pods with rules are added, assigned, terminated, unassigned and removed; namespaces change their labels;
    rounds end.
    """
    world = World([rule_worlds.a_node(rng, i) for i in range(int(rng.integers(1, 7)))])
    for _ in range(steps):
        assigned = sorted(world.assigned)
        what = rng.choice(["pod", "pod", "pod", "pod", "unassign", "terminate", "remove", "label"])
        if what == "pod":
            needs = rule_worlds.claims(rng) if rng.random() < 0.3 else ()
            number = world.add(a_pod(rng), needs)
            if check:
                world.check_preferences(number, np.flatnonzero(world.check(number)))
            rows = [row for row, yes in enumerate(world.expected(number)) if yes]
            if rows:
                world.assign(number, rule_worlds.pick(rng, rows))
        elif what == "label":
            world.label(rule_worlds.pick(rng, ["ns0", "ns1"]), rule_worlds.pick(rng, rule_worlds.TEAMS))
        elif assigned:
            number = rule_worlds.pick(rng, assigned)
            if what == "terminate":
                world.terminating.add(number)
                world.narrowing.set_terminating(number)
            elif what == "unassign":
                world.unassign(number)
            else:
                world.remove(number)
        if rng.random() < 0.3:
            world.narrowing.terms.release_large()
    return world


_WIDER_SELECTORS = (
    *rule_worlds.SELECTORS,
    LabelSelector((Requirement("app", SelectorOperator.IN, ("x", "y")),)),
    LabelSelector((Requirement("app", SelectorOperator.EXISTS),)),
    LabelSelector((Requirement("app", SelectorOperator.EXISTS), Requirement("app", SelectorOperator.IN, ("z", "y")))),
    LabelSelector((Requirement("other", SelectorOperator.DOES_NOT_EXIST),)),
)


def _large_pod(rng: np.random.Generator) -> Pod:
    """Sometimes an ordinary pod, sometimes one with many terms, constraints and ports, of which some are equal."""
    pod = _usual_pod(rng)
    if rng.random() < 0.4:
        return pod

    def terms(most: int, *weights: int | None) -> tuple[PodTerm, ...]:
        return tuple(
            PodTerm(
                rule_worlds.pick(rng, [HOSTNAME, ZONE, ZONE, "disk", "nowhere"]),
                rule_worlds.pick(rng, _WIDER_SELECTORS),
                rule_worlds.pick(rng, [(), (), ("ns0",), ("ns1", "ns0", "ns0"), ("ns9",)]),
                rule_worlds.pick(rng, weights),
                rule_worlds.pick(rng, [None, None, None, LabelSelector(), LabelSelector.of({"team": "red"})]),
            )
            for _ in range(int(rng.integers(0, most)))
        )

    narrow = rng.random() < 0.3  # a few required terms already forbid every node
    return replace(
        pod,
        labels=Labels.of(
            {"app": rule_worlds.pick(rng, ["x", "y", "z"])} | ({"other": "o"} if rng.random() < 0.3 else {})
        ),
        affinity=terms(3 if narrow else 1, None) + terms(12, 1, 7, 100),
        anti_affinity=terms(4 if narrow else 2, None) + terms(12, 1, 7, 100),
        spread=tuple(
            rule_worlds.a_constraint(rng, when)
            for _ in range(int(rng.integers(0, 8)))
            for when in (
                (WhenUnsatisfiable.SCHEDULE_ANYWAY,) * 3 + ((WhenUnsatisfiable.DO_NOT_SCHEDULE,) if narrow else ())
            )
        ),
        host_ports=tuple(
            HostPort(int(port), rule_worlds.pick(rng, ["TCP", "UDP"]), rule_worlds.pick(rng, ["", "10.0.0.1"]))
            for port in rng.integers(80, 84, int(rng.integers(0, 9)))
        ),
    )


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=examples(80))
def test_allowed_rows_and_preferences_are_those_of_the_rules(seed: int) -> None:
    world = run(np.random.default_rng(seed), 25, check=True)
    for number in world.pods:
        if number not in world.assigned:
            world.check_preferences(number, np.flatnonzero(world.check(number)))


@pytest.fixture
def everything_is_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is done apart for very many elements is done for a few."""
    for module, name, few in (
        (pod_kind, "FEW_TERMS", 6),
        (pod_counts, "_MANY_NAMESPACES", 1),
        (term_rules, "LARGE", 3),
        (topology, "_MANY_KEYS", 0),
        (label_rows, "_MANY_KEYS", 0),
        (label_rows, "_MAX_BOUNDS", 1),
        (label_values, "_FEW", 0),
    ):
        assert isinstance(getattr(module, name), int)
        monkeypatch.setattr(module, name, few)


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(80), suppress_health_check=MANY)
def test_the_same_for_pods_with_long_lists(everything_is_many: None, seed: int) -> None:
    world = run(np.random.default_rng(seed), 25, True, _large_pod)
    for number in world.pods:
        if number not in world.assigned:
            world.check_preferences(number, np.flatnonzero(world.check(number)))


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(50), suppress_health_check=MANY)
def test_removing_pods_with_long_lists_leaves_no_state(everything_is_many: None, seed: int) -> None:
    _remove_all(run(np.random.default_rng(seed), 15, False, _large_pod))


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=examples(50))
def test_removing_all_pods_leaves_no_state(seed: int) -> None:
    _remove_all(run(np.random.default_rng(seed), 15, check=False))


def _remove_all(world: World) -> None:
    for number in world.pods:
        world.narrowing.is_narrowed(number)  # rules are read when a pod is first evaluated
    for number in list(world.pods):
        world.remove(number)
    assert (world.narrowing.pod_counts.kinds, world.narrowing.pod_counts.counts) == (0, 0)
    newcomer = world.add(Pod("new", host_ports=(HostPort(80),)))
    assert world.check(newcomer).all()


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_a_queue_is_placed_one_by_one_where_rules_require_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = World([rule_worlds.a_node(rng, i) for i in range(5)])
    numbers = np.array([world.add(rule_worlds.a_pod(rng, "p")) for _ in range(12)])

    def lowest_row(positions: Int, allowed: Mask) -> Int:
        """Replaces the compiled placement: every pod goes to the lowest allowed row."""
        rows = np.flatnonzero(allowed) if len(allowed) else np.arange(len(world.nodes))
        for number in numbers[positions].tolist():
            may_go = [row for row, yes in enumerate(world.expected(number)) if yes]
            assert rows.tolist() == may_go
            if may_go:
                world.assigned[number], world.held[number] = may_go[0], {}
        return np.full(len(positions), rows[0] if len(rows) else -1, dtype=np.int64)

    placed = place_in_runs(world.narrowing, numbers, lowest_row)
    assert {int(n): int(r) for n, r in zip(numbers, placed) if r >= 0} == world.assigned


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=examples(100))
def test_assigning_and_undoing_many_equals_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = run(rng, 15, check=False)
    free = [number for number in world.pods if number not in world.assigned]
    before = {number: world.check(number).tolist() for number in free}
    some = free[: int(rng.integers(0, len(free) + 1))]
    rows = [int(row) for row in rng.integers(0, len(world.nodes), len(some))]
    held = [dict(world.narrowing.choices(number, row)) for number, row in zip(some, rows, strict=True)]
    if any(world.needs[number] for number in some):
        return  # two pods that want the same volume cannot both choose it in advance
    world.narrowing.place_all(some, rows)
    world.assigned |= dict(zip(some, rows, strict=True))
    world.held |= dict(zip(some, held, strict=True))
    for number in free:
        if number not in world.assigned:
            world.check(number)
            world.check_preferences(number, np.flatnonzero(world.check(number)))
    world.narrowing.unassign_all(some)
    for number in some:
        del world.assigned[number]
    assert {number: world.check(number).tolist() for number in free} == before


def test_domains_follow_added_and_removed_nodes() -> None:
    world = World([Node("n", SIZE, Labels.of({ZONE: "a"}))])
    constraint = SpreadConstraint(ZONE, LabelSelector.of({"app": "x"}))
    pod = Pod("p", spread=(constraint,), labels=Labels.of({"app": "x"}))
    first, second = (world.add(pod) for _ in range(2))
    world.narrowing.assign(first, 0)
    assert world.narrowing.allowed(second).tolist() == [True]
    world.encoder.add_node(Node("late", SIZE, Labels.of({ZONE: "b"})))
    assert world.narrowing.allowed(second).tolist() == [False, True]
    world.encoder.remove_node("late")
    assert world.narrowing.allowed(second)[0]


def test_a_pod_is_assigned_once_and_removed_completely() -> None:
    world = World([Node("n", SIZE, Labels.of({HOSTNAME: "n"}))])
    never = PodTerm(HOSTNAME, LabelSelector())
    first, second = world.add(Pod("p", anti_affinity=(never,))), world.add(Pod("q"))
    world.narrowing.assign(first, 0)
    with pytest.raises(Permanent, match="already assigned"):
        world.narrowing.assign(first, 0)
    with pytest.raises(Permanent, match="added already"):
        world.narrowing.add_pod(first, Pod("p"), 0)
    assert world.narrowing.allowed(second).tolist() == [False]
    assert [rule.reason for rule in world.narrowing.rules(second) if not rule.left.all()] == [
        "node(s) didn't satisfy existing pods anti-affinity rules"
    ]
    world.narrowing.remove_pod(first)
    assert len(world.narrowing.allowed(second)) == 0


test_first_cases = first_cases(
    test_allowed_rows_and_preferences_are_those_of_the_rules,
    test_removing_all_pods_leaves_no_state,
    test_a_queue_is_placed_one_by_one_where_rules_require_it,
    test_assigning_and_undoing_many_equals_one_by_one,
)
