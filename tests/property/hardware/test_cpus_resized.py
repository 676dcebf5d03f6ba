"""Pods with CPUs of their own that are resized by somebody else: nobody is given CPUs that another has, and whoever
was given some keeps them as long as the scheduler runs, whatever it requests by now.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.fakes.cluster.cpu_cluster import cluster, node, pod
from tests.property.few import examples

from cotenant.engine.framework.instructions import Bind
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.resources import CPU_NAME, Amounts

STEPS, NODES = 80, 2


class Node:
    """What pods were given, in plain sets."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.engine = cluster(*(node(f"n{row}") for row in range(NODES)))
        self.pods: dict[str, ObservedPod] = {}
        self.given: dict[str, tuple[str, frozenset[int]]] = {}
        self.now_s, self.made, self.resized = 0.0, 0, 0

    def step(self) -> None:
        self.now_s += 30.0
        self.random.choice((self.create, self.decide, self.decide, self.resize, self.delete))()
        self.engine.validate()
        for name, (where, cpus) in self.given.items():
            view = self.engine.plugins.cpus.describe(where)
            assert view is not None
            held = {holder.pod: frozenset(holder.cpus) for holder in view.holders}
            assert held[f"default/{name}"] == cpus

    def create(self) -> None:
        self.made += 1
        made = pod(f"p{self.made}", self.random.choice([1, 2, 3]), created_s=self.now_s)
        self.pods[made.pod.name] = made
        self.engine.pod_seen(made, self.now_s)

    def decide(self) -> None:
        for bind in self.engine.decide(self.now_s):
            if not isinstance(bind, Bind):
                continue
            assert self.engine.sending(bind.uid, self.now_s)
            self.engine.bound(bind.uid, self.now_s)
            name = bind.key.partition("/")[2]
            cpus = frozenset(bind.holds.cpus.cpus) if bind.holds.cpus is not None else frozenset()
            assert not any(cpus & taken for where, taken in self.given.values() if where == bind.node)
            self.given[name] = bind.node, cpus
            self.pods[name] = replace(self.pods[name], node=bind.node)
            self.engine.pod_seen(self.pods[name], self.now_s)
            requests_m = [
                self.pods[other].pod.requests.get(CPU_NAME)
                for other, (where, _) in self.given.items()
                if where == bind.node
            ]
            assert sum(requests_m) <= 8000

    def resize(self) -> None:
        if self.given:
            name = self.random.choice(sorted(self.given))
            cpu_m = self.random.choice([500, 1000, 2500, 4000])
            of = self.pods[name]
            self.pods[name] = replace(
                of, pod=replace(of.pod, requests=Amounts.of({"cpu": cpu_m, "memory": of.pod.requests.get("memory")}))
            )
            self.engine.pod_seen(self.pods[name], self.now_s)
            self.resized += 1

    def delete(self) -> None:
        if self.pods and self.random.random() < 0.4:
            name = self.random.choice(sorted(self.pods))
            self.given.pop(name, None)
            self.engine.pod_gone(self.pods.pop(name).uid, self.now_s)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(30)))
def test_a_resize_moves_no_cpus(seed: int) -> None:
    world = Node(seed)
    for _ in range(STEPS):
        world.step()
    assert world.resized


@pytest.mark.parametrize("seed", [0, 1])
def test_first_sequences(seed: int) -> None:
    test_a_resize_moves_no_cpus(seed)
