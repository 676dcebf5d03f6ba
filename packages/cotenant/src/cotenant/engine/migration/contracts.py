"""How moves are carried out, and whom the migrations ask: filters and limits, a what-if, and pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cotenant.engine.migration.instructions import PodFacts
from cotenant.engine.migration.steps import SimulatedMove
from cotenant.model.groups.migration import EvictPolicy, MigrationJob
from cotenant.policy.rebalance.migration.arbitration import ArbitrationVerdict
from cotenant.policy.rebalance.migration.object_limiter import ObjectLimit


@dataclass(frozen=True, slots=True)
class MigrationSettings:
    """How moves are carried out."""

    policy: EvictPolicy = EvictPolicy.EVICTION
    per_minute: int | None = 10  # evictions of the cluster; 0 or None = no limit
    per_workload: ObjectLimit = field(default_factory=ObjectLimit)
    kept_s: float = 6 * 3600.0  # an ended job is kept so long after its time limit
    watch_s: float = 180.0  # nodes of a move after it
    receipts: int = 0  # jobs with an outcome that are kept beyond `kept_s`, of each namespace


class Arbiter(Protocol):
    """Filters and limits over pods."""

    def arbitrate(
        self, pending: Sequence[MigrationJob], moving: Sequence[MigrationJob], now_s: float
    ) -> Mapping[str, tuple[ArbitrationVerdict, str]]:
        """The verdict about each pending job by name, with its reason."""
        ...


class MoveSimulator(Protocol):
    """Simulates requested moves."""

    def __call__(self, job: MigrationJob, moving: Sequence[MigrationJob], now_s: float) -> SimulatedMove:
        """The what-if of one job, with those that run counted."""
        ...


class PodSource(Protocol):
    """Pods by namespace/name."""

    def __call__(self, key: str) -> PodFacts | None:
        """The pod of this name; None = there is none."""
        ...
