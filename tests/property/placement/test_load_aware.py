"""For any events: rows equal rows written now, cached masks equal fresh masks, and runs choose as single pods do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases

from cotenant.engine.cluster import Cluster
from cotenant.engine.cycle.runs import place_in_runs
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.load.rules import LoadAware
from cotenant.engine.state.narrowing import Narrowing
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.annotations import USAGE_THRESHOLDS
from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.cluster.report import NodeReport
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, Statistic, Use, UseWindow
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.placement.load_aware.filtering import enough, max_used, percent
from cotenant.policy.placement.load_aware.forecast import DecayedHistory, LoadForecast
from cotenant.policy.placement.load_aware.scoring import score, score_rows
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings, LoadShares, Percentile, Percentiles
from cotenant.policy.placement.profiles import profile

GI = 1 << 30
OWN = Labels.of({USAGE_THRESHOLDS: '{"usageThresholds": {"cpu": 30}, "prodUsageThresholds": {"memory": 50}}'})
SETTINGS = (
    LoadAwareSettings(score_weight=0.0),
    LoadAwareSettings(score_weight=0.0, prod_thresholds=LoadShares(40, 60), expects_s=20.0),
    LoadAwareSettings(score_weight=3.0, schedule_when_expired=True, expires_s=30.0, scores_by_prod=True),
    LoadAwareSettings(
        score_weight=1.0,
        percentiles=Percentiles(LoadShares(55), Percentile(Statistic.P95), Percentile(Statistic.P50, 300)),
    ),
    LoadAwareSettings(
        score_weight=0.0, percentiles=Percentiles(LoadShares(55), Percentile(Statistic.P95, 300)), filters_expired=False
    ),
    LoadAwareSettings(score_weight=0.0, forecast=LoadForecast(80, 60.0, 5)),
)


def a_node(rng: np.random.Generator, i: int) -> Node:
    cpu = int(rng.choice([4000, 8000]))
    notes = OWN if rng.random() < 0.2 else NO_LABELS
    return Node(f"n{i}", Amounts.of({"cpu": cpu, "memory": 16 * GI}), annotations=notes)


def a_pod(rng: np.random.Generator, name: str) -> Pod:
    amounts = Amounts.of({"cpu": int(rng.choice([200, 1000])), "memory": GI}) if rng.random() < 0.8 else NOTHING
    limits = Amounts.of({"cpu": 2000}) if rng.random() < 0.3 else NOTHING
    its = PriorityClass(str(rng.choice(["prod", "batch", "free", ""])))
    return Pod(name, requests=amounts, limits=limits, priority_class=its)


def a_metric(rng: np.random.Generator, name: str, pods: list[str]) -> NodeMetric:
    def use() -> Use:
        return Use(int(rng.integers(0, 6000)), int(rng.integers(0, 12 * GI)))

    windows = tuple(
        UseWindow(seconds, {statistic: use() for statistic in (Statistic.P50, Statistic.P95) if rng.random() < 0.7})
        for seconds in (300, 600)
        if rng.random() < 0.7
    )
    known = [key for key in pods if rng.random() < 0.6]
    measured = {key: MeasuredPod(use(), PriorityClass(str(rng.choice(["prod", ""])))) for key in known}
    age_s = float(rng.choice([0.0, 1.0, 40.0, np.nan]))
    return NodeMetric(name, age_s, 20, use() if rng.random() < 0.95 else None, windows, measured)


class World:
    """A cluster with changing nodes, metrics and pods."""

    def __init__(self, seed: int, chosen: LoadAwareSettings) -> None:
        self.rng = np.random.default_rng(seed)
        self.load = LoadAware(chosen)
        self.cluster = Cluster(
            profile("least-allocated"), np.random.default_rng(1), plugins=PluginRegistry(load_aware=self.load)
        )
        self.now_s = 100.0
        self.born = 0
        self.pods: dict[str, ObservedPod] = {}

    def step(self) -> None:
        rng, now_s = self.rng, self.now_s
        name = f"n{int(rng.integers(4))}"
        match int(rng.integers(11)):
            case 0 | 1:
                self.cluster.node_seen(a_node(rng, int(name[1:])))
            case 2:
                self.cluster.node_gone(name, now_s)
            case 3 | 4 | 5:
                keys = [f"default/{pod.pod.name}" for pod in self.pods.values()]
                self.load.metric_seen(a_metric(rng, name, keys), now_s)
            case 6:
                self.load.metric_gone(name, now_s)
            case 7:
                report = NodeReport(
                    name, 8.0, float(rng.uniform(0, 6)), 16.0 * GI, float(GI), 0.0, 0.0, 0.5, 1.0, now_s - 5.0
                )
                self.load.report_seen(report, now_s)
            case 8 | 9:
                for _ in range(int(rng.integers(1, 6))):
                    self.born += 1
                    on = name if rng.random() < 0.2 else ""
                    started_s = now_s - float(rng.integers(60)) if on else float("nan")
                    made = ObservedPod(
                        a_pod(rng, f"p{self.born % 12}"),
                        f"u{self.born}",
                        "cotenant",
                        now_s,
                        node=on,
                        started_s=started_s,
                    )
                    if made.pod.name not in {pod.pod.name for pod in self.pods.values()}:
                        self.pods[made.uid] = made
                        self.cluster.pod_seen(made, now_s)
            case _:
                if self.pods:
                    uid = str(rng.choice(sorted(self.pods)))
                    del self.pods[uid]
                    self.cluster.pod_gone(uid, now_s)
        if rng.random() < 0.6:
            for instruction in self.cluster.decide(now_s):
                if (
                    isinstance(instruction, Bind)
                    and rng.random() < 0.8
                    and self.cluster.sending(instruction.uid, now_s)
                ):
                    self.cluster.bound(instruction.uid, now_s)
        self.now_s += float(rng.choice([0.0, 1.0, 15.0, 200.0], p=[0.4, 0.4, 0.15, 0.05]))

    def check_masks(self) -> None:
        """Cached masks and scores equal fresh ones, for every estimate that was used."""
        rows = self.load._rows
        self.load.renew()
        for ask in list(rows._kept):
            cpu, memory = rows.masks(ask)
            scores = rows.scores(ask)
            afresh = rows._anew(ask)
            assert cpu.tolist() == afresh.cpu.tolist()
            assert memory.tolist() == afresh.memory.tolist()
            assert scores.tolist() == afresh.scores.tolist()
            times = rows.times(ask)
            assert ((times > 0) == (cpu & memory & ~rows.closed)).all()


@pytest.mark.slow
@pytest.mark.parametrize("chosen", SETTINGS, ids=range(len(SETTINGS)))
@given(seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=25)
def test_rows_equal_rows_written_now(chosen: LoadAwareSettings, seed: int) -> None:
    world = World(seed, chosen)
    for i in range(40):
        world.step()
        if i % 5 == 4:
            world.cluster.validate()
            world.check_masks()


class Filled:
    """A narrowing with only load-aware rules, and a placement that takes the first row with room."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.encoder = Encoder(half_node_cores=4.0)
        self.load = LoadAware(
            LoadAwareSettings(
                score_weight=0.0, prod_thresholds=LoadShares(50, 0) if rng.random() < 0.5 else LoadShares()
            )
        )
        self.narrowing = Narrowing(self.encoder, (self.load,))
        for i in range(6):
            self.encoder.add_node(replace(a_node(rng, i)))
            if rng.random() < 0.8:
                metric = replace(a_metric(rng, f"n{i}", []), age_s=0.0)
                self.load.metric_seen(metric, 100.0)
        self.preferred = rng.permutation(6)
        shapes = [a_pod(rng, "x") for _ in range(3)]
        self.numbers = np.empty(30, dtype=np.int64)
        for i in range(30):
            pod = replace(shapes[int(rng.integers(3)) if rng.random() < 0.4 else 0], name=f"p{i}")
            self.numbers[i], shape = self.encoder.add_pod(pod)
            self.narrowing.add_pod(int(self.numbers[i]), pod, shape)
        self.runs: list[int] = []

    def one(self, allowed: Mask) -> int:
        return next((int(row) for row in self.preferred if len(allowed) == 0 or allowed[row]), -1)

    def compiled(self, positions: Int, allowed: Mask) -> Int:
        return np.array([self.one(allowed) for _ in positions], dtype=np.int64)

    def repeating(self, positions: Int, times: Int) -> Int:
        self.runs.append(len(positions))
        left, found = times.copy(), []
        for _ in positions:
            row = self.one(left > 0)
            if row >= 0:
                left[row] -= 1
            found.append(row)
        return np.array(found, dtype=np.int64)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=examples(150))
