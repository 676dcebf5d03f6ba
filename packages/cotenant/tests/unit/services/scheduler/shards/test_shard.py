"""One shard's term: what it hears of and carries out, how it joins, leaves, and has the binds of a lost one fenced."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pytest
from tests.fakes.waiting import soon

from cotenant.drivers.kube.kinds.custom.elastic_quota import ELASTIC_QUOTAS
from cotenant.drivers.kube.kinds.custom.reservation import RESERVATIONS
from cotenant.drivers.kube.kinds.custom.workload_profile import WORKLOAD_PROFILES
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Evict
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.plugins.quotas.status import QuotaStatus
from cotenant.engine.plugins.reservations.instructions import DeleteReservation
from cotenant.engine.sharding.member import FenceLost
from cotenant.engine.sharding.territory import Territory
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, OwnedBy
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import Transient
from cotenant.model.groups.gang import PodGroupStatus
from cotenant.model.resources import Amounts
from cotenant.model.shards.table import ShardRing, ShardTable, SlotMember
from cotenant.policy.placement.profiles import profile
from cotenant.services.scheduler.shards.pods_of_shard import PodsOfShard
from cotenant.services.scheduler.shards.shard import Shard
from cotenant.services.scheduling.custom_kinds import CustomKind

RING_OF_TWO = ((0, 1),)
GROUPS = tuple(f"g{i}" for i in range(40))
NO_ROOMS = {"quotas_borrowed": 0.0, "quotas_lent": 0.0}


@dataclass
class Register:
    """The agreement, in memory. `holders`: by slot, where it is not the member itself; `error`: of the next reads."""

    table: ShardTable = field(default_factory=ShardTable)
    version: int = 1
    conflicts: int = 0
    holders: dict[int, str] = field(default_factory=dict)
    error: Exception | None = None
    asked: list[int] = field(default_factory=list)

    async def read(self) -> tuple[ShardTable, int]:
        if self.error is not None:
            raise self.error
        return self.table, self.version

    async def replace(self, table: ShardTable, version: int) -> tuple[ShardTable, int] | None:
        if version != self.version:
            self.conflicts += 1
            return None
        self.table, self.version = table, version + 1
        return self.table, self.version

    async def holder(self, member: SlotMember) -> str:
        self.asked.append(member.slot)
        return self.holders.get(member.slot, member.identity)


@dataclass
class Fence:
    changed: int = 0
    error: Exception | None = None
    carried_out: list[FenceLost] = field(default_factory=list)
    stirred: list[str] = field(default_factory=list)

    async def carry_out(self, asked: FenceLost) -> None:
        self.carried_out.append(asked)
        if self.error is not None:
            raise self.error
        self.changed += 3

    async def stir(self, pod: ObservedPod) -> None:
        self.stirred.append(pod.pod.name)


class Replica:
    """One shard, with what it is connected to."""

    def __init__(self, slot: int = 0, register: Register | None = None) -> None:
        self.now_s, self.pods_version, self.leads, self.woken = 1000.0, 1 << 60, True, 0
        self.cluster = Cluster(profile("cotenant-requests"), np.random.default_rng(1), EngineSettings())
        self.pods = PodsOfShard(self.cluster, ("cotenant",), lambda: self.now_s)
        self.register, self.fence = register or Register(), Fence()
        self.shard = Shard(
            self.cluster,
            self.pods,
            cast(Any, self.register),
            cast(Any, self.fence),
            f"replica-{slot}",
            lambda: self.pods_version,
            lambda: self.leads,
            self._wake,
            now=lambda: self.now_s,
        )
        self.slot = slot

    def _wake(self) -> None:
        self.woken += 1

    def turn(self, times: int = 1, seconds: float = 0.6) -> bool:
        idle = True
        for _ in range(times):
            self.now_s += seconds
            idle = asyncio.run(self.shard.turn())
        return idle

    def begin(self, times: int = 6) -> Replica:
        self.shard.begin(self.slot)
        self.turn(times)
        return self


def node(name: str) -> Node:
    return Node(name, Amounts.of({"cpu": 4000, "memory": 8 << 30}))


def pod(name: str, workload: str = "w", **more: Any) -> ObservedPod:
    owner = OwnedBy("apps/v1", "ReplicaSet", workload, workload, controller=True)
    seen = ObservedPod(Pod(name, requests=Amounts.of({"cpu": 100})), f"uid-{name}", "cotenant", 0.0, owned_by=(owner,))
    return replace(seen, **more)


def divided(replica: Replica) -> tuple[set[str], set[str]]:
    """Groups that are ours by a ring of two, and the others."""
    replica.shard.territory = Territory(0, RING_OF_TWO)
    ours = {name for name in GROUPS if replica.shard.territory.owns_group(f"gang:default/{name}")}
    assert 0 < len(ours) < len(GROUPS)
    return ours, set(GROUPS) - ours


def test_alone_it_joins_has_all_nodes_and_is_idle() -> None:
    replica = Replica()
    for name in ("n1", "n2", "n3"):
        replica.shard.node_seen(node(name))
    assert replica.cluster.closed.names == {"n1", "n2", "n3"}
    assert replica.shard.samples()["nodes"] == 0
    replica.begin()
    assert not replica.cluster.closed.names
    assert replica.turn()
    assert replica.register.table.slots == (0,)
    assert replica.shard.samples() == {
        "slot": 0.0, "epoch": 1.0, "nodes": 3.0, "borrowed": 0.0, "lent": 0.0, "others": 0.0, **NO_ROOMS,
    }  # fmt: skip
    assert {name for name, count in replica.shard.counts().items() if count} == {"rings"}
    assert replica.woken > 0
    assert replica.shard.standing().startswith("shard 0 of 0, ring 1: 3 nodes, 0 of them borrowed, 0 lent;")
    replica.shard.node_seen(node("n4"))
    assert replica.shard.samples()["nodes"] == 4


def test_before_a_term_and_after_it_there_is_no_shard() -> None:
    replica = Replica()
    assert replica.shard.standing() == "no shard"
    assert replica.shard.of_pod("default/p") == ""
    assert not replica.shard.is_lost
    replica.begin()
    replica.shard.node_seen(node("n1"))
    asyncio.run(replica.shard.leave(may_write=True))
    assert replica.shard.standing() == "no shard"
    assert replica.register.table.slots == ()
    assert replica.cluster.closed.names == {"n1"}


def test_who_may_not_write_stays_in_the_table() -> None:
    replica = Replica().begin()
    asyncio.run(replica.shard.leave(may_write=False))
    assert replica.register.table.slots == (0,)
    assert replica.shard.member is None


def test_who_cannot_reach_the_table_leaves_all_the_same() -> None:
    replica = Replica().begin()
    replica.register.error = Transient("away")
    asyncio.run(replica.shard.leave(may_write=True))
    assert replica.shard.member is None
    assert replica.register.table.slots == (0,)


def test_a_table_that_cannot_be_read_changes_nothing_until_it_can() -> None:
    replica = Replica()
    replica.shard.node_seen(node("n1"))
    replica.register.error = Transient("away")
    replica.shard.begin(0)
    assert replica.turn()  # waits longer
    assert replica.register.table == ShardTable()
    replica.register.error = None
    assert not replica.turn()
    replica.turn(4)
    assert replica.shard.samples()["nodes"] == 1


def test_a_replica_that_does_not_lead_takes_no_step() -> None:
    replica = Replica()
    replica.leads = False
    replica.begin()
    assert replica.turn()
    assert replica.register.table == ShardTable()


def test_a_reservation_reaches_the_shard_and_other_kinds_as_they_were() -> None:
    replica, heard = Replica(), list[str]()
    for kind in (RESERVATIONS, ELASTIC_QUOTAS, WORKLOAD_PROFILES):
        given = CustomKind(
            cast(Any, kind), lambda v: v, lambda v, _: heard.append(f"seen {v}"), lambda k, _: heard.append(f"gone {k}")
        )
        found = replica.shard.custom(given)
        if kind is RESERVATIONS:
            assert (found.seen, found.gone) == (replica.pods.reservation_seen, replica.pods.reservation_gone)
            continue
        assert (found is given) is (kind is WORKLOAD_PROFILES)
        found.seen(kind.plural, 1.0)
        found.gone(kind.plural, 1.0)
    assert heard == [
        f"{what} {kind.plural}" for kind in (ELASTIC_QUOTAS, WORKLOAD_PROFILES) for what in ("seen", "gone")
    ]


@pytest.mark.parametrize("event", ["seen", "gone"])
def test_where_a_quota_changes_pods_are_looked_at_again(event: str) -> None:
    replica, sorted_at = Replica().begin(), list[float]()
    replica.pods.sort = lambda: sorted_at.append(replica.now_s)  # type: ignore[method-assign]
    quota = replica.shard.custom(
        CustomKind(ELASTIC_QUOTAS, cast(Any, None), lambda value, now_s: None, lambda key, now_s: None)
    )
    replica.turn()
    assert not sorted_at
    getattr(quota, event)("q", 1.0)
    replica.turn(3)
    assert len(sorted_at) == 1


def test_what_belongs_to_one_group_is_carried_out_by_its_shard_alone() -> None:
    replica = Replica()
    ours, theirs = divided(replica)
    for name in (*ours, *theirs):
        status = PodGroupStatus(f"default/{name}", "uid")
        assert replica.shard.carries_out(status) is (name in ours)
    owns = replica.shard.territory.owns_group
    reserved = {name: replica.shard.carries_out(DeleteReservation(name, "uid")) for name in GROUPS}
    assert reserved == {name: owns(f"reservation:{name}") for name in GROUPS}
    tree = owns("quota:")
    assert replica.shard.carries_out(QuotaStatus("team/q", "uid")) is tree
    assert replica.shard.carries_out("anything else")


def test_only_the_shard_of_a_pod_evicts_it() -> None:
    replica = Replica()
    replica.shard.territory = Territory(0, RING_OF_TWO)
    replica.shard.node_seen(node("n1"))
    workloads = [f"w{i}" for i in range(30)]
    for name in workloads:
        replica.cluster.pod_seen(pod(name, name, node="n1"), replica.now_s)
    found = {}
    for name in workloads:
        entry = replica.cluster.find(f"default/{name}")
        assert entry is not None
        victim = cast(Any, type("Named", (), {"key": f"default/{name}"}))
        found[name] = replica.shard.carries_out(Evict(victim, "Why", "said"))
    assert found == {name: replica.shard.territory.owns_group(f"workload:{name}") for name in workloads}
    assert len(set(found.values())) == 2
    unknown = cast(Any, type("Named", (), {"key": "default/nobody"}))
    assert not replica.shard.carries_out(Evict(unknown, "Why", "said"))


def two() -> tuple[Replica, Replica]:
    register = Register()
    replicas = Replica(0, register), Replica(1, register)
    for replica in replicas:
        for number in range(12):
            replica.shard.node_seen(node(f"n{number}"))
        replica.shard.begin(replica.slot)
    for _ in range(8):
        for replica in replicas:
            replica.turn()
    assert register.table.slots == (0, 1)
    return replicas


def test_nodes_of_others_are_closed_also_when_they_change() -> None:
    one, other = two()
    opened = [{f"n{number}" for number in range(12)} - replica.cluster.closed.names for replica in (one, other)]
    assert opened[0] | opened[1] == {f"n{number}" for number in range(12)}
    assert not opened[0] & opened[1]
    assert all(opened)
    theirs = min(opened[1])
    one.shard.node_seen(node(theirs))
    assert theirs in one.cluster.closed.names
    assert one.shard.samples()["nodes"] == len(opened[0])


def test_a_lost_shard_is_fenced_before_its_nodes_are_taken() -> None:
    one, other = two()
    one.register.holders[1] = ""  # its Lease ran out
    one.fence.error = Transient("away")

    async def play() -> None:
        one.now_s += 1.1
        await one.shard.turn()
        await soon("the binds of the lost one are fenced", lambda: _turned(one, lambda: len(one.fence.carried_out) > 1))
        assert one.cluster.closed.names  # not as long as that fails
        assert one.shard.standing().endswith("waits until no bind can arrive any more of shard 1")
        one.fence.error = None
        await soon("its nodes are taken", lambda: _turned(one, lambda: not one.cluster.closed.names))

    asyncio.run(play())
    assert {asked.member.slot for asked in one.fence.carried_out} == {1}
    assert one.shard.counts()["fenced_pods"] == 3
    assert one.register.table.slots == (0,)
    assert other.shard.member is not None
    assert not other.shard.is_lost
    del one.register.holders[1]
    for _ in range(8):
        other.turn()
        one.turn()
    assert one.register.table.slots == (0, 1)  # it came back


async def _turned(replica: Replica, is_so: Any) -> bool:
    replica.now_s += 1.1
    await replica.shard.turn()
    await asyncio.sleep(0)
    return bool(is_so())


def test_who_counts_as_lost_and_has_nothing_under_way_begins_anew() -> None:
    replica = Replica().begin()
    assert replica.shard.member is not None
    before = replica.shard.member.token
    table = ShardTable((ShardRing(2, ()),), (), (SlotMember(0, "replica-0", before, 1),))
    replica.register.table, replica.register.version = table, replica.register.version + 1
    replica.turn()
    assert replica.shard.member.token != before
    assert replica.shard.territory == Territory(0)


def test_other_holders_are_asked_for_once_a_second() -> None:
    one, _ = two()
    one.register.asked.clear()
    for _ in range(5):
        one.turn(seconds=0.25)
    assert one.register.asked.count(1) in (1, 2)
    assert 0 not in one.register.asked  # never for its own
    one.register.asked.clear()
    one.turn(4, seconds=1.0)
    assert one.register.asked == [1, 1, 1, 1]


def test_pods_are_stirred_where_only_the_watch_is_waited_for() -> None:
    replica = Replica()
    replica.shard.node_seen(node("n1"))
    replica.pods_version = 0
    replica.shard.begin(0)
    replica.pods.pod_seen(pod("p"), replica.now_s)
    replica.turn(12, seconds=0.1)
    assert replica.shard.standing().endswith("waits for its watch of pods")
    assert set(replica.fence.stirred) == {"p"}
    assert 1 <= len(replica.fence.stirred) <= 4
    replica.pods_version = 1 << 60
    before = len(replica.fence.stirred)
    replica.turn(8, seconds=0.5)
    assert len(replica.fence.stirred) == before
    assert not replica.cluster.closed.names


def test_who_does_not_lead_stirs_nothing() -> None:
    replica = Replica()
    replica.pods_version = 0
    replica.shard.begin(0)
    replica.pods.pod_seen(pod("p"), replica.now_s)
    replica.turn(3)
    replica.leads = False
    replica.fence.stirred.clear()
    replica.turn(8, seconds=1.0)
    assert not replica.fence.stirred


def test_a_term_goes_on_until_it_is_cancelled() -> None:
    replica = Replica()

    async def play() -> None:
        running = asyncio.create_task(replica.shard.run(0))
        await soon("it is in the ring", lambda: _ready(replica.register.table.slots == (0,)))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(play())


async def _ready(is_so: bool) -> bool:
    return is_so
