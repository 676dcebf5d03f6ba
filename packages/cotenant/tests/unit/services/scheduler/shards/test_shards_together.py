"""Shards in one process, over engines of their own: who hears of what, who places, who lends."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from bench.shards import One, OneOf, Server, Table, violating, world

from cotenant.engine.framework.instructions import Bind
from cotenant.engine.plugins.quotas.status import QuotaStatus
from cotenant.engine.sharding.territory import Territory
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, OwnedBy
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.gang import GangNotes
from cotenant.model.resources import Amounts

GIB = 1 << 30
NODES = tuple(Node(f"n{i}", Amounts.of({"cpu": 2000, "memory": 8 * GIB})) for i in range(12))


def pod(name: str, workload: str, node: str = "") -> ObservedPod:
    owner = OwnedBy("apps/v1", "ReplicaSet", workload, workload, controller=True)
    requests = Amounts.of({"cpu": 1000, "memory": GIB})
    return ObservedPod(Pod(name, requests=requests), f"uid-{name}", "cotenant", 0.0, node=node, owned_by=(owner,))


def apart(name: str, workload: str) -> ObservedPod:
    """One whose workload is spread over zones."""
    seen, chosen = pod(name, workload), LabelSelector.of({"app": workload})
    zone = PodTerm("topology.kubernetes.io/zone", chosen, weight=10)
    return replace(seen, pod=replace(seen.pod, anti_affinity=(zone,)))


class Together:
    """Some shards, each of which hears of everything."""

    def __init__(self, count: int) -> None:
        self.table = Table()
        self.all = [OneOf("cotenant-requests", slot, self.table) for slot in range(count)]
        self.pods: dict[str, ObservedPod] = {}
        for one in self.all:
            assert one.shard is not None
            one.shard.begin(one.slot)
            for node in NODES:
                one.shard.node_seen(node)
        self.server = Server({node.name: 2000 for node in NODES})
        self.turn(6 * count)

    def turn(self, times: int = 1, seconds: float = 0.5) -> None:
        for _ in range(times):
            for one in self.all:
                one.now_s += seconds
                asyncio.run(one.turn())
                for bind in one.decide():
                    self._bind(one, bind)

    def _bind(self, one: One, bind: Bind) -> None:
        one.cluster.sending(bind.uid, one.now_s)
        seen = self.pods[bind.uid]
        assert self.server.bind(bind, seen)
        one.cluster.bound(bind.uid, one.now_s)
        for other in self.all:
            other.seen(pod(seen.pod.name, seen.owned_by[0].name, bind.node))

    def submit(self, *pods: ObservedPod) -> None:
        for seen in pods:
            self.pods[seen.uid] = seen
            for one in self.all:
                one.seen(seen)

    def deciding_for(self, name: str) -> list[int]:
        return [one.slot for one in self.all if one.cluster.find(f"default/{name}") is not None]


def test_each_pod_and_each_node_has_one_shard() -> None:
    shards = Together(3)
    shards.submit(*(apart(f"p{i}", f"w{i % 7}") for i in range(14)))
    assert all(len(shards.deciding_for(f"p{i}")) == 1 for i in range(14))
    assert all(shards.deciding_for(f"p{i}") == shards.deciding_for(f"p{i + 7}") for i in range(7))
    shards.submit(*(pod(f"q{i}", "one") for i in range(14)))  # without rules about one another
    assert {*map(tuple, map(shards.deciding_for, (f"q{i}" for i in range(14))))} == {(0,), (1,), (2,)}
    opened = [sum(node.name not in one.cluster.closed.names for node in NODES) for one in shards.all]
    assert sum(opened) == len(NODES)
    assert all(opened)


def test_a_shard_whose_nodes_are_full_borrows_and_returns() -> None:
    shards = Together(2)
    shards.submit(*(pod(f"p{i}", "one") for i in range(24)))  # of one shard, and as many as there is room for
    shards.turn(40)
    assert len(shards.server.bound) == 24
    assert max(one.shard.loans for one in shards.all if one.shard is not None) > 0
    shards.turn(20, seconds=2.0)
    assert not shards.table.table.loans
    for one in shards.all:
        one.cluster.validate()


def test_a_gang_that_needs_nodes_of_others_starts_whole() -> None:
    shards = Together(2)
    notes = GangNotes(name="g", min_available=15)
    members = [replace(pod(f"g{i}", "job"), demands=Demands(gang=notes)) for i in range(15)]
    shards.submit(*members)
    before = 0
    for _ in range(60):
        shards.turn()
        assert len(shards.server.bound) in (before, 15)
        before = len(shards.server.bound)
    assert before == 15
    assert {one.slot for one in shards.all if one.shard is not None and one.shard.loans}


def test_who_asks_for_a_pod_of_another_shard_is_told_which_it_is() -> None:
    shards = Together(2)
    shards.submit(apart("p", "w"), pod("q", "w"))
    (mine,) = shards.deciding_for("p")
    other = shards.all[1 - mine].shard
    own = shards.all[mine].shard
    assert other is not None
    assert own is not None
    assert other.of_pod("default/p") == (
        f"shard {mine}, replica-{mine}, decides for it, by workload w; this is shard {1 - mine}"
    )
    assert own.of_pod("default/p") == f"shard {mine}, this one, decides for it, by workload w"
    assert "decides for it, by its UID" in own.of_pod("default/q")
    assert own.of_pod("default/nobody") == ""
    assert "ring 2" in own.standing()
    assert own.samples()["nodes"] + other.samples()["nodes"] == len(NODES)
    assert other.samples()["others"] + own.samples()["others"] == 2.0


def test_a_status_of_what_all_engines_count_is_written_by_one() -> None:
    shards = Together(3)
    status = QuotaStatus("team/q", "uid")
    assert sum(one.shard.carries_out(status) for one in shards.all if one.shard is not None) == 1


def test_the_bench_counts_services_beyond_their_tolerance() -> None:
    given = world(50, 10, 0)
    assert violating(given, {}) == 0.0
    crowded = {seen.uid: "n0" for seen in given.arrivals}
    assert violating(given, crowded) > 0.0


def test_what_is_ours_follows_the_territory() -> None:
    shards = Together(1)
    pods, waiting = shards.all[0].pods, [pod(f"p{i}", f"w{i}") for i in range(20)]
    shards.submit(*waiting)
    assert len(shards.deciding_for("p3")) == 1
    assert not pods.others
    for _ in range(2):  # what was remembered of the territory before does not count
        pods.occupy(Territory(0, ((0, 1),)))
        theirs = set(pods.others)
        assert 0 < len(theirs) < 20
        pods.occupy(Territory(1, ((0, 1),)))
        assert set(pods.others) == {one.uid for one in waiting} - theirs
