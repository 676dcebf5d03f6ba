"""The victims and the node equal those of kube-scheduler's procedure, done pod by pod with the rules spelled out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster import plain_rules, rule_worlds
from tests.fakes.cluster.plain_rules import Cluster, Resident
from tests.property.few import examples, first_cases

from cotenant.engine.cycle.eviction.preemption import DisruptionBudgets, preempt
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state.ledger import Ledger
from cotenant.engine.state.narrowing import Narrowing
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, VolumeNeed
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.preemption import NO_VICTIMS, NOT_HELPFUL, Preemption
from cotenant.policy.placement.profiles import profile


@dataclass
class Sitting:
    number: int
    pod: Pod
    row: int
    started_s: float
    needs: tuple[VolumeNeed, ...]
    stopping: bool
    promised: dict[str, str]


class World:
    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = list(nodes)
        self.encoder = Encoder(half_node_cores=1.0)
        for node in nodes:
            self.encoder.add_node(node)
        self.narrowing = Narrowing(self.encoder)
        self.ledger = Ledger(self.encoder.nodes(), self.encoder.shapes(), 0, 0)
        self.sitting: list[Sitting] = []
        self.added = 0

    def add(self, pod: Pod, needs: tuple[VolumeNeed, ...] = ()) -> tuple[int, Pod]:
        self.added += 1
        named = replace(pod, name=f"p{self.added}")
        number, shape = self.encoder.add_pod(named)
        self.ledger.adopt(self.encoder.nodes(), self.encoder.shapes(), self.encoder.tenant_rows)
        self.narrowing.add_pod(number, named, shape, needs)
        return number, named

    def assign(self, number: int, pod: Pod, row: int, started_s: float, needs: tuple[VolumeNeed, ...] = ()) -> None:
        promised = dict(self.narrowing.choices(number, row))
        self.ledger.place(np.array([number]), np.array([row]), np.array([self.encoder.shape_of(number)]))
        self.narrowing.assign(number, row)
        self.sitting.append(Sitting(number, pod, row, started_s, needs, False, promised))

    def stop(self, one: Sitting) -> None:
        one.stopping = True
        self.narrowing.set_terminating(one.number)

    def preempt(
        self, number: int, priority: int, budgets: Sequence[DisruptionBudget], fit: str = "first-fit"
    ) -> Preemption:
        priorities, started = np.zeros(self.added, dtype=np.int64), np.full(self.added, np.nan)
        sub_priorities = np.zeros(self.added, dtype=np.int64)
        for one in self.sitting:
            priorities[one.number], started[one.number] = one.pod.priority, one.started_s
            sub_priorities[one.number] = one.pod.sub_priority
        return preempt(
            self.encoder,
            self.ledger,
            self.narrowing,
            profile(fit),
            number,
            priority,
            priorities,
            sub_priorities,
            started,
            DisruptionBudgets(budgets),
        )

    def cluster(self, sitting: Sequence[Sitting]) -> Cluster:
        residents = [Resident(s.pod, self.nodes[s.row], s.stopping, s.needs, s.promised) for s in sitting]
        return Cluster(self.nodes, residents, {})


def helpable(world: World, pod: Pod, needs: Sequence[VolumeNeed], node: Node) -> bool:
    cluster = world.cluster(world.sitting)
    shared = [replace(need, exclusive=False) for need in needs]
    keys = [c.topology_key for c in pod.spread if c.forbids]
    return (
        node.ready
        and plain_rules.first_repelling(node.effective_taints, pod.tolerations) is None
        and plain_rules.wants(pod, node)
        and plain_rules.affinity_holds(cluster, pod, node)
        and all(node.labels.get(key) is not None for key in keys)
        and plain_rules.volumes_hold(cluster, shared, node)
    )


def importance(one: Sitting) -> tuple[float, float, float, int]:
    return (-one.pod.priority, -one.pod.sub_priority, one.started_s, one.number)


def plain_victims(
    world: World, pod: Pod, needs: Sequence[VolumeNeed], row: int, budgets: Sequence[DisruptionBudget]
) -> tuple[list[Sitting], int] | None:
    node = world.nodes[row]

    def fits(sitting: Sequence[Sitting]) -> bool:
        cluster = world.cluster(sitting)
        return plain_rules.row_local(cluster, pod, node) and plain_rules.may(cluster, pod, node, needs)

    lower = sorted((s for s in world.sitting if s.row == row and s.pod.priority < pod.priority), key=importance)
    kept = [s for s in world.sitting if s not in lower]
    if not lower or not fits(kept):
        return None
    left = {budget.name: budget.allowed for budget in budgets}
    broken = []
    for one in lower:
        breaks = False
        for budget in budgets:
            if budget.covers(one.pod):
                left[budget.name] -= 1
                breaks |= left[budget.name] < 0
        if breaks:
            broken.append(one)
    victims, violations = [], 0
    for one in broken + [s for s in lower if s not in broken]:
        if fits([*kept, one]):
            kept.append(one)
        else:
            victims.append(one)
            violations += one in broken
    return victims, violations


def plain_preemption(
    world: World, pod: Pod, needs: Sequence[VolumeNeed], budgets: Sequence[DisruptionBudget]
) -> tuple[int, list[int], int]:
    best, answer = None, (-1, [], 0)
    for row, node in enumerate(world.nodes):
        if not helpable(world, pod, needs, node):
            continue
        found = plain_victims(world, pod, needs, row, budgets)
        if found is None:
            continue
        victims, violations = found
        highest = max(((v.pod.priority, v.pod.sub_priority) for v in victims), default=(-(2**62), 0))
        earliest = min(
            (v.started_s for v in victims if (v.pod.priority, v.pod.sub_priority) == highest), default=np.inf
        )
        total = sum(v.pod.priority + 2**31 for v in victims), sum(v.pod.sub_priority for v in victims)
        cost = (violations, highest, total, len(victims), -earliest)
        if best is None or cost < best:
            best, answer = cost, (row, [v.number for v in victims], violations)
    return answer


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=examples(300))
def test_victims_and_node_are_those_of_the_plain_procedure(seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = World([rule_worlds.a_node(rng, i, cpu=1000) for i in range(int(rng.integers(1, 6)))])
    rules = float(rng.choice([0.0, 0.1, 0.25]))
    wants = float(rng.choice([0.0, 0.3, 0.8]))  # how many rules the newcomer has
    only = rng.choice(["", "", "spread", "affinity", "claims"])
    for _ in range(int(rng.integers(4, 16))):
        size = Amounts.of({"cpu": int(rng.choice([0, 100, 200, 400])), "memory": int(rng.choice([0, 100, 300]))})
        pod = rule_worlds.a_pod(rng, "p", rules, size)
        needs = rule_worlds.claims(rng) if only == "claims" or rng.random() < rules / 2 else ()
        ranks = int(rng.choice([-5, 0, 0, 10, 50])), int(rng.choice([0, 0, 0, -3, 7]))
        number, named = world.add(replace(pod, priority=ranks[0], sub_priority=ranks[1]), needs)
        # other schedulers may have violated its rules, or overcommitted a node
        row = int(rng.integers(len(world.nodes)))
        world.assign(number, named, row, float(rng.choice([1.0, 2.0, 3.0, 4.0])), needs)
        if rng.random() < 0.2:
            world.stop(world.sitting[-1])
    budgets = [
        DisruptionBudget(
            rule_worlds.pick(rng, ["ns0", "ns1"]),
            f"b{i}",
            rule_worlds.pick(rng, rule_worlds.SELECTORS),
            int(rng.integers(0, 3)),
            frozenset(s.pod.name for s in world.sitting if rng.random() < 0.1),
        )
        for i in range(int(rng.integers(0, 3)))
    ]
    size = Amounts.of({"cpu": int(rng.choice([0, 300, 700, 2000])), "memory": int(rng.choice([0, 500]))})
    needs = rule_worlds.claims(rng) if only == "claims" or rng.random() < rules else ()
    pod = rule_worlds.a_pod(rng, "p", wants, size)
    if only:  # one sort of rule alone, so that it decides
        pod = Pod("p", "ns0", size, labels=pod.labels, **{only: getattr(pod, only)} if only != "claims" else {})
    number, named = world.add(replace(pod, priority=20), needs)
    found = world.preempt(number, 20, budgets)
    row, victims, violations = plain_preemption(world, named, needs, budgets)
    assert (found.row, list(found.victims), found.violations) == (row, victims, violations)
    if found.row < 0:
        assert sum(r.nodes for r in found.rejections) == len(world.nodes)


def small(priority: int, cpu: int = 500, **more: object) -> Pod:
    return Pod("p", requests=Amounts.of({"cpu": cpu}), priority=priority, **more)  # type: ignore[arg-type]


def full_world(rows: int, *priorities: int) -> World:
    size = Amounts.of({"cpu": 1000, "memory": 1000})
    world = World([Node(f"n{i}", size, Labels.of({HOSTNAME: f"n{i}"})) for i in range(rows)])
    for i, priority in enumerate(priorities):
        number, pod = world.add(small(priority, labels=Labels.of({"app": "x"})))
        world.assign(number, pod, i % rows, float(i))
    return world


def test_the_least_important_node_is_cleared_and_only_as_far_as_needed() -> None:
    world = full_world(2, 1, 2, 3, 2)  # n0: 1, 3; n1: 2, 2
    number, _ = world.add(small(10))
    found = world.preempt(number, 10, ())
    assert (found.row, found.victims) == (0, (0,))
    assert found.possible == 2
    assert found.headline(2) == "preemption: 1 victim(s), 1 of 2 possible nodes chosen"


def test_a_node_without_budget_violations_is_preferred() -> None:
    world = full_world(2, 1, 2)
    world.add(small(0, 100))
    number, _ = world.add(small(10, 600))
    assert world.preempt(number, 10, ()).row == 0
    covers_first = DisruptionBudget("default", "b", LabelSelector.of({"app": "x"}), 0, frozenset({"p2"}))
    found = world.preempt(number, 10, (covers_first,))
    assert (found.row, found.violations) == (1, 0)


def test_pods_of_equal_priority_are_not_evicted_and_the_reasons_say_so() -> None:
    world = full_world(2, 10, 10, 10, 10)
    number, _ = world.add(small(10))
    found = world.preempt(number, 10, ())
    assert (found.row, found.victims) == (-1, ())
    assert found.headline(2) == f"preemption: 0/2 nodes are available: 2 {NO_VICTIMS}."
    elsewhere, _ = world.add(replace(small(20), node_selector=Labels.of({"disk": "ssd"})))
    assert world.preempt(elsewhere, 20, ()).headline(2) == f"preemption: 0/2 nodes are available: 2 {NOT_HELPFUL}."
    huge, _ = world.add(small(20, 5000))
    assert world.preempt(huge, 20, ()).headline(2) == "preemption: 0/2 nodes are available: 2 Insufficient cpu."


@pytest.mark.slow
def test_predicted_use_is_made_room_for_too() -> None:
    world = full_world(1, 1, 1)
    number, _ = world.add(small(10))
    found = world.preempt(number, 10, (), fit="cotenant")
    assert found.row == 0
    assert len(found.victims) >= 1


test_first_cases = first_cases(
    test_victims_and_node_are_those_of_the_plain_procedure,
)
