"""Shards that lend one another room of a quota, over engines of their own."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from bench.shards import OneOf, Server, Table

from cotenant.engine.framework.instructions import Bind
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, OwnedBy
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.gang import GangNotes
from cotenant.model.groups.quota import NAME, PREEMPTIBLE, Quota, QuotaObject
from cotenant.model.resources import Amounts

pytestmark = pytest.mark.slow

GIB = 1 << 30
NODES = tuple(Node(f"n{i}", Amounts.of({"cpu": 4000, "memory": 16 * GIB, "pods": 110})) for i in range(12))


def pod(name: str, workload: str, node: str = "", priority: int = 0) -> ObservedPod:
    owner = OwnedBy("apps/v1", "ReplicaSet", workload, workload, controller=True)
    requests = Amounts.of({"cpu": 1000, "memory": GIB})
    made = Pod(name, requests=requests, labels=Labels.of({NAME: "team"}), priority=priority)
    return ObservedPod(made, f"uid-{name}", "cotenant", 0.0, node=node, owned_by=(owner,))


def quota(cores: int, name: str = "team", parent: str = "all", least: int | None = None) -> QuotaObject:
    amounts, kept = (Amounts.of({"cpu": 1000 * count}) for count in (cores, cores if least is None else least))
    return QuotaObject(f"default/{name}", f"uid-{name}", Quota(name, amounts, kept, parent))


def parent(cores: int) -> QuotaObject:
    amounts = Amounts.of({"cpu": 1000 * cores})
    return QuotaObject("default/all", "uid-all", Quota("all", amounts, amounts, is_parent=True))


class Sharing:
    """Some shards with one quota, each of which hears of everything; the server checks the quota at every bind."""

    def __init__(self, count: int, cores: int) -> None:
        self.table = Table()
        self.cores = cores
        self.all = [OneOf("cotenant-requests", slot, self.table) for slot in range(count)]
        self.pods: dict[str, ObservedPod] = {}
        self.by: dict[str, int] = {}  # UID -> the slot that bound it
        self.deaf: set[int] = set()  # slots whose watch of pods stands still
        self.unheard: dict[int, list[ObservedPod]] = {}
        self.quotas_seen(parent(cores), quota(cores))
        for one in self.all:
            assert one.shard is not None
            one.shard.begin(one.slot)
            for node in NODES:
                one.shard.node_seen(node)
        self.server = Server({node.name: 4000 for node in NODES})
        self.turn(6 * count)

    def quotas_seen(self, *given: QuotaObject) -> None:
        for one in self.all:
            for made in given:
                one.cluster.plugins.quotas.quota_seen(made, one.now_s)
            assert one.shard is not None
            one.pods.sort()

    def turn(self, times: int = 1, seconds: float = 0.25) -> None:
        for _ in range(times):
            for one in self.all:
                one.now_s += seconds
                asyncio.run(one.turn())
                for bind in one.decide():
                    self._bind(one, bind)

    def _bind(self, one: OneOf, bind: Bind) -> None:
        one.cluster.sending(bind.uid, one.now_s)
        seen = self.pods[bind.uid]
        assert self.server.bind(bind, seen)
        self.by[bind.uid] = one.slot
        assert len(self.server.bound) <= self.cores, "the quota is overrun"
        one.cluster.bound(bind.uid, one.now_s)
        for other in self.all:
            other.seen(replace(seen, node=bind.node))

    def submit(self, *pods: ObservedPod) -> None:
        for seen in pods:
            self.pods[seen.uid] = seen
            for one in self.all:
                one.seen(seen)

    def end(self, name: str) -> None:
        uid = f"uid-{name}"
        node = self.server.bound.pop(uid)
        self.server.free[node] += 1000
        for one in self.all:
            one.pods.pod_gone(uid, one.now_s)

    def validate(self) -> None:
        for one in self.all:
            one.cluster.validate()


def test_pods_of_one_quota_are_placed_by_several_shards_and_never_more_than_it_has() -> None:
    sharing = Sharing(3, cores=30)
    sharing.submit(*(pod(f"p{i}", f"w{i % 9}") for i in range(40)))
    sharing.turn(60)
    assert len(sharing.server.bound) == 30
    sharing.validate()


def slow_owner(sharing: Sharing) -> OneOf:
    """The shard of the quota's tree; it decides for nothing from now on, and goes on lending."""
    one = next(one for one in sharing.all if one.pods._owns("quota:"))
    one.decide = list  # type: ignore[method-assign]
    return one


def test_where_the_quotas_shard_is_busy_others_ask_for_room_and_return_it() -> None:
    sharing = Sharing(3, cores=30)
    busy = slow_owner(sharing)
    sharing.submit(*(pod(f"p{i}", f"w{i}") for i in range(24)))
    sharing.turn(30)
    others = set(sharing.by.values())
    assert busy.slot not in others
    assert len(others) == 2
    home = [one.pods.home(pod("p0", f"w{i}")) for one in sharing.all[:1] for i in range(24)]
    assert all(found is not None for found in home)
    sharing.turn(40)
    assert not sharing.table.table.rooms
    assert all(not one.cluster.plugins.quotas.shared.borrows for one in sharing.all)
    sharing.validate()


