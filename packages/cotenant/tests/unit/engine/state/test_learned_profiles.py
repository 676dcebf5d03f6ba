"""Learned profiles in the engine: which pods a window counts for, bounded memory, rebuilds, and what placement
reads.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.state.learned_profiles import LearnedProfiles, ProfileStore
from cotenant.model.arrays import Param
from cotenant.model.cluster.interference_profile import InterferenceProfile
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod, PodEstimate
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, PodSignals, Use
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

GIB = 2**30


class World:
    """Two nodes; each tenant's pods are an application."""

    def __init__(self, policy: str = "cotenant-learned") -> None:
        self.engine = Cluster(profile(policy), np.random.default_rng(0), EngineSettings(max_pods=100))
        for i in range(2):
            self.engine.node_seen(Node(f"n{i}", Amounts.of({"cpu": 16_000, "memory": 64 * GIB, "pods": 50})))

    def pod(
        self, name: str, tenant: str, node: str = "n0", service: bool = True, estimate: PodEstimate | None = None
    ) -> int:
        pod = Pod(
            name,
            requests=Amounts.of({"cpu": 4000, "memory": GIB}),
            tenant=tenant,
            estimate=estimate,
            objective_p99_ms=10.0 if service else None,
        )
        self.engine.pod_seen(ObservedPod(pod, name, "cotenant", 0.0, node=node), 0.0)
        return self.engine.number_of(name)

    @property
    def learned(self) -> LearnedProfiles:
        assignments = self.engine._components.assignments
        assignments.write()
        assert assignments.estimates.profiles is not None
        return assignments.estimates.profiles

    @property
    def store(self) -> ProfileStore:
        return self.learned.store

    def of(self, number: int) -> InterferenceProfile:
        return self.learned.profile(self.engine._components.assignments.encoder.shape_of(number))

    def param(self, number: int, param: Param) -> float:
        assignments = self.engine._components.assignments
        assignments.write()
        return float(assignments.ledger.shapes.params[assignments.encoder.shape_of(number), param])

    def measure(self, windows: dict[int, tuple[float, float]], now_s: float) -> None:
        """By number: cores in use and p99 over objective (NaN = not measured)."""
        numbers = np.array(list(windows), dtype=np.int64)
        use, signal = (np.array(column, dtype=np.float64) for column in zip(*windows.values(), strict=True))
        self.engine.interference_measured(numbers, use, signal, now_s)
        self.engine.usage_measured(numbers, use, np.full(len(use), float(GIB)), now_s)

    def learn(self, victim: int, neighbour: int, minutes: int, start_s: float = 0.0) -> None:
        """The victim is twice as slow whenever its neighbour is busy."""
        for minute in range(minutes):
            loud = minute % 2 == 1
            signal = 0.9 if loud else 0.5
            self.measure({victim: (1.0, signal), neighbour: (4.0 if loud else 0.1, np.nan)}, start_s + 60.0 * minute)


def test_before_data_all_applications_are_alike_and_a_service_tolerates_what_it_declares() -> None:
    world = World()
    one, other = world.pod("a", "a"), world.pod("b", "b", service=False)
    world.measure({one: (1.0, np.nan), other: (1.0, np.nan)}, 0.0)
    assert not world.of(one).is_learned
    assert world.of(one).sensitivity == world.of(other).sensitivity
    assert world.param(one, Param.SENSITIVITY) == world.param(other, Param.SENSITIVITY)
    assert world.param(one, Param.ALLOWANCE) == np.inf


def test_what_was_learned_is_what_placement_reads() -> None:
    world = World()
    victim, neighbour = world.pod("a", "a"), world.pod("b", "b", service=False)
    world.learn(victim, neighbour, 60)
    found = world.of(victim)
    assert found.windows == 60
    assert world.of(neighbour).neighbour_windows == 60
    assert found.sensitivity > 0.6
    assert found.sensitivity_sd < 0.3
    assert world.param(victim, Param.SENSITIVITY) == found.sensitivity
    assert world.param(neighbour, Param.PRESSURE) == world.of(neighbour).pressure > 0.5
    assert world.param(victim, Param.ALLOWANCE) == pytest.approx(found.allowance)
    assert 0.1 < found.allowance < 1.5
    world.engine.validate()


