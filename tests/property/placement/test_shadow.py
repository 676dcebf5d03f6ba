"""A shadow's choice at a bind is that of a scheduler which knows the real binds and this pod, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Preempt
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.shadow.following import NodeSignals
from cotenant.engine.shadow.parking import Parking
from cotenant.engine.shadow.scheduler import ShadowScheduler
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.decisions.shadow import ShadowOutcome, ShadowPicture
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

pytestmark = pytest.mark.slow

NODES = tuple(
    Node(f"n{i}", Amounts.of({"cpu": 3000 + 1000 * i, "memory": 8 << 30}), Labels.of({HOSTNAME: f"n{i}"}))
    for i in range(4)
)


def seen(index: int, cpu: int, priority: int) -> ObservedPod:
    value = Pod(f"p{index}", requests=Amounts.of({"cpu": cpu, "memory": 1 << 20}), priority=priority)
    return ObservedPod(value, f"u{index}", "default-scheduler", float(index))


def engine(*plugins: object, max_pods: int = 1) -> Cluster:
    made = Cluster(
        profile("least-allocated"),
        np.random.default_rng(0),
        EngineSettings(schedulers=("default-scheduler",), max_pods=max_pods),
        PluginRegistry(more=plugins),  # type: ignore[arg-type]
    )
    for node in NODES:
        made.node_seen(node)
    return made


def alone(bound: dict[str, ObservedPod], pod: ObservedPod) -> tuple[str, str]:
    """What a new scheduler does with this pod: the node, or for whom it would evict, or that it waits."""
    fresh = engine()
    for other in bound.values():
        fresh.pod_seen(other, 0.0)
    fresh.pod_seen(pod, 0.0)
    for instruction in fresh.decide(0.0):
        if isinstance(instruction, Bind):
            return "places", instruction.node
        if isinstance(instruction, Preempt):
            return "preempts", instruction.node
    return "waits", ""


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.integers(200, 5000), st.integers(0, 2)),
        st.tuples(st.just("bind"), st.integers(0, 30), st.integers(0, 3)),
        st.tuples(st.just("delete"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("judge"), st.integers(1, 5), st.just(0)),
        st.tuples(st.just("time"), st.integers(1, 90), st.just(0)),
    ),
    min_size=5,
    max_size=40,
)


@settings(max_examples=examples(60), deadline=None)
@given(actions=ACTIONS)
def test_the_choice_is_that_of_a_scheduler_that_knows_the_real_binds_only(
    actions: list[tuple[str, int, int]],
) -> None:
    parking, signals = Parking(), NodeSignals()
    cluster = engine(parking, signals)
    shadow = ShadowScheduler(cluster, parking, signals, lambda: 0.0, 0.0)
    shadow.listed()
    waiting: dict[str, ObservedPod] = {}
    bound: dict[str, ObservedPod] = {}
    made, now_s, expected = 0, 0.0, 0
    for what, first, second in actions:
        if what == "create":
            pod = seen(made, first, second)
            made += 1
            waiting[pod.uid] = pod
            shadow.pod_seen(pod, now_s)
        elif what == "bind" and waiting:
            pod = waiting.pop(list(waiting)[first % len(waiting)])
            real = f"n{second}"
            choice, node = alone(bound, pod)
            placed = replace(pod, node=real)
            before = dict(shadow.outcomes)
            shadow.pod_seen(placed, now_s)
            bound[pod.uid] = placed
            (new,) = (key for key, pods in shadow.outcomes.items() if pods > before.get(key, 0))
            assert new[1] is ShadowPicture.AT_BIND
            if choice == "places" and node == real:
                assert new[0] is ShadowOutcome.AGREED
            elif choice == "places":
                assert new[0] in (ShadowOutcome.OTHER_NODE, ShadowOutcome.EQUAL_SCORE)
                if new[0] is ShadowOutcome.OTHER_NODE:
                    assert shadow.report(now_s).differences[0].ours == node
            else:
                assert new[0] is {"preempts": ShadowOutcome.WOULD_PREEMPT, "waits": ShadowOutcome.WOULD_WAIT}[choice]
            expected += 1
        elif what == "delete" and waiting | bound:
            uid = list(waiting | bound)[first % len(waiting | bound)]
            if uid in waiting:
                expected += 1
            waiting.pop(uid, None)
            bound.pop(uid, None)
            shadow.pod_gone(uid, now_s)
        elif what == "judge":
            for _ in range(first):
                shadow.work(now_s)
        else:
            now_s += first
        assert cluster.assigned() == {uid: pod.node for uid, pod in bound.items()}
        assert not cluster.reserved()
        assert all(entry.state is SchedulingState.BOUND for entry in cluster.every_pod() if entry.node)
    cluster.validate()
    assert sum(shadow.outcomes.values()) == expected
    assert sum(shadow.pending().values()) == len(waiting)
