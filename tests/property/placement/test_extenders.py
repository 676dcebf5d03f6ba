"""Pods of extenders against brute force: each lands where filters of ours and of all extenders agree, on the best such
node, also with late, lost and failed answers, with pods that are evicted for others, and pods that no extender knows.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Instruction, Preempt
from cotenant.engine.plugins.extenders.plugin import Extenders
from cotenant.engine.plugins.extenders.question import AskExtenders, ExtenderAnswer
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.extender import Extender
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

CARD = "example.com/card"


class World:
    """An engine, and extenders that are functions of pod and node."""

    def __init__(self, seed: int, answers: bool = True) -> None:
        self.rng = Random(seed)
        self.plugin = Extenders(
            (Extender("http://e", filter_verb="f", prioritize_verb="p", weight=1, managed=frozenset({CARD})),)
        )
        self.cluster = Cluster(
            profile("least-allocated"), np.random.default_rng(seed), plugins=PluginRegistry(extenders=self.plugin)
        )
        self.size: dict[str, int] = {}
        self.pods: dict[str, ObservedPod] = {}
        self.node_of: dict[str, str] = {}
        self.late: list[AskExtenders] = []
        self.now_s = 0.0
        self.loses = answers and self.rng.random() < 0.5

    def allows(self, uid: str, node: str) -> bool:
        return Random(f"{uid}{node}").random() < 0.5

    def points(self, uid: str, node: str) -> float:
        return float(Random(f"p{uid}{node}").randint(0, 10) * 10)

    def free(self, node: str) -> int:
        return self.size[node] - sum(
            self.pods[uid].pod.requests.get("cpu") for uid, on in self.node_of.items() if on == node
        )

    def create(self, uid: str, cpu: int, priority: int, asks: bool) -> None:
        requests = {"cpu": cpu, "memory": 1 << 20} | ({CARD: 1} if asks else {})
        self.pods[uid] = ObservedPod(
            Pod(uid, requests=Amounts.of(requests), priority=priority), uid, "cotenant", self.now_s
        )
        self.cluster.pod_seen(self.pods[uid], self.now_s)

    def step(self) -> None:
        self.now_s += self.rng.choice((0.0, 0.1, 1.0, 12.0))
        for question in self.late:
            self.answer(question)
        self.late = []
        for _ in range(10):
            given = self.cluster.decide(self.now_s)
            if not given:
                break
            for instruction in given:
                self.carry_out(instruction)

    def carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case AskExtenders():
                if self.loses and self.rng.random() < 0.4:
                    self.late.append(instruction)
                else:
                    self.answer(instruction)
            case Bind(uid=uid, node=node):
                self.bound(uid, node)
            case Preempt(victims=victims):
                for victim in victims:
                    self.delete(victim.uid)

    def bound(self, uid: str, node: str) -> None:
        pod = self.pods[uid].pod
        assert self.free(node) >= pod.requests.get("cpu"), "over capacity"
        if CARD in pod.requests:
            assert self.allows(uid, node), "on a node that the extender refused"
        self.node_of[uid] = node
        assert self.cluster.sending(uid, self.now_s)
        if self.loses and self.rng.random() < 0.2:
            del self.node_of[uid]
            self.cluster.bind_failed(uid, "a test", self.now_s)
            return
        self.cluster.bound(uid, self.now_s)

    def answer(self, question: AskExtenders) -> None:
        assert all(node in self.size for node in question.nodes)
        if self.loses and self.rng.random() < 0.2:
            self.plugin.failed(question.uid, question.number, "a test", self.now_s)
            return
        left = frozenset(node for node in question.nodes if self.allows(question.uid, node))
        points = {node: self.points(question.uid, node) for node in left}
        self.plugin.answered(question.uid, question.number, ExtenderAnswer(left, points), self.now_s)

    def delete(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.node_of.pop(uid, None)
        self.cluster.pod_gone(uid, self.now_s)

    def grow(self, node: str) -> None:
        self.size[node] = self.rng.randint(1, 8) * 1000
        amounts = Amounts.of({"cpu": self.size[node], "memory": 1 << 34, "pods": 30, CARD: 30})
        self.cluster.node_seen(Node(node, amounts))


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(50), deadline=None)
def test_pods_land_only_where_everybody_agrees_and_wait_only_where_nobody_does(seed: int) -> None:
    world = World(seed)
    for i in range(world.rng.randint(1, 6)):
        world.grow(f"n{i}")
    created = 0
    for _ in range(world.rng.randint(1, 12)):
        for _ in range(world.rng.randint(0, 3)):
            created += 1
            asks = world.rng.random() < 0.7
            world.create(f"u{created}", world.rng.randint(1, 6) * 500, world.rng.choice((0, 0, 10)), asks)
        if world.node_of and world.rng.random() < 0.3:
            world.delete(world.rng.choice(sorted(world.node_of)))
        if world.rng.random() < 0.1:
            world.grow(f"n{len(world.size)}")
        world.step()
        world.cluster.validate()
    world.loses = False
    for _ in range(40):  # everything answers again: what can be placed is placed
        world.now_s += 400.0
        world.step()
    world.cluster.validate()
    for uid, seen in world.pods.items():
        if uid in world.node_of:
            continue
        cpu = seen.pod.requests.get("cpu")
        fitting = [node for node in world.size if world.free(node) >= cpu]
        assert not [node for node in fitting if CARD not in seen.pod.requests or world.allows(uid, node)], seen


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(40), deadline=None)
def test_points_of_extenders_are_added_to_the_profiles_score(seed: int) -> None:
    world = World(seed, answers=False)
    for i in range(world.rng.randint(1, 6)):
        world.grow(f"n{i}")
    for number in range(8):
        uid, cpu = f"u{number}", world.rng.randint(1, 4) * 250
        free = {node: world.free(node) for node in world.size}
        world.create(uid, cpu, 0, asks=True)
        world.step()
        fitting = [node for node in free if free[node] >= cpu]
        agreed = [node for node in fitting if world.allows(uid, node)]
        if not agreed:
            assert uid not in world.node_of
            world.delete(uid)
            continue
        memory = {node: sum(on == node for on in world.node_of.values()) for node in free}
        left = {
            node: (free[node] - cpu) / world.size[node]
            + (2**34 - (memory[node] + (world.node_of.get(uid) != node)) * 2**20) / 2**34
            for node in agreed
        }
        low, high = min(left.values()), max(left.values())
        totals = {
            node: (100.0 * (left[node] - low) / (high - low) if high > low else 0.0) + world.points(uid, node)
            for node in agreed
        }
        assert totals[world.node_of[uid]] >= max(totals.values()) - 1e-6


test_first_cases = first_cases(
    test_pods_land_only_where_everybody_agrees_and_wait_only_where_nobody_does,
    test_points_of_extenders_are_added_to_the_profiles_score,
    most=1,
)
