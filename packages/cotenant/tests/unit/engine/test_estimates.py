"""Estimates corrected by measurement, and replicas that keep missing their objective."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.arrays import Param, Sum
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod, PodEstimate
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, PodSignals, Use
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import PlacementProfile, profile
from cotenant.policy.rebalance.victims import takeover_limit

GIB = 2**30
REQUESTS = 10_000  # of a window: its sampling error is about 2 %


class World:
    """16-core nodes, and pods each of which is a shape of its own: 4 cores and 8 GiB, declared as used in full."""

    def __init__(self, nodes: int = 3, policy: PlacementProfile | None = None) -> None:
        self.engine = Cluster(policy or profile("cotenant"), np.random.default_rng(0), EngineSettings(max_pods=100))
        for i in range(nodes):
            self.engine.node_seen(Node(f"n{i}", Amounts.of({"cpu": 16_000, "memory": 64 * GIB, "pods": 50})))

    def pod(
        self, i: int, node: str = "", service: bool = False, deadline_s: float = np.inf, like: int | None = None
    ) -> int:
        """A pod that waits, or is found on a node; its number. `like`: the number of its shape, if others have it
        too.
        """
        pod = Pod(
            f"p{i}",
            requests=Amounts.of({"cpu": 4000, "memory": 8 * GIB}),
            tenant=f"t{i if like is None else like}",
            estimate=PodEstimate(4.0, 8 * GIB, 1.0, 1.0, 0.5, np.inf if service else 100.0),
            deadline_s=deadline_s,
            objective_p99_ms=10.0 if service else None,
        )
        self.engine.pod_seen(ObservedPod(pod, pod.name, "cotenant", 0.0, node=node), 0.0)
        return self.engine.number_of(pod.name)

    @property
    def assignments(self):  # type: ignore[no-untyped-def]
        """The engine's arrays, brought up to date."""
        found = self.engine._components.assignments
        found.write()
        return found

    def params(self, number: int, param: Param) -> float:
        return float(self.assignments.ledger.shapes.params[self.assignments.encoder.shape_of(number), param])

    def sums(self, column: Sum) -> list[int]:
        return self.assignments.ledger.nodes.sums[:, column].tolist()

    def measured(self, numbers: list[int], cores: float, memory: float) -> None:
        size = len(numbers)
        self.engine.usage_measured(np.array(numbers, dtype=np.int64), np.full(size, cores), np.full(size, memory), 60.0)

    def moved(self, number: int, now_s: float, violated: bool = True) -> list[str]:
        """Who is evicted after this window of one replica."""
        ratio = np.array([1.5 if violated else 0.5])
        self.engine.latency_measured(np.array([number]), ratio, np.array([REQUESTS]), now_s)
        return [instruction.victim.uid for instruction in self.engine.decide(now_s) if isinstance(instruction, Evict)]


