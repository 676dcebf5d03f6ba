"""Real engines that share quotas, and one engine that is asked what it would do instead.

Every bind is judged when it is made: a quota within its maximum, and within its minimum what nobody may preempt, as
both are written at that moment; a node within its room; no pod twice; and no gang begins with fewer than it needs. When
all is quiet, one engine is given what runs and what waits: it must find nothing to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

import numpy as np
from bench.shards import NoFence, Table

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict, Preempt
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.plugins.quotas.plugin import Quotas
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, OwnedBy
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.gang import GangNotes
from cotenant.model.groups.quota import NAME, PREEMPTIBLE, Quota, QuotaObject
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.services.scheduler.shards.pods_of_shard import PodsOfShard
from cotenant.services.scheduler.shards.shard import Shard

CORE, GIB, NODE_CORES = 1000, 1 << 30, 4


def cores(count: int) -> Amounts:
    return Amounts.of({"cpu": CORE * count})


@dataclass(frozen=True)
class Written:
    """A quota as its object says it."""

    name: str
    most: int
    least: int
    parent: str = "all"
    tree: str = ""
    is_parent: bool = False

    def object(self) -> QuotaObject:
        made = Quota(
            self.name,
            cores(self.most),
            cores(self.least),
            parent="" if self.is_parent else self.parent,
            is_parent=self.is_parent,
            tree_id=self.tree,
            is_tree_root=self.is_parent,
            allows_force_update=True,
        )
        return QuotaObject(f"default/{self.name}", f"uid-{self.name}", made)


def pod(
    name: str,
    quota: str,
    workload: str,
    size: int = 1,
    priority: int = 0,
    held: bool = False,
    gang: str = "",
    of: int = 0,
) -> ObservedPod:
    """One of `of` members of a gang, or of none."""
    labels = {NAME: quota} | ({PREEMPTIBLE: "false"} if held else {})
    made = Pod(
        name, requests=Amounts.of({"cpu": CORE * size, "memory": GIB}), labels=Labels.of(labels), priority=priority
    )
    owner = OwnedBy("apps/v1", "ReplicaSet", workload, workload, controller=True)
    demands = Demands(gang=GangNotes(name=gang, min_available=of)) if gang else Demands()
    return ObservedPod(made, f"uid-{name}", "cotenant", 0.0, owned_by=(owner,), demands=demands)


class Engine:
    """One scheduler, or one of several that share a table."""

    def __init__(self, settings: QuotaSettings, slot: int = 0, table: Table | None = None) -> None:
        registry = PluginRegistry(quotas=Quotas(settings))
        rng = np.random.default_rng(1)
        self.cluster = Cluster(profile("cotenant-requests"), rng, EngineSettings(max_pods=64), registry)
        self.now_s = 1e3
        self.slot = slot
        self.shard: Shard | None = None
        if table is not None:
            self.pods = PodsOfShard(self.cluster, ("cotenant",), lambda: self.now_s)
            self.shard = Shard(
                self.cluster,
                self.pods,
                table,  # type: ignore[arg-type]  # what it has of `Agreement` is used
                NoFence(),  # type: ignore[arg-type]
                f"replica-{slot}",
                lambda: 1 << 60,
                lambda: True,
                lambda: None,
                now=lambda: self.now_s,
            )
            self.shard.begin(slot)

    def node_seen(self, node: Node) -> None:
        (self.shard or self.cluster).node_seen(node)

    def pod_seen(self, seen: ObservedPod) -> None:
        (self.pods if self.shard is not None else self.cluster).pod_seen(seen, self.now_s)

    def pod_gone(self, uid: str) -> None:
        (self.pods if self.shard is not None else self.cluster).pod_gone(uid, self.now_s)

    def quotas(self, given: dict[str, Written], before: dict[str, Written]) -> None:
        plugin = self.cluster.plugins.quotas
        for name in before.keys() - given.keys():
            plugin.quota_gone(f"default/{name}", self.now_s)
        for written in given.values():
            plugin.quota_seen(written.object(), self.now_s)
        if self.shard is not None:
            self.pods.sort()

    def decide(self) -> Iterator[Bind | Evict | Preempt]:
        for said in self.cluster.decide(self.now_s):
            if isinstance(said, Bind | Preempt | Evict) and (not self.shard or self.shard.carries_out(said)):
                yield said


class Cosm:
    """The cluster, with its schedulers."""

    def __init__(
        self, shards: int, nodes: int, quotas: tuple[Written, ...], settings: QuotaSettings | None = None
    ) -> None:
        self.settings = settings or QuotaSettings(check_parents=True, preempt=False, revoke=False)
        self.table = Table()
        self.nodes = [
            Node(f"n{i}", Amounts.of({"cpu": CORE * NODE_CORES, "memory": 64 * GIB, "pods": 110})) for i in range(nodes)
        ]
        self.quotas: dict[str, Written] = {}
        self.pods: dict[str, ObservedPod] = {}  # by UID, with their nodes
        self.by: dict[str, int] = {}  # UID -> the slot that bound it
        self.evicted: list[str] = []
        self.busy: set[int] = set()  # slots that decide in no turn
        self.all = [Engine(self.settings, slot, self.table) for slot in range(shards)]
        for one in self.all:
            for node in self.nodes:
                one.node_seen(node)
        self.write(*quotas)
        self.turn(6 * shards)

    def write(self, *quotas: Written, gone: str = "") -> None:
        before = self.quotas
        self.quotas = {**before, **{written.name: written for written in quotas}}
        self.quotas.pop(gone, None)
        for one in self.all:
            one.quotas(self.quotas, before)

    def submit(self, *pods: ObservedPod) -> None:
        for seen in pods:
            self.pods[seen.uid] = seen
            for one in self.all:
                one.pod_seen(seen)

    def end(self, uid: str) -> None:
        del self.pods[uid]
        for one in self.all:
            one.pod_gone(uid)

    def turn(self, times: int = 1, seconds: float = 0.25) -> None:
        for _ in range(times):
            for one in self.all:
                one.now_s += seconds
                assert one.shard is not None
                asyncio.run(one.shard.turn())
                said = list(one.decide()) if one.slot not in self.busy else []
                binds = [instruction for instruction in said if isinstance(instruction, Bind)]
                self._whole(binds)
                for bind in binds:
                    self._bind(one, bind)
                for instruction in said:
                    if isinstance(instruction, Evict):
                        self._evict(instruction.victim.uid)
                    elif isinstance(instruction, Preempt):
                        for victim in instruction.victims:
                            self._evict(victim.uid)

    def _evict(self, uid: str) -> None:
        if uid in self.pods:
            self.evicted.append(uid)
            self.end(uid)

    def _whole(self, binds: list[Bind]) -> None:
        """Of a gang so many are bound at one time that it can run."""
        for bind in binds:
            notes = self.pods[bind.uid].demands.gang
            if notes is None:
                continue
            least, uids = notes.min_available or 0, {other.uid for other in binds}
            members = [one for one in self.pods.values() if one.demands.gang == notes]
            count = sum(bool(one.node) or one.uid in uids for one in members)
            assert count >= least, f"{count} of {least} of gang {notes.name}"

    def _bind(self, one: Engine, bind: Bind) -> None:
        seen = self.pods[bind.uid]
        assert not seen.node, f"{seen.pod.name} is bound twice"
        one.cluster.sending(bind.uid, one.now_s)
        self.pods[bind.uid] = found = replace(seen, node=bind.node)
        self.by[bind.uid] = one.slot
        self._judge(found)
        one.cluster.bound(bind.uid, one.now_s)
        for other in self.all:
            other.pod_seen(found)

    def path(self, name: str) -> list[Written]:
        if name not in self.quotas:
            return []  # its pods are of the default quota, which has no limit here
        found = [self.quotas[name]]
        if self.settings.check_parents and found[-1].parent in self.quotas and not found[-1].is_parent:
            found.append(self.quotas[found[-1].parent])
        return found

    def used(self, name: str, only_held: bool = False) -> int:
        below = {name} | {one.name for one in self.quotas.values() if one.parent == name and not one.is_parent}
        return sum(
            seen.pod.requests.get("cpu") // CORE
            for seen in self.pods.values()
            if seen.node
            and seen.pod.labels.get(NAME) in below
            and (not only_held or seen.pod.labels.get(PREEMPTIBLE) == "false")
        )

    def _judge(self, seen: ObservedPod) -> None:
        on = sum(other.pod.requests.get("cpu") // CORE for other in self.pods.values() if other.node == seen.node)
        assert on <= NODE_CORES, f"{seen.node} has {on} of {NODE_CORES}"
        for written in self.path(seen.pod.labels.get(NAME) or ""):
            used = self.used(written.name)
            assert used <= written.most, f"quota {written.name} has {used} of {written.most} with {seen.pod.name}"
            if seen.pod.labels.get(PREEMPTIBLE) == "false":
                held = self.used(written.name, only_held=True)
                assert held <= written.least, f"{held} of {written.least} cannot be preempted in {written.name}"

    def settle(self, quiet_s: float = 25.0) -> None:
        """Let time pass until nothing has happened for so long: more than a room's rest after it was refused, and a
        second try.
        """
        done, since = -1, 0
        for turn in range(4000):
            if done != len(self.by) + len(self.evicted):
                done, since = len(self.by) + len(self.evicted), turn
            if turn - since >= 4 * quiet_s:
                return
            self.turn()
        raise AssertionError("something happens for ever")

    def waits_in_vain(self) -> list[str]:
        """What one scheduler would still bind, or evict for a quota; preemption on nodes is each shard's on its own."""
        one = Engine(self.settings)
        for node in self.nodes:
            one.node_seen(node)
        one.quotas(self.quotas, {})
        for seen in self.pods.values():
            one.pod_seen(seen)
        found: list[str] = []
        for _ in range(8):
            one.now_s += 10.0
            for said in one.decide():
                if not isinstance(said, Preempt):
                    found.append(f"{type(said).__name__} {said.victim.uid if isinstance(said, Evict) else said.uid}")
                if isinstance(said, Bind):
                    one.cluster.sending(said.uid, one.now_s)
                    one.cluster.bound(said.uid, one.now_s)
        return found

    def validate(self) -> None:
        for one in self.all:
            one.cluster.validate()


def arrivals(
    random: Random, first: int, count: int, quotas: tuple[str, ...], priorities: tuple[int, ...]
) -> list[ObservedPod]:
    """Pods of any kind, about so many."""
    made: list[ObservedPod] = []
    number = first
    while len(made) < count:
        number += 1
        quota, priority, held = random.choice(quotas), random.choice(priorities), random.random() < 0.3
        if random.random() < 0.3:
            size = random.randint(2, 4)
            made += [
                pod(f"p{number}-{i}", quota, f"w{number}", 1, priority, held, f"g{number}", size) for i in range(size)
            ]
        else:
            made.append(pod(f"p{number}", quota, f"w{random.randint(0, 9)}", random.randint(1, 2), priority, held))
    return made
