"""Small clusters of real engines that share their nodes: nobody is preempted while another shard has room, by brute
force over what the server has; and nobody waits for ever where a shard that has room is dead, or hears late.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from bench.shards import OneOf, Server, Table

from cotenant.engine.cycle.eviction.room_elsewhere import PATIENCE_S, RoomElsewhere
from cotenant.engine.framework.instructions import Bind, Preempt
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts

pytestmark = pytest.mark.slow

CORES, TURN_S = 4, 0.1
SIZE = Amounts.of({"cpu": 1000 * CORES, "memory": 8 << 30, "pods": 110})
BACKOFF_S = 10.0  # the longest of the queue


def pod(name: str, cores: int, priority: int, node: str = "") -> ObservedPod:
    made = Pod(name, requests=Amounts.of({"cpu": 1000 * cores, "memory": 1 << 20}), priority=priority)
    return ObservedPod(made, f"uid-{name}", "cotenant", 0.0, node=node)


class Small:
    """A cluster nearly full of pods that may be preempted, and some shards. `paces`: of their clocks."""

    def __init__(self, seed: int, dies: bool) -> None:
        self.random = random = Random(seed)
        self.table, self.now_s = Table(), 0.0
        self.all = [OneOf("cotenant-requests", slot, self.table) for slot in range(random.randint(2, 3))]
        self.paces = [random.uniform(0.9, 1.1) for _ in self.all]
        self.dead: set[int] = set()
        nodes = [Node(f"n{i}", SIZE) for i in range(random.randint(5, 9))]
        self.server = Server({node.name: 1000 * CORES for node in nodes})
        self.pods: dict[str, ObservedPod] = {}
        self.since_s: dict[str, float] = {}
        self.preempted: dict[str, float] = {}
        self.ending: list[tuple[float, str]] = []
        self.nominated: dict[str, str] = {}  # preemptors that are not bound yet: the node cleared for each
        self.refused_s: dict[tuple[int, str], float] = {}  # by shard and node: when it last counted as refused
        self.early: list[str] = []
        for one in self.all:
            assert one.shard is not None
            one.now_s += random.uniform(0.0, 1000.0)
            one.shard.begin(one.slot)
            for node in nodes:
                one.shard.node_seen(node)
        for node in nodes:
            for number in range(random.choice((0, 3, 4, 4))):
                low = pod(f"low-{node.name}-{number}", 1, 0, node.name)
                self.server.bound[low.uid] = node.name
                self.server.free[node.name] -= 1000
                self._tell(low)
        self.turn(60)
        if dies:
            self.dead.add(random.randrange(len(self.all)))

    def _tell(self, seen: ObservedPod) -> None:
        self.pods[seen.uid] = seen
        for one in self.all:
            one.seen(seen)

    def submit(self, name: str, cores: int) -> None:
        self._tell(pod(name, cores, 10))
        self.since_s[f"uid-{name}"] = self.now_s

    def turn(self, times: int) -> None:
        for _ in range(times):
            self.now_s += TURN_S
            while self.ending and self.ending[0][0] <= self.now_s:
                self._end(self.ending.pop(0)[1])
            for one in self.all:
                if one.slot not in self.dead:
                    self._turn_of(one)

    def _turn_of(self, one: OneOf) -> None:
        one.now_s += TURN_S * self.paces[one.slot]
        asyncio.run(one.turn())
        assert one.shard is not None
        assert one.shard.member is not None
        self.refused_s.update({(one.slot, node): self.now_s for node in one.shard.member.refused})
        for said in one.cluster.decide(one.now_s):
            if isinstance(said, Bind):
                one.cluster.sending(said.uid, one.now_s)
                assert self.server.bind(said, self.pods[said.uid])
                one.cluster.bound(said.uid, one.now_s)
                self.nominated.pop(said.uid, None)
                self._tell(replace(self.pods[said.uid], node=said.node))
            elif isinstance(said, Preempt) and said.victims:
                self._judge(one, said)
                self.preempted[said.uid] = self.now_s
                self.nominated[said.uid] = said.node
                self.ending += [(self.now_s + self.random.uniform(0.1, 2.0), victim.uid) for victim in said.victims]
                self.ending.sort()

    def _judge(self, one: OneOf, said: Preempt) -> None:
        """Whether nodes of others had room for it: of those that did not refuse, and before its patience was over."""
        rooms = [
            node
            for node in self._with_room(said.uid)
            if node in one.cluster.closed.names and self.now_s - self.refused_s.get((one.slot, node), -9.0) > 1.0
        ]
        if rooms and self.now_s - self.since_s[said.uid] < PATIENCE_S / max(self.paces):
            self.early.append(f"{said.key} on {said.node}, and {rooms} have room")

    def _end(self, uid: str) -> None:
        node = self.server.bound.pop(uid, "")
        if node:
            self.server.free[node] += self.pods[uid].pod.requests.get("cpu")
            for one in self.all:
                one.pods.pod_gone(uid, one.now_s)

    def _with_room(self, uid: str) -> list[str]:
        """The nodes with room for a pod, beside what is kept there for preemptors."""
        free = dict(self.server.free)
        for other, node in self.nominated.items():
            free[node] -= 0 if other == uid else self.pods[other].pod.requests.get("cpu")
        return [node for node, left in free.items() if left >= self.pods[uid].pod.requests.get("cpu")]

    def forgotten(self, one: OneOf, uid: str) -> bool:
        """Whether a pod waits for nothing: its shard could make room, or a node of a living one has it."""
        if uid in self.server.bound or uid in self.preempted or uid in one.pods.others:
            return False
        lows = Counter(self.server.bound[low] for low in self.server.bound if self.pods[low].pod.priority == 0)
        closed, asked = one.cluster.closed.names, self.pods[uid].pod.requests.get("cpu")
        own = [node for node in self.server.free if node not in closed and node not in self.nominated.values()]
        theirs = [node for node in self._with_room(uid) if node in closed and not self.dead]
        return bool(theirs) or any(self.server.free[node] + 1000 * lows[node] >= asked for node in own)

    def arrive(self, most: int) -> list[str]:
        names = [f"urgent-{number}" for number in range(self.random.randint(1, most))]
        for name in names:
            self.submit(name, self.random.randint(1, 3))
            self.turn(self.random.randint(0, 15))
        return [f"uid-{name}" for name in names]


@pytest.mark.parametrize("first", range(0, 16, 4))
def test_nobody_is_preempted_while_another_shard_has_room(first: int) -> None:
    preempted = 0
    for seed in range(first, first + 4):
        small = Small(seed, dies=False)
        urgent = small.arrive(8)
        small.turn(250)
        assert not small.early, f"seed {seed}: {small.early}"
        preempted += len(small.preempted)
        for one in small.all:
            assert not [uid for uid in urgent if small.forgotten(one, uid)], f"seed {seed}"
            one.cluster.validate()
    assert preempted


def test_the_comparison_notices_who_preempts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RoomElsewhere, "awaited", lambda *_: "")
    early: list[str] = []
    for seed in range(4):
        small = Small(seed, dies=False)
        small.arrive(8)
        small.turn(20)
        early += small.early
    assert early


@pytest.mark.parametrize("first", range(100, 108, 4))
def test_nobody_waits_for_ever_for_the_room_of_a_shard_that_is_dead(first: int) -> None:
    for seed in range(first, first + 4):
        small = Small(seed, dies=True)
        urgent = small.arrive(4)
        small.turn(int((PATIENCE_S + 2 * BACKOFF_S) / TURN_S))
        for one in small.all:
            forgotten = [uid for uid in urgent if one.slot not in small.dead and small.forgotten(one, uid)]
            assert not forgotten, f"seed {seed}"
            one.cluster.validate()
