"""Names of resources and groups that pods make up change no decision, however few columns there are for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.engine.cluster import Cluster
from cotenant.engine.encoding import encoder
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

NAMES = tuple(f"e.io/{letter}" for letter in "abcdef")
DECISIONS = 40


@contextmanager
def columns(number: int) -> Iterator[None]:
    before, encoder.MAX_UNOFFERED = encoder.MAX_UNOFFERED, number
    try:
        yield
    finally:
        encoder.MAX_UNOFFERED = before


class Events:
    """The same events for every cluster of one seed."""

    def __init__(self, seed: int) -> None:
        self._rng, self._made, self._pods, self._nodes = np.random.default_rng(seed), 0, list[str](), dict[str, Node]()
        self.cluster = Cluster(profile("least-allocated"), np.random.default_rng(1), EngineSettings())

    def _some(self, most: int) -> dict[str, int]:
        chosen = self._rng.permutation(len(NAMES))[: self._rng.integers(0, most + 1)]
        return {NAMES[i]: int(self._rng.integers(1, 4)) for i in chosen}

    def _pod(self) -> None:
        self._made += 1
        uid, at = f"u{self._made}", str(self._rng.choice([*self._nodes, ""])) if self._rng.random() < 0.2 else ""
        pod = Pod(
            f"p{self._made}",
            requests=Amounts.of({"cpu": int(self._rng.integers(1, 5)) * 100, **self._some(2)}),
            group=str(self._rng.choice(["", "", "g", "h", f"g{self._made}"])),
        )
        self._pods.append(uid)
        self.cluster.pod_seen(ObservedPod(pod, uid, "cotenant", 0.0, at), self.now_s)

    def _node(self) -> None:
        name = f"n{self._rng.integers(4)}"
        self._nodes[name] = node = Node(name, Amounts.of({"cpu": 2000, "memory": 1 << 30, "pods": 20, **self._some(4)}))
        self.cluster.node_seen(node)

    def _gone(self) -> None:
        if self._pods and self._rng.random() < 0.8:
            self.cluster.pod_gone(self._pods.pop(int(self._rng.integers(len(self._pods)))), self.now_s)
        elif self._nodes:
            name = str(self._rng.choice(sorted(self._nodes)))
            del self._nodes[name]
            self.cluster.node_gone(name, self.now_s)

    def played(self) -> list[tuple[float, str, str]]:
        """What was bound where and when."""
        found: list[tuple[float, str, str]] = []
        self.now_s = 0.0
        for _ in range(DECISIONS):
            for _ in range(int(self._rng.integers(1, 4))):
                (self._pod, self._pod, self._node, self._gone)[self._rng.integers(4)]()
            for _ in range(4):
                for instruction in self.cluster.decide(self.now_s):
                    if isinstance(instruction, Bind):
                        found.append((self.now_s, instruction.uid, instruction.node))
                        self.cluster.sending(instruction.uid, self.now_s)
                        self.cluster.bound(instruction.uid, self.now_s)
                self.now_s += 1.0
            self.cluster.validate()
        return found


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32 - 1), number=st.integers(0, 3))
def test_however_few_columns_made_up_resources_have_the_same_pods_are_bound(seed: int, number: int) -> None:
    with columns(len(NAMES)):
        expected = Events(seed).played()
    with columns(number):
        assert Events(seed).played() == expected


def test_the_reason_of_a_pod_names_what_is_missing() -> None:
    with columns(0):
        cluster = Cluster(profile("least-allocated"), np.random.default_rng(1), EngineSettings())
        cluster.node_seen(Node("n", Amounts.of({"cpu": 2000, "memory": 1 << 30, "pods": 20})))
        cluster.pod_seen(ObservedPod(Pod("p", requests=Amounts.of({"e.io/a": 1})), "u", "cotenant", 0.0), 0.0)
        told = cluster.decide(0.0)
    assert "Insufficient resources that no node has" in str(told)
