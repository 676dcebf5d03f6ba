"""Observations of the simulated world: of a pod, a service, the whole cluster. Frozen values for tables and reports."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cluster.objective import misses_objective


@dataclass(frozen=True, slots=True)
class Ended:
    """Pods (by UID) that have finished, and those evicted because their node ran out of memory."""

    finished: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodUsage:
    """What an agent would measure of a pod, at the last tick."""

    uid: str
    node: str
    cpu_cores: float
    memory_bytes: float
    slowdown: float
    service: str = ""
    p99_ms: float | None = None  # None = none is measured: batch, no objective, or still starting
    objective_ms: float | None = None

    @property
    def violated(self) -> bool:
        """Whether it misses its objective."""
        return misses_objective(self.p99_ms, self.objective_ms)


@dataclass(frozen=True, slots=True)
class ReplicaQueue:
    """A replica as its requests meet it: M/M/c (cotenant_lab/world/latency.py) with times that are stretched by
    neighbours.
    """

    workers: int
    busy: float  # of them, in the mean
    request_s: float  # mean time of a request at a worker
    slowdown: float

    @property
    def requests_per_s(self) -> float:
        """Requests that arrive."""
        return self.busy / self.request_s


@dataclass(frozen=True, slots=True)
class ServiceView:
    """The state of a service with an objective."""

    name: str
    replicas: int  # running
    violated: int
    worst_p99_ms: float  # 0 while none is measured
    objective_ms: float


@dataclass(frozen=True, slots=True)
class TickSnapshot:
    """The cluster at the last tick. Shares are of the nodes that are up."""

    day: float  # simulated days since the start
    nodes: int
    nodes_up: int
    cpu_used: float
    cpu_requested: float
    memory_used: float
    memory_requested: float
    services: tuple[ServiceView, ...]
    victims: tuple[PodUsage, ...]  # replicas that missed their objective
    pods: int
    batch_pace: float = (
        0.0  # CPU time a second that batch pods' progress is worth, alone on their nodes; share of the nodes' cores
    )

    @property
    def violation(self) -> float:
        """Share of the running replicas with an objective that missed it."""
        replicas = sum(s.replicas for s in self.services)
        return sum(s.violated for s in self.services) / replicas if replicas else 0.0