def test_what_is_lent_counts_until_it_is_returned_and_what_ends_is_free_for_all() -> None:
    sharing = Sharing(2, cores=8)
    slow_owner(sharing)
    sharing.submit(*(pod(f"p{i}", f"w{i}") for i in range(40)))  # more of the other shard than the quota has room for
    sharing.turn(40)
    placed = set(sharing.server.bound)
    assert 0 < len(placed) <= 8
    for uid in sorted(placed)[:4]:
        sharing.end(uid.removeprefix("uid-"))
    sharing.turn(80)
    assert len(sharing.server.bound) > len(placed) - 4
    sharing.validate()


def members(gang: str, count: int, **more: Any) -> list[ObservedPod]:
    notes = GangNotes(name=gang, min_available=count)
    made = [replace(pod(f"{gang}-{i}", f"{gang}-w{i}"), demands=Demands(gang=notes)) for i in range(count)]
    return [replace(one, pod=replace(one.pod, **more)) for one in made] if more else made


def test_a_gang_is_decided_by_one_shard_as_a_whole_also_by_lent_room() -> None:
    sharing = Sharing(3, cores=30)
    busy = slow_owner(sharing)
    gangs = [members(f"g{number}", 4) for number in range(8)]
    sharing.submit(*(one for gang in gangs for one in gang))
    sharing.turn(40)
    placed = [gang for gang in gangs if gang[0].uid in sharing.by]
    assert 0 < len(placed) < len(gangs)  # those whose own shard is the busy one wait for it
    assert all(len({sharing.by.get(one.uid) for one in gang}) == 1 for gang in gangs)
    assert busy.slot not in sharing.by.values()
    sharing.turn(40)
    assert not sharing.table.table.rooms
    sharing.validate()


def test_a_gang_for_which_not_all_room_is_there_is_lent_nothing() -> None:
    sharing = Sharing(3, cores=3)
    slow_owner(sharing)
    for number in range(6):
        sharing.submit(*members(f"g{number}", 4))
    for _ in range(40):
        sharing.turn()
        assert not any(room.is_lent for room in sharing.table.table.rooms.values())
    assert not sharing.by


def test_room_for_pods_that_nobody_may_preempt_is_of_the_guarantee_too() -> None:
    sharing = Sharing(3, cores=20)
    sharing.quotas_seen(quota(20, least=6))
    slow_owner(sharing)
    kept = [pod(f"k{i}", f"w{i}") for i in range(24)]
    labels = Labels.of({NAME: "team", PREEMPTIBLE: "false"})
    sharing.submit(*(replace(one, pod=replace(one.pod, labels=labels)) for one in kept))
    sharing.turn(40)
    assert len(sharing.by) == 6
    sharing.submit(*(pod(f"p{i}", f"w{i}") for i in range(24)))
    sharing.turn(40)
    assert len(sharing.by) == 20
    sharing.validate()


def test_a_quota_that_shrinks_or_goes_is_not_lent_any_further() -> None:
    sharing = Sharing(2, cores=20)
    slow_owner(sharing)
    sharing.submit(*(pod(f"p{i}", f"w{i}") for i in range(12)))
    for _ in range(12):
        sharing.turn()
        if any(room.is_lent for room in sharing.table.table.rooms.values()):
            break
    before = len(sharing.server.bound)
    sharing.quotas_seen(quota(1))
    sharing.turn(20)
    assert len(sharing.server.bound) <= max(before, 1)
    for one in sharing.all:
        one.cluster.plugins.quotas.quota_gone("default/team", one.now_s)
        one.pods.sort()
    sharing.turn(10)
    assert not sharing.table.table.rooms
    sharing.validate()


def test_who_asks_for_a_pod_is_told_whose_room_it_waits_for() -> None:
    sharing = Sharing(2, cores=2)
    busy = slow_owner(sharing)
    other = sharing.all[1 - busy.slot]
    homes = {f"w{i}": other.pods.home(pod(f"pw{i}", f"w{i}")) for i in range(20)}
    theirs = [name for name, home in homes.items() if home is not None and other.pods._owns(home.group)]
    sharing.submit(*(pod(f"p{name}", name) for name in theirs))
    said: set[str] = set()
    for _ in range(20):
        sharing.turn()
        waiting = [name for name in theirs if f"uid-p{name}" not in sharing.server.bound]
        assert other.shard is not None
        said.add(other.shard.of_pod(f"default/p{waiting[0]}"))
    lent = f"by room of quota team that shard {busy.slot} lends"
    assert any(lent in words for words in said), said
    assert len(sharing.server.bound) == 2
