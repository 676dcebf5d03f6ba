"""The cluster engine against an API server that tells late, twice, out of order, or not at all.

A small truth (what an API server would accept and hold) stands beside the engine: it takes binds as a real one does (a
wrong or bound pod is a conflict, an unknown node is no obstacle) and its events reach the engine as hypothesis pleases.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, ClearNomination, Preempt
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

CAPACITY = 3
NODES = ("a", "b", "c")

Event = tuple[str, str, ObservedPod | Node | None]


def node(name: str) -> Node:
    return Node(name, Amounts.of({"cpu": CAPACITY * 1000, "memory": 64 << 30}), Labels.of({HOSTNAME: name}))


class Truth:
    """What the API server holds, and the events that it owes."""

    def __init__(self) -> None:
        self.pods: dict[str, ObservedPod] = {}
        self.nodes: dict[str, Node] = {}
        self.owed: list[Event] = []
        self.binds: dict[str, int] = {}  # uid -> binds that were accepted
        self._born = 0

    def add_node(self, name: str) -> None:
        if name not in self.nodes:
            self.nodes[name] = node(name)
            self.owed.append(("node", name, self.nodes[name]))

    def delete_node(self, name: str) -> None:
        if self.nodes.pop(name, None):
            self.owed.append(("node gone", name, None))

    def create(self, name: str, cpu: int, priority: int) -> None:
        self._born += 1
        made = ObservedPod(
            Pod(name, requests=Amounts.of({"cpu": cpu * 1000, "memory": 1 << 20}), priority=priority),
            f"{name}-{self._born}",
            "cotenant",
            float(self._born),
        )
        if any(pod.pod.name == name for pod in self.pods.values()):
            return
        self.say(made)

    def say(self, pod: ObservedPod) -> None:
        self.pods[pod.uid] = pod
        self.owed.append(("pod", pod.uid, pod))

    def delete(self, uid: str) -> None:
        if self.pods.pop(uid, None):
            self.owed.append(("pod gone", uid, None))

    def bind(self, uid: str, name: str) -> bool:
        pod = self.pods.get(uid)
        if pod is None or pod.node:
            return False
        self.binds[uid] = self.binds.get(uid, 0) + 1
        self.say(replace(pod, node=name))
        return True

    def used(self, name: str) -> int:
        return sum(p.pod.requests.get("cpu") for p in self.pods.values() if p.node == name and not p.phase.is_final)


def deliver(cluster: Cluster, event: Event, now_s: float) -> None:
    kind, name, value = event
    if isinstance(value, ObservedPod):
        cluster.pod_seen(value, now_s)
    elif isinstance(value, Node):
        cluster.node_seen(value)
    elif kind == "pod gone":
        cluster.pod_gone(name, now_s)
    else:
        cluster.node_gone(name, now_s)


def obey(cluster: Cluster, truth: Truth, now_s: float, lose_answer: bool = False) -> None:
    """Carry out one round of instructions."""
    for instruction in cluster.decide(now_s):
        if isinstance(instruction, Bind):
            if not cluster.sending(instruction.uid, now_s):
                continue
            accepted = truth.bind(instruction.uid, instruction.node)
            if lose_answer:
                cluster.bind_failed(instruction.uid, "the connection broke", now_s)
            elif accepted:
                cluster.bound(instruction.uid, now_s)
            else:
                cluster.bind_failed(instruction.uid, "conflict", now_s, retry=instruction.uid in truth.pods)
        elif isinstance(instruction, Preempt):
            if lose_answer:
                cluster.preempt_failed(instruction.uid, now_s)
                continue
            for i, victim in enumerate(instruction.victims):
                pod = truth.pods.get(victim.uid)
                if pod is not None and i % 2:
                    truth.say(replace(pod, ends_s=now_s + 30.0))  # takes its grace, and goes when somebody deletes it
                else:
                    truth.delete(victim.uid)
        else:
            assert isinstance(instruction, ClearNomination) or instruction.message


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add node"), st.sampled_from(NODES)),
        st.tuples(st.just("delete node"), st.sampled_from(NODES)),
        st.tuples(st.just("create"), st.integers(0, 9), st.integers(1, CAPACITY), st.integers(0, 2)),
        st.tuples(st.just("delete"), st.integers(0, 30)),
        st.tuples(st.just("finish"), st.integers(0, 30)),
        st.tuples(st.just("deliver"), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("decide"), st.booleans()),
    ),
    max_size=60,
)


def play(steps: list[tuple[object, ...]], ordered: bool) -> tuple[Cluster, Truth]:
    """`ordered`: events come late but each object's in order, as a watch gives them; else as they please."""
    truth = Truth()
    cluster = Cluster(profile("first-fit"), np.random.default_rng(0), EngineSettings(max_pods=4))
    now_s = 0.0
    for name in NODES[:2]:
        truth.add_node(name)
    for step in steps:
        now_s += 0.7
        match step:
            case ("add node", str(name)):
                truth.add_node(name)
            case ("delete node", str(name)):
                truth.delete_node(name)
            case ("create", int(name), int(cpu), int(priority)):
                truth.create(f"p{name}", cpu, priority)
            case ("delete", int(i)) if truth.pods:
                truth.delete(sorted(truth.pods)[i % len(truth.pods)])
            case ("finish", int(i)) if truth.pods:
                pod = truth.pods[sorted(truth.pods)[i % len(truth.pods)]]
                if pod.node:
                    truth.say(replace(pod, phase=PodPhase.SUCCEEDED))
            case ("deliver", int(i), bool(again)) if truth.owed:
                at = 0 if ordered else i % len(truth.owed)
                event = truth.owed[at] if again else truth.owed.pop(at)
                deliver(cluster, event, now_s)
            case ("decide", bool(lose)):
                obey(cluster, truth, now_s, lose)
            case _:
                pass
        cluster.validate()
    return cluster, truth


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_late_and_doubled_events_never_bind_twice_and_never_overfill(steps: list[tuple[object, ...]]) -> None:
    cluster, truth = play(steps, ordered=True)
    assert all(times == 1 for times in truth.binds.values())
    for name in NODES:
        assert truth.used(name) <= CAPACITY * 1000
    assert cluster.over_capacity() == ()


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_in_any_order_the_engine_stays_whole_and_comes_to_the_truth(steps: list[tuple[object, ...]]) -> None:
    cluster, truth = play(steps, ordered=False)
    assert all(times == 1 for times in truth.binds.values())
    # a relist: what is there is seen, what is not is gone
    for uid in set(cluster._pods.by_uid) - set(truth.pods):
        cluster.pod_gone(uid, 1e3)
    for name in set(cluster._nodes) - set(truth.nodes):
        cluster.node_gone(name, 1e3)
    for known in truth.nodes.values():
        cluster.node_seen(known)
    for pod in truth.pods.values():
        cluster.pod_seen(pod, 1e3)
    cluster.validate()
    seats = {uid: pod.node for uid, pod in truth.pods.items() if pod.occupies}
    assert cluster.assigned() == seats
    afresh = Cluster(profile("first-fit"), np.random.default_rng(0))
    for known in truth.nodes.values():
        afresh.node_seen(known)
    for pod in truth.pods.values():
        afresh.pod_seen(pod, 1e3)
    afresh.validate()
    assert afresh.assigned() == seats
    assert {u for u in cluster._pods.by_uid if not cluster._pods.by_uid[u].node} == {
        u for u in afresh._pods.by_uid if not afresh._pods.by_uid[u].node
    }


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_nothing_is_lost(steps: list[tuple[object, ...]]) -> None:
    """With events delivered and answers given, whoever fits somewhere is bound in the end."""
    cluster, truth = play(steps, ordered=True)
    now_s = 1e3
    for _ in range(40):
        now_s += 301.0
        for event in truth.owed:
            deliver(cluster, event, now_s)
        truth.owed.clear()
        for pod in list(truth.pods.values()):
            if pod.terminating:
                truth.delete(pod.uid)
        obey(cluster, truth, now_s)
    cluster.validate()
    assert not cluster.reserved()
    for pod in truth.pods.values():
        if not pod.node:
            assert all(truth.used(name) + pod.pod.requests.get("cpu") > CAPACITY * 1000 for name in truth.nodes)