def test_what_is_learnt_of_pods_on_lent_resources_is_learnt_by_their_requests_of_those() -> None:
    found = []
    for names in (("cpu", "memory"), ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")):
        world = World()
        for i in range(3):
            size = {"cpu": 16_000, "memory": 64 * GIB, names[0]: 200_000, names[1]: 640 * GIB}
            world.engine.node_seen(Node(f"n{i}", Amounts.of({**size, "pods": 50})))
        numbers = []
        for i in range(30):
            pod = Pod(
                f"p{i}",
                requests=Amounts.of({names[0]: 4000, names[1]: 8 * GIB}),
                tenant=f"t{i}",
                estimate=PodEstimate(4.0, 8 * GIB, 1.0, 1.0, 0.5, 100.0),
            )
            world.engine.pod_seen(ObservedPod(pod, pod.name, "cotenant", 0.0, node=f"n{i % 3}" if i < 24 else ""), 0.0)
            numbers.append(world.engine.number_of(pod.name))
        world.measured(numbers[:24], 1.0, 2.0 * GIB)
        found.append([world.params(number, Param.USE_CPU) for number in numbers])
        assert world.params(numbers[-1], Param.USE_MEMORY) == pytest.approx(2.0 * GIB)
    assert found[0] == found[1]
    assert found[0][-1] == 1.0  # declared 4, but estimates have proved four times too high


def test_a_measured_shape_counts_with_what_was_measured_and_others_follow_what_was_learnt() -> None:
    world = World()
    numbers = [world.pod(i, f"n{i % 3}") for i in range(24)]
    unseen = world.pod(99)
    world.measured(numbers, 1.0, 2.0 * GIB)
    world.engine.validate()
    assert world.sums(Sum.USE_CPU) == [8000, 8000, 8000]
    assert world.params(unseen, Param.USE_CPU) == 1.0  # declared 4, but estimates have proved four times too high
    for i in range(24):
        world.engine.pod_gone(f"p{i}", 61.0)
    assert world.sums(Sum.USE_CPU) == [0, 0, 0]


def test_room_that_a_measurement_reveals_is_used_at_once() -> None:
    world = World(nodes=1)
    numbers = [world.pod(i, "n0") for i in range(4)]
    world.pod(9)
    assert not any(isinstance(instruction, Bind) for instruction in world.engine.decide(1.0))
    world.measured(numbers, 0.5, 1.0 * GIB)
    assert [instruction.uid for instruction in world.engine.decide(61.0) if isinstance(instruction, Bind)] == ["p9"]


def test_a_services_estimate_is_raised_by_its_peak_and_never_lowered() -> None:
    world = World()
    numbers = [world.pod(0, "n0", service=True), world.pod(1, "n1", service=True)]
    for cores in (6.0, 1.0):
        world.engine.usage_measured(np.array(numbers), np.array([cores, 1.0]), np.array([1.0, 1.0]), 60.0)
    assert [world.params(number, Param.USE_CPU) for number in numbers] == [6.0, 4.0]


def test_a_pod_evicted_for_memory_raises_its_shape_at_once() -> None:
    world = World()
    number = world.pod(3, "n0")
    world.engine.outgrew("p3", 20.0 * GIB)
    assert world.params(number, Param.USE_MEMORY) == 20.0 * GIB
    shape = world.assignments.encoder.shape_of(number)
    assert world.assignments.ledger.shapes.sums[shape, Sum.USE_MEMORY] == 20 * GIB
    world.engine.validate()  # the pod keeps what it was placed with until the next revision


def test_slack_shrinks_while_a_pod_waits_and_counts_more() -> None:
    world = World()
    number = world.pod(5, deadline_s=300.0)
    shape = world.assignments.encoder.shape_of(number)
    weights = []
    for now in (0.0, 100.0, 150.0):
        world.assignments.correct_waiting({shape}, now, slack=True, use=False)
        weights.append(int(world.assignments.ledger.shapes.sums[shape, Sum.BATCH_W]))
    assert weights == [2_000_000, 4_000_000, 8_000_000]  # 4 cores / (3 - 1), / (2 - 1), / (1.5 - 1)


def test_what_was_measured_outlives_a_rebuild() -> None:
    world = World()
    number = world.pod(0, "n0")
    world.measured([number], 1.0, 2.0 * GIB)
    world.engine.rebuild(61.0)
    number = world.engine.number_of("p0")
    world.measured([], 0.0, 0.0)  # the next round of measurements, of which this pod is not a part
    assert world.params(number, Param.USE_CPU) == 1.0
    world.engine.validate()


def metric(node: str, cores_m: int, age_s: float = 5.0, **pods: int) -> NodeMetric:
    used = {f"default/{name}": MeasuredPod(Use(cpu_m, 2 * GIB)) for name, cpu_m in pods.items()}
    return NodeMetric(node, age_s, use=Use(cores_m, 0), pods=used)


def test_node_metrics_correct_estimates_together_once_a_minute() -> None:
    world = World()
    numbers = [world.pod(i, f"n{i}") for i in range(3)]
    world.engine.decide(0.0)
    world.engine.metric_seen(metric("n0", 1000, p0=1000), 10.0)
    world.engine.metric_seen(metric("n1", 2000, p1=2000, somebody=100), 20.0)
    world.engine.metric_seen(metric("n2", 500, age_s=600.0, p2=500), 20.0)  # a stale one
    world.engine.decide(30.0)
    assert [world.params(number, Param.USE_CPU) for number in numbers] == [4.0, 4.0, 4.0]
    world.engine.decide(60.0)
    assert [world.params(number, Param.USE_CPU) for number in numbers] == [1.0, 2.0, 4.0]
    world.engine.validate()


def test_an_engine_that_decides_nothing_learns_from_the_same_metrics() -> None:
    world = World(policy=profile("cotenant-learned"))
    world.pod(0, "n0", service=True)
    world.engine.correct(0.0)
    for minute in range(1, 6):
        slow = MeasuredPod(Use(1000, GIB), signals=PodSignals(latency_p99_ms=20.0))
        world.engine.metric_seen(NodeMetric("n0", 1.0, use=Use(1000, GIB), pods={"default/p0": slow}), 60.0 * minute)
        world.engine.correct(60.0 * minute)
        world.engine.correct(60.0 * minute + 5.0)  # once a minute
    found = world.engine.find("default/p0")
    assert found is not None
    learned = world.engine.workload_profile(found.seen.pod)
    assert learned is not None
    assert learned.windows == 5


def test_a_metric_of_another_pod_of_that_name_corrects_nothing() -> None:
    world = World()
    number = world.pod(0, "n0")
    world.engine.decide(0.0)
    world.engine.metric_seen(metric("n1", 1000, p0=1000), 10.0)  # a namesake was there
    world.engine.decide(60.0)
    assert world.params(number, Param.USE_CPU) == 4.0
    entry = world.engine.find("default/p0")
    assert entry is not None
    seen = replace(entry.seen, started_s=100.0)
    world.engine.pod_seen(seen, 100.0)
    world.engine.metric_seen(metric("n0", 1000, p0=1000), 104.0)  # measured at 99: its predecessor
    world.engine.decide(130.0)
    assert world.params(number, Param.USE_CPU) == 4.0
    world.engine.metric_seen(metric("n0", 1000, p0=1000), 160.0)
    world.engine.decide(200.0)
    assert world.params(number, Param.USE_CPU) == 1.0


def test_a_profile_that_does_not_ask_is_not_corrected() -> None:
    engine = Cluster(profile("kube-default"), np.random.default_rng(0))
    assert not engine.wants_measurements
    engine.node_seen(Node("n0", Amounts.of({"cpu": 16_000, "memory": 64 * GIB})))
    pod = Pod("p", requests=Amounts.of({"cpu": 4000}))
    engine.pod_seen(ObservedPod(pod, "p", "cotenant", 0.0, node="n0"), 0.0)
    engine.usage_measured(np.array([engine.number_of("p")]), np.array([1.0]), np.array([1.0]), 1.0)
    engine.latency_measured(np.array([engine.number_of("p")]), np.array([9.0]), np.array([REQUESTS]), 1.0)
    engine.decide(1.0)
    assert engine._components.assignments.ledger.nodes.sums[0, Sum.USE_CPU] == 4000


def test_a_replica_moves_after_consecutive_misses_and_its_successor_rests() -> None:
    world = World()
    replica = world.pod(0, "n0", service=True)
    for i in range(1, 4):
        world.pod(i, "n0")  # beside it a crowd that presses; the other nodes are idle
    assert world.moved(replica, 60.0) == []
    assert world.moved(replica, 120.0, violated=False) == []
    assert world.moved(replica, 180.0) == []
    assert world.moved(replica, 240.0) == ["p0"]
    world.engine.pod_gone("p0", 241.0)
    replica = world.pod(0, "n0", service=True)  # as bad a place as before
    for minute in range(5, 12):
        assert world.moved(replica, 60.0 * minute) == []
    assert world.moved(replica, 240.0 + 1800.0) == ["p0"]
    world.engine.validate()


def test_the_hourly_limit_holds_over_all_replicas_and_ends_after_an_hour() -> None:
    few = profile("cotenant")
    world = World(policy=replace(few, knobs=replace(few.knobs, move_hour_share=0.002)))
    replicas = np.array([world.pod(i, "n0", service=True) for i in range(2)])
    for i in range(2, 4):
        world.pod(i, "n0")

    def moved(minute: int) -> list[str]:
        size = len(replicas)
        world.engine.latency_measured(replicas, np.full(size, 1.5), np.full(size, REQUESTS), 60.0 * minute)
        return [
            instruction.victim.uid
            for instruction in world.engine.decide(60.0 * minute)
            if isinstance(instruction, Evict)
        ]

    first = next((minute, uids) for minute in range(1, 10) if (uids := moved(minute)))
    assert len(first[1]) == 1
    world.engine.pod_gone(first[1][0], 60.0 * first[0] + 1.0)
    replicas = np.array([world.engine.number_of(uid) for uid in ("p0", "p1") if uid not in first[1]])
    assert [moved(first[0] + minute) for minute in range(1, 60)] == [[]] * 59
    assert len(moved(first[0] + 60)) == 1


@pytest.mark.parametrize(("found", "most"), [(True, 1 + takeover_limit(50)), (False, 1)])
def test_replicas_found_on_nodes_move_beside_the_hourly_limit_for_a_time(found: bool, most: int) -> None:
    few = profile("cotenant")
    world = World(nodes=63, policy=replace(few, knobs=replace(few.knobs, move_hour_share=0.002)))
    for i in range(50):
        for j in range(4):
            if not found:
                world.pod(4 * i + j, service=j == 0)  # it waited first
            world.pod(4 * i + j, f"n{i}", service=j == 0)
    replicas = {f"p{4 * i}": world.engine.number_of(f"p{4 * i}") for i in range(50)}
    moved: list[str] = []
    for minute in range(1, 60):
        there = np.array([number for uid, number in replicas.items() if uid not in moved])
        misses = np.where(np.arange(len(there)) < 2, 1.5, 0.5)  # too few to widen the limit
        world.engine.latency_measured(there, misses, np.full(len(there), REQUESTS), 60.0 * minute)
        for instruction in world.engine.decide(60.0 * minute):
            if isinstance(instruction, Evict):
                moved.append(instruction.victim.uid)
                world.engine.pod_gone(instruction.victim.uid, 60.0 * minute)
    assert len(moved) == most


def test_a_replica_stays_where_no_node_is_better() -> None:
    world = World(nodes=1)
    replica = world.pod(0, "n0", service=True)
    world.pod(1, "n0")
    assert [world.moved(replica, 60.0 * minute) for minute in range(1, 6)] == [[]] * 5


def test_a_replica_does_not_move_where_its_own_rules_forbid_the_better_nodes() -> None:
    from cotenant.model.cluster.affinity import PodTerm
    from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector

    engine = Cluster(profile("cotenant"), np.random.default_rng(0))
    for i in range(2):
        size = Amounts.of({"cpu": 16_000, "memory": 64 * GIB, "pods": 50})
        engine.node_seen(Node(f"n{i}", size, Labels.of({HOSTNAME: f"n{i}"})))

    def add(name: str, node: str, service: bool, alone: bool) -> None:
        term = (PodTerm(HOSTNAME, LabelSelector.of({"app": "web"})),)
        estimate = PodEstimate(4.0, 8 * GIB, 1.0, 1.0, 0.5, np.inf if service else 100.0)
        pod = Pod(
            name,
            requests=Amounts.of({"cpu": 4000, "memory": 8 * GIB}),
            estimate=estimate,
            labels=Labels.of({"app": "web"} if alone else {}),
            anti_affinity=term if alone else (),
            objective_p99_ms=10.0 if service else None,
        )
        engine.pod_seen(ObservedPod(pod, name, "cotenant", 0.0, node=node), 0.0)

    add("web-0", "n0", True, True)
    add("web-1", "n1", True, True)
    for i in range(3):
        add(f"crowd-{i}", "n0", False, False)
    for minute in range(1, 5):
        engine.latency_measured(
            np.array([engine.number_of("web-0")]), np.array([1.5]), np.array([REQUESTS]), 60.0 * minute
        )
        assert not any(isinstance(instruction, Evict) for instruction in engine.decide(60.0 * minute))
    engine.validate()


def understated(engine: Cluster, i: int, node: str = "") -> None:
    """A batch pod of a shape of its own that requests 4 cores and declares a tenth of one."""
    pod = Pod(
        f"q{i}",
        requests=Amounts.of({"cpu": 4000, "memory": 4 * GIB}),
        tenant=f"t{i}",
        estimate=PodEstimate(0.1, 1 * GIB, 0.1, 0.1, 1.0, 100.0),
    )
    engine.pod_seen(ObservedPod(pod, pod.name, "cotenant", 0.0, node=node), 0.0)


def test_before_anything_is_measured_pods_are_fitted_by_requests_and_afterwards_by_what_was_measured() -> None:
    """A declaration alone is not believed, nor in the round in which its pod arrives: it would have put six such
    pods on the node.
    """
    engine = Cluster(profile("cotenant"), np.random.default_rng(0), EngineSettings(max_pods=100))
    engine.node_seen(Node("n0", Amounts.of({"cpu": 16_000, "memory": 64 * GIB, "pods": 50})))
    for i in range(6):
        understated(engine, i)
    # 12 of at most 0.76 x 16 cores
    assert sum(isinstance(instruction, Bind) for instruction in engine.decide(0.0)) == 3
    engine.node_seen(Node("n1", Amounts.of({"cpu": 96_000, "memory": 640 * GIB, "pods": 50})))
    for i in range(10, 34):
        understated(engine, i, "n1")
    engine.decide(1.0)
    numbers = np.array([engine.number_of(f"q{i}") for i in range(10, 34)])
    engine.usage_measured(numbers, np.full(24, 2.0), np.full(24, 2.0 * GIB), 60.0)
    understated(engine, 99)
    engine.decide(61.0)
    shapes = engine._components.assignments.ledger.shapes.params
    row = engine._components.assignments.encoder.shape_of(engine.number_of("q99"))
    assert shapes[row, Param.USE_CPU] == pytest.approx(2.0)
    assert shapes[row, Param.USE_MEMORY] == pytest.approx(2.0 * GIB)
    engine.validate()


@pytest.mark.parametrize("shapes_in_all", [8, 1000])
def test_shapes_that_are_not_corrected_again_would_not_change(shapes_in_all: int) -> None:
    rng = np.random.default_rng(0)
    world, arrived, now = World(), 0, 0.0
    for _ in range(200):
        now += 10.0
        what = rng.integers(6)
        if what <= 1 or arrived == 0:
            deadline_s = now + 400.0 if rng.random() < 0.4 else np.inf
            world.pod(
                arrived, service=bool(rng.random() < 0.3), deadline_s=deadline_s, like=int(rng.integers(shapes_in_all))
            )
            arrived += 1
        elif what == 2:
            world.engine.decide(now)
        elif what == 3:
            numbers = [world.engine.number_of(f"p{i}") for i in range(arrived)]
            world.measured(numbers, 4.0 * rng.random(), 9.0 * GIB)
        elif what == 4:
            world.engine.outgrew(f"p{rng.integers(arrived)}", 8.0 * GIB + now)
        else:
            cpu_m = int(rng.integers(1, 5)) * 8000
            world.engine.node_seen(Node("n0", Amounts.of({"cpu": cpu_m, "memory": 64 * GIB, "pods": 50})))
        assignments = world.assignments
        shapes = set(range(assignments.encoder.shape_rows))
        assignments.correct_waiting(shapes, now, slack=True, use=True)
        estimates = assignments.estimates
        estimates._settled.clear()
        assert len(estimates.correct_waiting(shapes, now, slack=True, use=True)) == 0


@pytest.mark.parametrize(("error_sd", "low", "high"), [(0.05, 1.4, 1.57), (2.0, 0.9, 1.1)])
def test_requests_exceed_a_node_only_as_far_as_declared_use_has_been_right(
    error_sd: float, low: float, high: float
) -> None:
    """With declarations that are wrong by a factor of seven, scores are too, and batch crowded on few nodes until
    they were full by use.
    """
    rng = np.random.default_rng(5)
    engine = Cluster(profile("cotenant"), np.random.default_rng(0), EngineSettings(max_pods=1000))

    def add(i: int, use: float, memory: float, node: str = "") -> None:
        declared = PodEstimate(
            use * rng.lognormal(0.0, error_sd), memory * rng.lognormal(0.0, error_sd), 0.1, 0.1, 1.0, 1e4
        )
        amounts = Amounts.of({"cpu": 4000, "memory": 4 * GIB})
        pod = Pod(f"q{i}", requests=amounts, tenant=f"t{i}", estimate=declared)
        engine.pod_seen(ObservedPod(pod, pod.name, "cotenant", 0.0, node=node), 0.0)

    for i in range(2):
        engine.node_seen(Node(f"n{i}", Amounts.of({"cpu": 96_000, "memory": 640 * GIB, "pods": 200})))
    real, used_memory = rng.lognormal(np.log(0.8), 0.3, 24), GIB * rng.lognormal(0.0, 0.3, 24)
    for i in range(24):
        add(i, real[i], used_memory[i], "n0")
    numbers = np.array([engine.number_of(f"q{i}") for i in range(24)])
    engine.usage_measured(numbers, real, used_memory, 60.0)
    for i in range(24, 150):
        add(i, 0.8, float(GIB))
    engine.decide(61.0)
    nodes = engine._components.assignments.ledger.nodes
    assert low < (nodes.requested[:, 0] / nodes.capacity[:, 0]).max() <= high
    engine.validate()