def test_a_run_of_equal_pods_is_placed_as_one_by_one(seed: int) -> None:
    singly, together = Filled(seed), Filled(seed)
    expected = place_in_runs(singly.narrowing, singly.numbers, singly.compiled)
    found = place_in_runs(together.narrowing, together.numbers, together.compiled, None, together.repeating)
    assert found.tolist() == expected.tolist()
    assert together.load._rows.room.tolist() == singly.load._rows.room.tolist()
    together.load.validate()


def test_runs_are_found() -> None:
    assert max(max(Filled(seed).runs or [0]) for seed in range(3)) == 0
    lengths = []
    for seed in range(20):
        filled = Filled(seed)
        place_in_runs(filled.narrowing, filled.numbers, filled.compiled, None, filled.repeating)
        lengths += filled.runs
    assert max(lengths) > 5


@given(st.integers(1, 2**50), st.integers(0, 2**50), st.integers(1, 100))
def test_room_is_what_rounds_to_the_threshold(allocatable: int, used: int, threshold: int) -> None:
    assert (used <= max_used(allocatable, threshold)) == (percent(used, allocatable) <= threshold)


@given(st.integers(0, 2**32 - 1), st.sampled_from(SETTINGS))
@settings(max_examples=examples(50))
def test_scores_of_rows_are_those_of_one(seed: int, chosen: LoadAwareSettings) -> None:
    rng = np.random.default_rng(seed)
    weighted = replace(
        chosen, weights=(int(rng.integers(3)), int(rng.integers(3))), dominant_weight=int(rng.integers(3))
    )
    has, uses = rng.integers(0, 5, (20, 2)), rng.integers(0, 7, (20, 2))
    expected = [score(Use(*a), Use(*b), weighted) for a, b in zip(has.tolist(), uses.tolist(), strict=True)]
    assert score_rows(has, uses, weighted).tolist() == expected


@given(st.integers(-100, 100), st.integers(0, 100), st.integers(-100, 100), st.integers(0, 100))
def test_each_resource_is_judged_by_its_own_headroom(cpu: int, asks_cpu: int, memory: int, asks_memory: int) -> None:
    found = enough(Use(cpu, memory), Use(asks_cpu, asks_memory))
    assert found == (asks_cpu <= cpu, asks_memory <= memory)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=50), st.integers(1, 100))
def test_a_forecasts_quantile_lies_at_most_a_bucket_above_the_samples(values: list[int], pct: int) -> None:
    history = DecayedHistory()
    for value in values:
        history = history.with_sample(value, 0.0, 1.0, 60.0)
    rank = max(0, -(-len(values) * pct // 100) - 1)
    exact = sorted(values)[rank]
    assert exact <= history.quantile(pct, 1.0) * (1 + 1e-9)
    assert history.quantile(pct, 1.0) <= exact * 1.05 * (1 + 1e-9)


test_first_cases = first_cases(
    test_a_run_of_equal_pods_is_placed_as_one_by_one,
    most=8,
)