def test_another_pod_of_the_application_starts_with_what_was_learned() -> None:
    world = World()
    victim, neighbour = world.pod("a", "a"), world.pod("b", "b", service=False)
    world.learn(victim, neighbour, 30)
    learned = world.of(victim)
    world.engine.pod_gone("a", 2000.0)
    later = world.pod("a2", "a", node="")
    world.engine.decide(2001.0)
    assert world.of(later) == learned
    assert world.param(later, Param.SENSITIVITY) == learned.sensitivity


def test_a_pod_that_left_before_its_window_was_reported_is_skipped() -> None:
    world = World()
    victim, neighbour = world.pod("a", "a"), world.pod("b", "b", service=False)
    world.engine.pod_gone("b", 10.0)
    world.measure({victim: (1.0, 0.6), neighbour: (4.0, np.nan), -1: (1.0, 0.5)}, 60.0)
    assert world.store.windows == 1
    assert world.of(victim).neighbour_windows == 0


def test_a_node_without_reports_teaches_nothing() -> None:
    world = World()
    reported, silent = world.pod("a", "a"), world.pod("c", "c", node="n1")
    world.measure({reported: (1.0, 0.6)}, 60.0)
    assert world.of(reported).windows == 1
    assert not world.of(silent).is_learned


def test_absurd_values_are_refused_and_counted() -> None:
    world = World()
    one, other = world.pod("a", "a"), world.pod("b", "b")
    world.measure({one: (np.nan, 0.5), other: (1.0, -3.0)}, 60.0)
    world.measure({one: (1e9, 0.5), other: (1.0, np.inf)}, 120.0)
    assert world.store.windows == 0
    assert world.store.refused == 4
    assert world.of(one).sensitivity == World().store.settings.sensitivity


def test_a_declared_profile_is_the_prior_and_a_declared_allowance_is_kept() -> None:
    world = World()
    declared = PodEstimate(2.0, GIB, sensitivity=0.9, pressure=0.1, allowance=0.4)
    one = world.pod("a", "a", estimate=declared)
    assert world.of(one).sensitivity == 0.9
    assert world.of(one).declared
    world.measure({one: (1.0, 0.6)}, 60.0)
    assert world.param(one, Param.ALLOWANCE) == 0.4
    assert world.of(one).allowance == 0.4


def test_node_metrics_of_a_cluster_feed_the_same_learning() -> None:
    world = World()
    victim, neighbour = world.pod("a", "a"), world.pod("b", "b", service=False)
    by_lab, theirs = World(), []
    theirs = [by_lab.pod("a", "a"), by_lab.pod("b", "b", service=False)]
    for minute in range(10):
        now_s = 60.0 * minute
        p99_ms, wait = (9.0, 0.4) if minute % 2 else (5.0, 0.1)
        pods = {
            "default/a": MeasuredPod(Use(1000, GIB), signals=PodSignals(latency_p99_ms=p99_ms)),
            "default/b": MeasuredPod(Use(3000, GIB), signals=PodSignals(wait_per_cpu=wait)),
            "default/unknown": MeasuredPod(Use(3000, GIB), signals=PodSignals(latency_p99_ms=1.0)),
        }
        world.engine.metric_seen(NodeMetric("n0", 5.0, use=Use(4000, GIB), pods=pods), now_s)
        world.engine.decide(now_s)
        by_lab.measure({theirs[0]: (1.0, p99_ms / 10.0), theirs[1]: (3.0, 1.0 + wait)}, now_s)
    assert world.of(victim).windows == world.of(neighbour).windows == 10
    assert world.of(victim) == by_lab.of(theirs[0])
    assert world.of(neighbour) == by_lab.of(theirs[1])


