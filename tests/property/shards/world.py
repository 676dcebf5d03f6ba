"""A cluster with several schedulers in simulated time: the server, its clients, and what happens to them.

The server is a list of versions, as etcd is; everything that a client learns or asks for arrives after a random time,
requests of a paused client also long after its Lease is over. Each client has the real `ShardMember` and a small
scheduler of its own. The server checks every bind by what it has itself: a node's room, a quota, a pod's version.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from cotenant.model.shards.table import ShardTable

LEASE_S, RENEW_S = 6.0, 4.0


class Broken(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True)
class SimPod:
    """A pod as stored. `gang`: all of its pods start together. `wanted`: the size after a resize that its node has not
    made yet. `holds`: it is no pod, and keeps its size free on its node for pods that use this reservation (`uses`);
    `drawn`: what such a pod takes of that instead of its node's room. `home`: the group of its workload, where its
    quota's room may be lent to that one's shard. `held`: nobody may preempt it, so that it also needs room of what its
    quota guarantees.
    """

    name: str
    size: int
    group: str
    gang: str = ""
    quota: str = ""
    version: int = 0
    node: str = ""
    marks: int = 0
    wanted: int = 0
    holds: str = ""
    uses: str = ""
    drawn: int = 0
    has_ended: bool = False
    home: str = ""
    held: bool = False

    @property
    def counts(self) -> int:
        """What a scheduler has to count on its node."""
        return 0 if self.has_ended else max(self.size, self.wanted) - self.drawn


@dataclass(frozen=True)
class SimLease:
    """A slot's Lease as stored."""

    holder: str
    version: int


