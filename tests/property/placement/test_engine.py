"""Whatever happens to it, the engine adds up: one place a pod, sums equal to the residents', nothing over capacity,
whatever is measured in between.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.property.few import examples

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.state.ledger import Ledger, empty_nodes
from cotenant.model.arrays import MEMORY, Param, ReportColumn, ShapeArrays
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.labels import ZONE, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import JobStage, Pod, PodEstimate
from cotenant.model.errors import Permanent
from cotenant.model.resources import Amounts
from cotenant.policy.placement.codes import Fit
from cotenant.policy.placement.contribution import contribution
from cotenant.policy.placement.profiles import PROFILES, profile
from cotenant_lab.baselines.drf import DominantResourceFairness
from cotenant_lab.baselines.tetris import Tetris

GIB = 2**30
NODES = 6
ROUND_POLICIES = {"drf": DominantResourceFairness, "tetris": Tetris}


def a_node(row: int, ready: bool = True) -> Node:
    size = Amounts.of({"cpu": 16_000, "memory": 32 * GIB, "pods": 20})
    return Node(f"n{row}", size, Labels.of({ZONE: f"z{row % 2}"}), ready=ready)


def a_pod(rng: np.random.Generator, name: str, now_s: float) -> Pod:
    cpu, memory = int(rng.choice([1000, 4000, 9000])), int(rng.integers(1, 9)) * GIB
    service = rng.random() < 0.4
    kind = int(rng.integers(0, 3))
    alone = (PodTerm(ZONE, LabelSelector.of({"alone": "yes"})),) if rng.random() < 0.05 else ()
    return Pod(
        name,
        requests=Amounts.of({"cpu": cpu, "memory": memory}),
        tenant=f"t{kind}",
        labels=Labels.of({"alone": "yes"}) if alone else Labels(),
        anti_affinity=alone,
        group="replicas" if service else "",
        group_limit=2,
        estimate=PodEstimate(cpu / 2000.0, memory // 2, 0.3, 0.3, 0.5, np.inf if service else 60.0 + kind),
        deadline_s=np.inf if service else now_s + float(rng.uniform(1, 900)),
        job=None if service else JobStage(f"job-{kind}", 60.0, 1.0),
        objective_p99_ms=10.0 if service else None,
    )


class EngineMachine(RuleBasedStateMachine):
    """Random events in random order; `validate` after each."""

    @initialize(seed=st.integers(0, 2**32 - 1), name=st.sampled_from([p.name for p in PROFILES] + list(ROUND_POLICIES)))
    def start(self, seed: int, name: str) -> None:
        self.rng = np.random.default_rng(seed)
        policy = ROUND_POLICIES[name]() if name in ROUND_POLICIES else profile(name)
        self.engine = Cluster(policy, self.rng, EngineSettings(max_pods=1000))
        self.next, self.now = 0, 0.0
        self.on: dict[str, str] = {}  # uid -> node, as the instructions said
        for row in range(NODES):
            self.engine.node_seen(a_node(row))

    def some(self, bound: bool) -> list[str]:
        found = [uid for uid in self.known() if (uid in self.on) == bound]
        return [uid for uid in found if self.rng.random() < 0.4]

    def known(self) -> list[str]:
        return [f"p{i}" for i in range(self.next) if self.engine.state_of(f"p{i}") is not SchedulingState.GONE]

    @rule(count=st.integers(1, 25))
    def submit(self, count: int) -> None:
        for _ in range(count):
            pod = a_pod(self.rng, f"p{self.next}", self.now)
            self.engine.pod_seen(ObservedPod(pod, pod.name, "cotenant", self.now), self.now)
            self.next += 1

    @rule(seconds=st.floats(0.0, 100.0))
    def decide(self, seconds: float) -> None:
        self.now += seconds
        judged = self.engine.judged
        placed = 0
        for instruction in self.engine.decide(self.now):
            if isinstance(instruction, Bind):
                placed += 1
                assert self.engine.sending(instruction.uid, self.now)
                self.engine.bound(instruction.uid, self.now)
                self.on[instruction.uid] = instruction.node
            elif isinstance(instruction, Evict):
                assert instruction.victim.uid in self.on
                self.leave(instruction.victim.uid)
        assert self.engine.judged - judged >= placed
        if self.engine.profile.fit is Fit.REQUESTS:
            assert self.engine.over_capacity() == ()

    def leave(self, uid: str) -> None:
        self.on.pop(uid, None)
        self.engine.pod_gone(uid, self.now)

    @rule(bound=st.booleans())
    def delete(self, bound: bool) -> None:
        for uid in self.some(bound):
            self.leave(uid)

    @rule(row=st.integers(0, NODES - 1), memory=st.floats(0, 40))
    def lose_node(self, row: int, memory: float) -> None:
        self.engine.node_seen(a_node(row, ready=False))
        for uid in [uid for uid, node in self.on.items() if node == f"n{row}"]:
            self.engine.outgrew(uid, memory * GIB)
            self.leave(uid)

    @rule(row=st.integers(0, NODES - 1))
    def node_returns(self, row: int) -> None:
        self.engine.node_seen(a_node(row))

    @rule()
    def report(self) -> None:
        values = self.rng.random((NODES + 1, len(ReportColumn)))
        values[self.rng.random(NODES + 1) < 0.3] = np.nan
        self.engine.report_all([f"n{row}" for row in range(NODES + 1)], values)

    @rule()
    def measure(self) -> None:
        numbers = np.array([self.engine.number_of(uid) for uid in [*self.known(), "nobody"]], dtype=np.int64)
        self.engine.usage_measured(
            numbers, self.rng.uniform(0, 4, len(numbers)), self.rng.uniform(0, 8 * GIB, len(numbers)), self.now
        )
        self.engine.latency_measured(
            numbers, self.rng.uniform(0.5, 3.0, len(numbers)), self.rng.integers(0, 5_000, len(numbers)), self.now
        )

    @rule()
    def rebuild(self) -> None:
        self.engine.rebuild(self.now)

    @invariant()
    def adds_up(self) -> None:
        if hasattr(self, "engine"):
            self.engine.validate()
            assert self.engine.assigned() == self.on


EngineMachine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=25, deadline=None)
TestEngine = pytest.mark.slow(EngineMachine.TestCase)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=5, deadline=None)
def test_a_drifted_ledger_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    request = np.array([[int(rng.choice([1000, 4000])), int(rng.integers(1, 9)) * GIB, 1]])
    params = np.zeros((1, len(Param)))
    params[:, Param.USE_CPU], params[:, Param.USE_MEMORY] = 1.0, request[:, MEMORY] / 2
    none = np.zeros(1, np.uint64)
    shapes = ShapeArrays(
        request,
        contribution(request, params, 8.0, 0.7),
        params,
        none,
        none[:, None],
        np.zeros(1, np.int64),
        np.full(1, -1),
        np.zeros(1, np.int64),
    )
    ledger = Ledger(empty_nodes(np.tile(np.array([[16_000, 32 * GIB, 20]]), (2, 1)), groups=1), shapes, 3, 4)
    ledger.place(np.array([0]), np.array([1]), np.array([0]))
    ledger.validate()
    ledger.nodes.requested[1, 0] += 1
    with pytest.raises(Permanent, match="ledger drifted: requested"):
        ledger.validate()


def test_a_new_replica_judges_with_the_half_of_the_nodes_that_are_there() -> None:
    engine = Cluster(profile("cotenant"), np.random.default_rng(0))
    engine.node_seen(a_node(0))
    engine.decide(0.0)
    assert engine._components.assignments.encoder.half_node_cores == 8.0
    big = replace(a_node(1), allocatable=Amounts.of({"cpu": 96_000, "memory": 512 * GIB}))
    engine.node_seen(big)
    engine.node_seen(replace(big, name="n2"))
    engine.decide(1.0)
    assert engine._components.assignments.encoder.half_node_cores == 48.0
    engine.validate()
