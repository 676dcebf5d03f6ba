"""Every mover against every set of marks: each mover's own code decides about one pod that it would take otherwise, and
what it does is compared with the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from math import inf

import numpy as np
import pytest
from tests.fakes.cluster import gang_world, quota_world
from tests.fakes.node import node_pods

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Evict, Preempt
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.rebalancer.arbiter import ClusterArbiter
from cotenant.engine.rebalancer.landing import LandingSimulator
from cotenant.engine.rebalancer.settings import MoveLimits, RebalancerSettings
from cotenant.model.cluster.annotations import DO_NOT_DISRUPT, PREFER_NO_EVICTION, SAFE_TO_EVICT
from cotenant.model.cluster.disruption import (
    CANDIDATE_TAINT,
    EFFECTS,
    DisruptionMark,
    DisruptionMarks,
    MarkEffect,
    Mover,
)
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, OwnedBy, PodPhase
from cotenant.model.cluster.pod import Pod, PodEstimate
from cotenant.model.cluster.taints import Match, Taint, TaintEffect, Toleration
from cotenant.model.groups.migration import MigrationJob, PodRef
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.node_state import GroupUse
from cotenant.model.resources import Amounts
from cotenant.policy.nodeqos.eviction.goals import Currency, EvictionGoal, EvictionTrigger
from cotenant.policy.nodeqos.eviction.memory_pressure import MemoryPressureConfig, MemoryPressureMemory, decide
from cotenant.policy.nodeqos.eviction.victims import candidate, choose
from cotenant.policy.placement.profiles import profile
from cotenant.policy.rebalance.loads.pools import NodePool
from cotenant.policy.rebalance.loads.thresholds import Percentages
from cotenant.policy.rebalance.migration.arbitration import ArbitrationVerdict
from cotenant.policy.rebalance.migration.evictable import EvictionFilter, EvictionGate
from cotenant.policy.rebalance.migration.workload_limits import ReplicaShare

GIB = 1 << 30
EVERYTHING = (Toleration(operator=Match.EXISTS),)
TAINTS = {
    DisruptionMark.NODE_REMOVED: Taint("karpenter.sh/disrupted"),
    DisruptionMark.NODE_CANDIDATE: Taint(CANDIDATE_TAINT, effect=TaintEffect.PREFER_NO_SCHEDULE),
}
Marks = tuple[DisruptionMark, ...]


def every_set() -> Iterator[Marks]:
    for size in range(len(DisruptionMark) + 1):
        yield from combinations(DisruptionMark, size)


def on_pod(marks: Marks) -> DisruptionMarks:
    return DisruptionMarks(
        inf if DisruptionMark.DO_NOT_DISRUPT in marks else 0.0,
        DisruptionMark.NOT_SAFE_TO_EVICT in marks,
        DisruptionMark.PREFER_NO_EVICTION in marks,
    )


def on_node(marks: Marks) -> tuple[Taint, ...]:
    return tuple(TAINTS[mark] for mark in marks if mark in TAINTS)


def tolerant(seen: ObservedPod, marks: Marks = ()) -> ObservedPod:
    return replace(seen, pod=replace(seen.pod, tolerations=EVERYTHING), marks=on_pod(marks))


# ---- one function a mover: whether it takes the pod


def rebalancer(marks: Marks, skip: frozenset[EvictionGate] = frozenset(), forced: bool = False) -> bool:
    made = Cluster(profile("kube-default"), np.random.default_rng(0), EngineSettings(schedulers=("cotenant",)))
    made.node_seen(Node("a", Amounts.of({"cpu": 10_000, "memory": GIB, "pods": 50}), taints=on_node(marks)))
    owned = (OwnedBy("apps/v1", "ReplicaSet", "web", "uid-web", True),)
    seen = ObservedPod(Pod("p", requests=Amounts.of({"cpu": 100})), "u", "cotenant", 0.0, "a", PodPhase.RUNNING)
    made.pod_seen(replace(seen, owned_by=owned, marks=on_pod(marks)), 0.0)
    filters = EvictionFilter(
        max_moving=ReplicaShare(3), max_unavailable=ReplicaShare(3), skip=skip | {EvictionGate.MAX_UNAVAILABLE}
    )
    pool = NodePool("p", Percentages({"cpu": 30}, {"cpu": 60}))
    settings = RebalancerSettings((pool,), filter=filters, limits=MoveLimits())
    arbiter = ClusterArbiter(made, settings, {"uid-web": 9}, lambda key: EvictionNotes(is_ready=True, forced=forced))
    job = MigrationJob("job", "ju", PodRef("default", "p", "u"))
    verdict, why = arbiter.arbitrate([job], [], 10.0)["job"]
    assert bool(why) is (verdict is not ArbitrationVerdict.PASSED), why
    assert verdict is ArbitrationVerdict.PASSED or "annotation" in why or "autoscaler" in why, why
    return verdict is ArbitrationVerdict.PASSED


def missed_objective(marks: Marks) -> bool:
    made = Cluster(profile("cotenant"), np.random.default_rng(0), EngineSettings(max_pods=100))
    for i in range(2):
        taints = on_node(marks) if i == 0 else ()
        made.node_seen(Node(f"n{i}", Amounts.of({"cpu": 16_000, "memory": 64 * GIB, "pods": 50}), taints=taints))
    for i in range(4):
        size = Amounts.of({"cpu": 4000, "memory": 8 * GIB})
        estimate = PodEstimate(4.0, 8 * GIB, 1.0, 1.0, 0.5, 100.0 if i else inf)
        pod = Pod(f"p{i}", requests=size, tenant=f"t{i}", estimate=estimate, objective_p99_ms=None if i else 10.0)
        made.pod_seen(tolerant(ObservedPod(pod, f"p{i}", "cotenant", 0.0, node="n0"), () if i else marks), 0.0)
    number, out = made.number_of("p0"), []
    for window in range(1, 4):
        made.latency_measured(np.array([number]), np.array([1.5]), np.array([10_000]), 60.0 * window)
        out += [given for given in made.decide(60.0 * window) if isinstance(given, Evict)]
    return [given.victim.uid for given in out[:1]] == ["p0"]


def preempted(marks: Marks, gang: bool) -> bool:
    made = gang_world.cluster(0)
    for name in ("n0", "n1"):
        made.node_seen(replace(gang_world.node(name), taints=on_node(marks)))
    for name in ("n0", "n1"):
        gang_world.see(made, tolerant(gang_world.pod(f"low-{name}", on=name), marks))
    vips = gang_world.members("vip", 2, priority=10) if gang else [gang_world.pod("vip", priority=10)]
    gang_world.see(made, *map(tolerant, vips))
    out = [given for given in made.decide(0.0) if isinstance(given, Preempt)]
    return sum(len(given.victims) for given in out) == len(vips)


def quota_preemption(marks: Marks) -> bool:
    world = quota_world.World(replace(quota_world.node("n0", 16), taints=on_node(marks)))
    world.write(quota_world.quota("q", 0, 2))
    world.create(tolerant(quota_world.pod("low", 2, "q", on="n0"), marks))
    world.create(tolerant(quota_world.pod("high", 2, "q", priority=5)))
    return quota_world.evicted(world.go()) == ["low"]


def quota_revocation(marks: Marks) -> bool:
    world = quota_world.World(replace(quota_world.node("n", 4), taints=on_node(marks)), revoke_after_s=10.0)
    for name in ("a", "b"):
        world.write(quota_world.quota(name, 2, 4, shared_weight=quota_world.cpu(1)))
    world.create(*(tolerant(quota_world.pod(f"a{i}", 2, "a", started_s=float(i)), marks) for i in range(2)))
    world.go()
    world.create(tolerant(quota_world.pod("b", 2, "b")))
    world.go(2.0)
    return quota_world.evicted(world.go(11.0)) == ["a1"]


def annotations(marks: Marks) -> dict[str, str]:
    texts = {
        DisruptionMark.DO_NOT_DISRUPT: "true",
        DisruptionMark.NOT_SAFE_TO_EVICT: "false",
        DisruptionMark.PREFER_NO_EVICTION: "",
    }
    return {mark.value: text for mark, text in texts.items() if mark in marks}


def agent_shortage(marks: Marks, beside: bool = False) -> bool:
    """`beside`: there is an equal pod without marks, which comes second by name."""
    names = ("a", "b") if beside else ("a",)
    pods = [node_pods.pod(name, annotations=annotations(marks) if name == "a" else {}) for name in names]
    found = [candidate(pod, 0, 10) for pod in pods]
    goal = EvictionGoal(EvictionTrigger.MEMORY_BEST_EFFORT, ((Currency.USED, 10),), Reason("test", "test"), 7999)
    chosen = choose([goal], [one for one in found if one is not None]).victims
    return [one.uid for one, _ in chosen] == ["uid-a"]


def agent_pressure(marks: Marks) -> bool:
    pods = [
        node_pods.using(
            node_pods.pod(name, annotations=annotations(marks) if name == "a" else {}),
            working_set_bytes=size * node_pods.GB,
            memory_stall_ppm=1,
            refaults_per_s=5,
        )
        for name, size in (("a", 9), ("b", 5))
    ]
    state = node_pods.node(pods, best_effort=GroupUse("be", memory_full_stall_ppm=700_000))
    memory = MemoryPressureMemory()
    for second in range(1, 31):
        verdict, memory = decide(replace(state, at_us=second * node_pods.SECOND), MemoryPressureConfig(), memory)
    return [one.uid for one in verdict.evictions] == ["uid-a"]


TAKES: dict[Mover, Callable[[Marks], bool]] = {
    Mover.REBALANCER: rebalancer,
    Mover.MISSED_OBJECTIVE: missed_objective,
    Mover.PREEMPTION: lambda marks: preempted(marks, gang=False),
    Mover.GANG_PREEMPTION: lambda marks: preempted(marks, gang=True),
    Mover.QUOTA_PREEMPTION: quota_preemption,
    Mover.QUOTA_REVOCATION: quota_revocation,
    Mover.AGENT_SHORTAGE: agent_shortage,
    Mover.AGENT_PRESSURE: agent_pressure,
}


@pytest.mark.slow  # thirty-two clusters a mover
@pytest.mark.parametrize("mover", Mover)
def test_every_mover_does_what_the_table_says_about_every_set_of_marks(mover: Mover) -> None:
    for marks in every_set():
        held = any(EFFECTS[mover][mark] is MarkEffect.HOLDS for mark in marks)
        assert TAKES[mover](marks) is not held, marks


def test_a_shortage_takes_unmarked_equals_first() -> None:
    for marks in every_set():
        last = any(EFFECTS[Mover.AGENT_SHORTAGE][mark] is MarkEffect.LAST for mark in marks)
        assert agent_shortage(marks, beside=True) is not last, marks


def test_an_administrator_may_set_owners_marks_aside_and_the_descheduler_s_annotation_does() -> None:
    marks = (DisruptionMark.DO_NOT_DISRUPT,)
    assert not rebalancer(marks)
    assert rebalancer(marks, skip=frozenset({EvictionGate.DISRUPTION_MARKS}))
    assert rebalancer(marks, forced=True)


def test_no_move_lands_on_a_node_that_an_autoscaler_removes_or_may() -> None:
    for taint in (*TAINTS.values(), None):
        made = gang_world.cluster(1)
        made.node_seen(replace(gang_world.node("other"), taints=() if taint is None else (taint,)))
        seen = gang_world.pod("web", on="n0")
        tolerations = tuple(Toleration(other.key, Match.EXISTS) for other in TAINTS.values())
        gang_world.see(made, replace(seen, pod=replace(seen.pod, tolerations=tolerations)))
        entry = made.find("default/web")
        assert entry is not None
        with made.tentative(0.0):
            landing = LandingSimulator(made, 0.0).land(entry, ["other"])
        assert bool(landing.node) is (taint is None)


def test_annotations_are_those_of_the_marks() -> None:
    assert {DO_NOT_DISRUPT, SAFE_TO_EVICT, PREFER_NO_EVICTION} == set(annotations(tuple(DisruptionMark)))
