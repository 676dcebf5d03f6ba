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
    """A pod as stored. `gang`: all of its pods start together."""

    name: str
    size: int
    group: str
    gang: str = ""
    quota: str = ""
    version: int = 0
    node: str = ""
    marks: int = 0


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

    def put(self, pod: SimPod) -> None:
        """Store a version of a pod."""
        self.version += 1
        stored = replace(pod, version=self.version)
        self.pods[pod.name] = stored
        self.log.append(stored)

    def bind(self, name: str, node: str, version: int) -> str:
        """Why the bind is refused; empty where it is done. Room and quotas are not looked at, as by a real server: that
        they hold is checked afterwards.
        """
        pod = self.pods[name]
        if pod.node or pod.version != version:
            self.refused += 1
            return "conflict"
        self.put(replace(pod, node=node))
        self.used[node] = self.used.get(node, 0) + pod.size
        if self.used[node] > self.nodes[node]:
            raise Broken(f"{node} holds {self.used[node]} of {self.nodes[node]} with {name}")
        if pod.quota:
            self.charged[pod.quota] = self.charged.get(pod.quota, 0) + pod.size
            if self.charged[pod.quota] > self.quotas[pod.quota]:
                raise Broken(f"quota {pod.quota} is charged {self.charged[pod.quota]} of {self.quotas[pod.quota]}")
        return ""

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
