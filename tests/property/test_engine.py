"""For any events, the engine's state is consistent: one node per pod, sums equal to the residents', nothing over capacity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cotenant.engine.lifecycle import State
from cotenant.engine.scheduler import Scheduler
from cotenant.engine.state.ledger import Ledger, empty_nodes
from cotenant.model.arrays import MEMORY, Param, PendingArrays, Report, ShapeArrays
from cotenant.model.errors import Permanent
from cotenant.policy.placement.contribution import contribution
from cotenant.policy.placement.profiles import PROFILES, profile

GIB = 2**30


def shapes_of(rng: np.random.Generator, size: int) -> ShapeArrays:
    request = np.stack([rng.choice([1000, 4000, 9000], size), rng.integers(1, 9, size) * GIB, np.ones(size)], axis=1)
    request = request.astype(np.int64)
    params = np.zeros((size, len(Param)))
    params[:, Param.USE_CPU] = request[:, 0] / 2000.0
    params[:, Param.USE_MEMORY] = request[:, MEMORY] / 2
    params[:, Param.SENSITIVITY] = params[:, Param.PRESSURE] = 0.3
    params[:, Param.ALLOWANCE], params[:, Param.LOAD_LIMIT] = 0.5, np.inf
    params[:, Param.IS_SERVICE] = np.arange(size) < size // 3
    return ShapeArrays(
        request, contribution(request, params, 8.0, 0.7), params,
        np.zeros(size, np.uint64), np.zeros((size, 1), np.uint64), rng.integers(0, 3, size),
        np.where(np.arange(size) < size // 3, 0, -1), np.full(size, 2),
    )  # fmt: skip


def pending(rng: np.random.Generator, first: int, count: int, shapes: ShapeArrays, now_s: float) -> PendingArrays:
    shape = rng.integers(0, shapes.request.shape[0], count)
    service = shapes.params[shape, Param.IS_SERVICE] > 0
    return PendingArrays(
        pod=np.arange(first, first + count), shape=shape, tenant=shapes.tenant[shape], job=np.where(service, -1, shape),
        stage=shape, is_service=service, ready_s=np.full(count, now_s),
        deadline_s=np.where(service, np.inf, now_s + rng.uniform(1, 900, count)), path_s=np.full(count, 60.0), work=np.ones(count),
    )  # fmt: skip


class EngineMachine(RuleBasedStateMachine):
    """Random events in random order; `validate` after each."""

    @initialize(seed=st.integers(0, 2**32 - 1), name=st.sampled_from([p.name for p in PROFILES]))
    def start(self, seed: int, name: str) -> None:
        self.rng = np.random.default_rng(seed)
        shapes = shapes_of(self.rng, 9)
        capacity = np.tile(np.array([[16_000, 32 * GIB, 20]]), (6, 1))
        self.engine = Scheduler(Ledger(empty_nodes(capacity, groups=1), shapes, 3, 4), profile(name), self.rng)
        self.shapes, self.next, self.now = shapes, 0, 0.0

    def some(self, state: State) -> np.ndarray:
        pods = np.flatnonzero(self.engine.lifecycle.state == state)
        return pods[self.rng.random(len(pods)) < 0.4]

    @rule(count=st.integers(1, 25))
    def submit(self, count: int) -> None:
        self.engine.submit(pending(self.rng, self.next, count, self.shapes, self.now), self.now)
        self.next += count

    @rule(seconds=st.floats(0.0, 100.0))
    def decide(self, seconds: float) -> None:
        self.now += seconds
        decision = self.engine.decide(self.now)
        assert decision.judged >= len(decision.pods)
        assert (self.engine.ledger.row[decision.pods] == decision.rows).all()
        assert (self.engine.ledger.nodes.ready[decision.rows]).all()

    @rule()
    def finish(self) -> None:
        self.engine.finish(self.some(State.BOUND), self.now)

    @rule(hold=st.floats(0.0, 200.0))
    def evict(self, hold: float) -> None:
        pods = self.some(State.BOUND)
        self.engine.evict(pods, np.full(len(pods), self.now + hold), self.now)

    @rule()
    def delete(self) -> None:
        self.engine.delete(np.concatenate([self.some(State.QUEUED), self.some(State.BOUND)]), self.now)

    @rule(row=st.integers(0, 5))
    def lose_node(self, row: int) -> None:
        pods = self.engine.ledger.residents(row)
        self.engine.set_ready(np.array([row]), False)
        self.engine.evict(pods, np.full(len(pods), self.now), self.now)

    @rule(row=st.integers(0, 5))
    def node_returns(self, row: int) -> None:
        self.engine.set_ready(np.array([row]), True)

    @rule()
    def report(self) -> None:
        values = self.rng.random((6, len(Report)))
        values[self.rng.random(6) < 0.3] = np.nan
        self.engine.report(values)

    @rule()
    def learn(self) -> None:
        self.shapes.sums[4] += 5
        self.engine.ledger.revise()

    @invariant()
    def adds_up(self) -> None:
        if hasattr(self, "engine"):
            self.engine.validate()


EngineMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestEngine = pytest.mark.slow(EngineMachine.TestCase)


def engine_of_two() -> tuple[Scheduler, ShapeArrays]:
    rng = np.random.default_rng(0)
    shapes = shapes_of(rng, 9)
    capacity = np.tile(np.array([[16_000, 32 * GIB, 20]]), (2, 1))
    return Scheduler(Ledger(empty_nodes(capacity, groups=1), shapes, 3, 4), profile("best-fit"), rng), shapes


def batch(pod: int, shapes: ShapeArrays) -> PendingArrays:
    one = pending(np.random.default_rng(1), pod, 1, shapes, 0.0)
    return one._replace(shape=np.array([5]), is_service=np.array([False]), tenant=shapes.tenant[[5]])


def test_an_illegal_change_raises_with_the_pods_history() -> None:
    engine, shapes = engine_of_two()
    engine.submit(batch(1, shapes), 0.0)
    with pytest.raises(Permanent, match=r"pod 1 cannot go from queued to queued .* unknown -> queued \(submitted\)"):
        engine.submit(batch(1, shapes), 3.0)
    with pytest.raises(Permanent, match="sits on no node"):
        engine.finish(np.array([1]), 4.0)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=5, deadline=None)
def test_a_drifted_ledger_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shapes = shapes_of(rng, 9)
    ledger = Ledger(empty_nodes(np.tile(np.array([[16_000, 32 * GIB, 20]]), (2, 1)), groups=1), shapes, 3, 4)
    ledger.place(np.array([0]), np.array([1]), np.array([5]))
    ledger.validate()
    ledger.nodes.requested[1, 0] += 1
    with pytest.raises(Permanent, match="ledger drifted: requested"):
        ledger.validate()
