"""Batch pods and what nodes lend for as long as they stay, in the engine."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Unschedulable
from cotenant.engine.plugins.stays.plugin import REASON
from cotenant.engine.plugins.stays.stays import MIN_SAMPLES
from cotenant.model.cluster.annotations import LENT_TERMS
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, OwnedBy, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import BATCH_CPU, Amounts
from cotenant.policy.placement.profiles import profile

OFFERED = Amounts.of({"cpu": 100_000, "memory": 1 << 38, "pods": 200, BATCH_CPU: 50_000})


def _node(name: str, holds: dict[str, int] | None) -> Node:
    written = {} if holds is None else {LENT_TERMS: json.dumps({"amounts": {}, "holds": {"batch-cpu": holds}})}
    return Node(name, OFFERED, annotations=Labels.of(written))


def _pod(name: str, asked_m: int, job: str) -> ObservedPod:
    requests = Amounts.of({BATCH_CPU: asked_m})
    owner = OwnedBy("batch/v1", "Job", job, job, controller=True)
    return ObservedPod(Pod(name, namespace="ns", requests=requests), f"uid-{name}", "cotenant", 0.0, owned_by=(owner,))


class World:
    """One engine whose binds are confirmed at once."""

    def __init__(self, *nodes: Node) -> None:
        self.cluster = Cluster(profile("first-fit"), np.random.default_rng(1))
        for node in nodes:
            self.cluster.node_seen(node)
        self.now_s = 1.0
        self.told = ""

    def place(self, name: str, asked_m: int, job: str = "new") -> str:
        """The node of a pod, empty = none."""
        seen = _pod(name, asked_m, job)
        self.cluster.pod_seen(seen, self.now_s)
        found = ""
        for instruction in self.cluster.decide(self.now_s):
            if isinstance(instruction, Bind):
                assert self.cluster.sending(instruction.uid, self.now_s)
                self.cluster.bound(instruction.uid, self.now_s)
                self.cluster.pod_seen(replace(seen, node=instruction.node, phase=PodPhase.RUNNING), self.now_s)
                found = instruction.node
            elif isinstance(instruction, Unschedulable):
                self.told = instruction.message
        self.cluster.validate()
        return found

    def run(self, job: str, stay_s: float, count: int = 3) -> None:
        """So many pods of a job stay for so long."""
        for number in range(count):
            name = f"{job}-{number}"
            assert self.place(name, 1, job)
            self.now_s += stay_s
            self.cluster.decide(self.now_s)
            self.cluster.pod_gone(f"uid-{name}", self.now_s)


def test_a_pod_whose_stay_is_not_known_counts_against_what_holds_longest() -> None:
    world = World(_node("a", {"4": 20_000, "24": 5_000}), _node("b", {"4": 30_000, "24": 12_000}))
    assert world.place("p", 10_000) == "b"
    assert world.place("q", 10_000) == ""
    assert REASON in world.told


def test_pods_of_a_short_job_take_what_holds_for_the_hour() -> None:
    world = World(_node("a", {"4": 20_000, "24": 5_000}))
    world.run("short", 600.0)
    assert world.place("p", 45_000, "short") == "a"


def test_pods_of_a_few_hours_count_against_what_holds_for_four() -> None:
    world = World(_node("a", {"4": 20_000, "24": 5_000}))
    world.run("middle", 2.5 * 3600)
    assert world.place("p", 15_000, "middle") == "a"
    assert world.place("q", 10_000, "middle") == ""


def test_what_others_hold_counts_until_they_leave() -> None:
    world = World(_node("a", {"24": 10_000}))
    assert world.place("p", 8_000) == "a"
    assert world.place("q", 8_000) == ""
    world.cluster.pod_gone("uid-p", 5.0)
    world.now_s = 100.0
    assert world.place("r", 8_000) == "a"


def test_nodes_that_say_nothing_are_judged_by_their_amount() -> None:
    world = World(_node("a", None), _node("b", {"24": 0}))
    assert world.place("p", 50_000) == "a"


def test_pods_that_were_there_before_a_node_says_so_are_counted() -> None:
    world = World(_node("a", None))
    assert world.place("p", 30_000) == "a"
    world.cluster.node_seen(_node("a", {"24": 35_000}))
    assert world.place("q", 10_000) == ""
    world.cluster.node_seen(_node("a", {"24": 45_000}))
    world.now_s = 1000.0
    assert world.place("r", 10_000) == "a"


@pytest.mark.parametrize("leaves", [False, True])
def test_pods_are_counted_once_when_nodes_fall_silent_and_speak_again(leaves: bool) -> None:
    world = World(_node("a", {"24": 30_000}))
    assert world.place("p", 20_000) == "a"
    world.cluster.node_seen(_node("a", None))
    if leaves:
        world.cluster.pod_gone("uid-p", 2.0)
    assert world.place("q", 1_000) == "a"
    world.cluster.node_seen(_node("a", {"24": 30_000}))
    world.now_s = 100.0
    assert world.place("r", 8_000) == "a"
    world.now_s = 200.0
    assert world.place("s", 5_000) == ("a" if leaves else "")


def test_stays_of_pods_that_ran_before_a_node_spoke_teach_nothing() -> None:
    world = World(_node("a", None))
    world.now_s = 1e6
    for number in range(MIN_SAMPLES):
        assert world.place(f"old-{number}", 1, "old") == "a"
    world.cluster.node_seen(_node("a", {"4": 20_000, "24": 5_000}))
    world.now_s += 60.0
    world.cluster.decide(world.now_s)
    for number in range(MIN_SAMPLES):
        world.cluster.pod_gone(f"uid-old-{number}", world.now_s)
    assert world.cluster.plugins.lent_for_stay.stays.expected_s("ns/Job/old") is None
    world.run("new", 600.0, MIN_SAMPLES)
    assert world.cluster.plugins.lent_for_stay.stays.expected_s("ns/Job/new") == 600.0


def test_an_annotation_that_cannot_be_read_restricts_nothing() -> None:
    broken = Node("a", OFFERED, annotations=Labels.of({LENT_TERMS: '{"holds": [1, {"batch-cpu"'}))
    assert World(broken).place("p", 50_000) == "a"