def test_a_stale_metric_or_one_without_signals_teaches_nothing_about_sensitivity() -> None:
    world = World()
    victim = world.pod("a", "a")
    pods = {"default/a": MeasuredPod(Use(1000, GIB), signals=PodSignals(latency_p99_ms=9.0))}
    world.engine.metric_seen(NodeMetric("n0", 900.0, pods=pods), 60.0)
    world.engine.decide(60.0)
    world.engine.metric_seen(NodeMetric("n0", 5.0, pods={"default/a": MeasuredPod(Use(1000, GIB))}), 120.0)
    world.engine.decide(120.0)
    assert world.store.windows == 0
    assert not world.of(victim).is_learned


def test_a_rebuild_keeps_what_was_learned() -> None:
    world = World()
    victim, neighbour = world.pod("a", "a"), world.pod("b", "b", service=False)
    world.learn(victim, neighbour, 30)
    learned = world.of(victim)
    world.engine.rebuild(2000.0)
    assert world.of(world.engine.number_of("a")) == learned


def test_an_explanation_says_what_was_learned_from_how_many_windows() -> None:
    world = World()
    victim, neighbour = world.pod("a", "a"), world.pod("b", "b", service=False)

    def said(key: str) -> str:
        answer = world.engine.why.pod(key, 3000.0)
        assert answer is not None
        return next(concern.words for concern in answer.concerns if concern.kind == "profile")

    assert said("default/a").startswith("nothing learned yet")
    world.learn(victim, neighbour, 30)
    assert "from 30 windows of its own pods" in said("default/a")
    assert "tolerates" in said("default/a")
    assert "from 30 windows of pods beside it" in said("default/b")


def test_a_copy_of_the_engine_has_what_was_learned_and_changes_nothing_of_the_original() -> None:
    world, copy = World(), World()
    victim, neighbour = world.pod("a", "a"), world.pod("b", "b", service=False)
    world.learn(victim, neighbour, 30)
    learned = world.of(victim)
    theirs = copy.pod("a", "a"), copy.pod("b", "b", service=False)
    copy.engine.adopt((), 2000.0, world.store.copy())
    assert copy.of(theirs[0]) == learned
    copy.learn(*theirs, 30, start_s=2000.0)
    assert copy.of(theirs[0]).windows == 60
    assert world.of(victim) == learned


def test_the_application_measured_longest_ago_is_dropped_when_memory_is_full() -> None:
    world = World()
    profiles = world.learned
    profiles.store._max = 3
    numbers = [world.pod(f"p{i}", f"t{i}") for i in range(4)]
    for i in (0, 1, 2):
        world.measure({numbers[i]: (1.0, 0.6)}, 60.0 * i)
    world.measure({numbers[0]: (1.0, 0.6)}, 200.0)
    world.measure({numbers[3]: (1.0, 0.6)}, 260.0)  # in the place of t1
    assert len(profiles.store) == 3
    assert [world.of(number).windows for number in numbers] == [2, 0, 1, 1]
    world.measure(dict.fromkeys(numbers, (1.0, 0.6)), 320.0)  # more than are kept, in one round
    assert len(profiles.store) == 3


def test_reused_rows_of_shapes_start_from_their_own_application() -> None:
    world = World()
    victim, neighbour = world.pod("a", "a"), world.pod("b", "b", service=False)
    world.learn(victim, neighbour, 10)
    world.engine.pod_gone("a", 700.0)
    assignments = world.engine._components.assignments
    assignments.estimates.forget(assignments.encoder.reclaim().tolist())
    other = world.pod("z", "z")
    assert not world.of(other).is_learned
    assert world.of(world.pod("a3", "a")).windows == 10


def test_a_policy_that_does_not_learn_ignores_windows() -> None:
    world = World("cotenant")
    one = world.pod("a", "a")
    world.measure({one: (1.0, 0.6)}, 60.0)
    assert world.engine._components.assignments.estimates.profiles is None
    assert world.param(one, Param.SENSITIVITY) == 0.0
    assert replace(profile("cotenant-learned"), name="cotenant", summary="", learns_interference=False) == replace(
        profile("cotenant"), summary=""
    )