@dataclass
class Server:
    """What is stored, and the checks of every bind."""

    nodes: dict[str, int]
    quotas: dict[str, int]
    version: int = 1
    pods: dict[str, SimPod] = field(default_factory=dict)
    table: ShardTable = field(default_factory=ShardTable)
    table_version: int = 0
    leases: dict[int, SimLease] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    charged: dict[str, int] = field(default_factory=dict)
    log: list[SimPod] = field(default_factory=list)  # every version of every pod, in order
    tables: list[tuple[int, ShardTable]] = field(default_factory=list)
    refused: int = 0
    resized: int = 0
    refused_by_nodes: int = 0
    grown: dict[str, int] = field(default_factory=dict)  # by node: the version of the last growth in place
    drawn: dict[str, int] = field(default_factory=dict)  # of each reservation
    parents: dict[str, str] = field(default_factory=dict)  # of quotas
    minima: dict[str, int] = field(default_factory=dict)  # what quotas guarantee
    older_stop: bool = True  # older replicas cannot read a table with rooms
    kept: dict[str, int] = field(default_factory=dict)  # what is charged for pods that nobody may preempt

    def path(self, quota: str) -> list[str]:
        """A quota and those above it."""
        found = [quota] if quota else []
        while found and found[-1] in self.parents:
            found.append(self.parents[found[-1]])
        return found

    def put(self, pod: SimPod) -> None:
        """Store a version of a pod."""
        self.version += 1
        stored = replace(pod, version=self.version)
        self.pods[pod.name] = stored
        self.log.append(stored)

    def bind(self, name: str, node: str, version: int, drawn: int = 0, seen: int = 0) -> str:
        """Why the bind is refused; empty where it is done. Room and quotas are not looked at, as by a real server: that
        they hold is checked afterwards. `drawn`: of its reservation. `seen`: up to which version its scheduler knew the
        pods; a node that gave away the room since refuses the pod, as beside one scheduler.
        """
        pod = self.pods[name]
        if pod.node or pod.version != version:
            self.refused += 1
            return "conflict"
        self.put(replace(pod, node=node, drawn=drawn))
        if drawn:
            self._draw(pod.uses, node, drawn)
        self.used[node] = self.used.get(node, 0) + pod.size - drawn
        if self.used[node] > self.nodes[node] and self.grown.get(node, 0) > seen:
            self.refused_by_nodes += 1
            self.used[node] -= pod.size - drawn
            if drawn:
                self.drawn[pod.uses] -= drawn
            self.put(replace(self.pods[name], has_ended=True))
            return ""
        if self.used[node] > self.nodes[node]:
            raise Broken(f"{node} holds {self.used[node]} of {self.nodes[node]} with {name}")
        for quota in self.path(pod.quota):
            self.charged[quota] = self.charged.get(quota, 0) + pod.size
            if self.charged[quota] > self.quotas[quota]:
                raise Broken(f"quota {quota} is charged {self.charged[quota]} of {self.quotas[quota]}")
            if pod.held:
                self.kept[quota] = self.kept.get(quota, 0) + pod.size
                if self.kept[quota] > self.minima[quota]:
                    raise Broken(f"of quota {quota} {self.kept[quota]} cannot be preempted, of {self.minima[quota]}")
        return ""

    def _draw(self, reservation: str, node: str, amount: int) -> None:
        held = next(pod for pod in self.pods.values() if pod.holds == reservation)
        self.drawn[reservation] = self.drawn.get(reservation, 0) + amount
        if held.node != node or self.drawn[reservation] > held.size:
            raise Broken(f"{self.drawn[reservation]} of {held.size} of {reservation} on {held.node} is used on {node}")

    def end(self, name: str) -> None:
        """A pod that runs ends; a reservation is not given up."""
        pod = self.pods[name]
        if pod.node and not pod.has_ended and not pod.holds:
            self.used[pod.node] -= pod.size - pod.drawn
            if pod.drawn:
                self.drawn[pod.uses] -= pod.drawn
            for quota in self.path(pod.quota):
                self.charged[quota] -= pod.size
                if pod.held:
                    self.kept[quota] -= pod.size
            self.put(replace(pod, has_ended=True))

    def resize(self, name: str, size: int) -> None:
        """Ask a running pod's node for another size, which it gives where that fits."""
        pod = self.pods[name]
        if pod.node and not (pod.has_ended or pod.holds or pod.quota or pod.drawn):
            self.put(replace(pod, wanted=size))
            self.settle(name)

    def settle(self, name: str) -> None:
        """The node makes a resize that it has room for now."""
        pod = self.pods[name]
        if pod.wanted and not pod.has_ended and self.used[pod.node] - pod.size + pod.wanted <= self.nodes[pod.node]:
            self.used[pod.node] += pod.wanted - pod.size
            self.resized += 1
            self.put(replace(pod, size=pod.wanted, wanted=0))
            if self.pods[name].size > pod.size:
                self.grown[pod.node] = self.version

    def touch(self, name: str) -> None:
        """Change a pending pod, so that a bind that names the version before is refused."""
        pod = self.pods[name]
        if not pod.node:
            self.put(replace(pod, marks=pod.marks + 1))

    def swap_table(self, table: ShardTable, version: int) -> bool:
        """Replace the table where it has this version."""
        if version != self.table_version:
            return False
        self.version += 1
        self.table, self.table_version = table, self.version
        self.tables.append((self.version, table))
        return True

    def swap_lease(self, slot: int, holder: str, version: int) -> int:
        """Replace a Lease where it has this version (0 = there is none); the new version, 0 = refused."""
        old = self.leases.get(slot)
        if (old.version if old is not None else 0) != version:
            return 0
        self.version += 1
        self.leases[slot] = SimLease(holder, self.version)
        return self.version


class Timeline:
    """Simulated time: what happens when."""

    def __init__(self, random: Random) -> None:
        self.now_s = 0.0
        self.random = random
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, seconds: float, run: Callable[[], None]) -> None:
        """Run it later."""
        self._count += 1
        heapq.heappush(self._due, (self.now_s + seconds, self._count, run))

    def run_until(self, end_s: float) -> None:
        """Let time pass."""
        while self._due and self._due[0][0] <= end_s:
            self.now_s, _, run = heapq.heappop(self._due)
            run()
        self.now_s = end_s

    def delay_s(self) -> float:
        """Of a message: mostly short, sometimes seconds."""
        return self.random.expovariate(1 / 0.03) if self.random.random() < 0.95 else self.random.uniform(0.1, 3.0)
