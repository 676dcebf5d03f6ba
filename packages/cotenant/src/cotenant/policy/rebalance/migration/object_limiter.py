"""Rate of moves of one workload or namespace: a token bucket per object.

Limits of concurrent moves do not stop a workload whose replicas move one after another without a pause. A bucket of
`burst` tokens, refilled at `limit / duration_s`; a move takes one.
Limits: in memory; after a restart every bucket is full.
Source: Koordinator, pkg/descheduler/controllers/migration/controller.go (object limiters).
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.policy.rebalance.migration.workload_limits import ReplicaShare, limit_of_replicas


@dataclass(frozen=True, slots=True)
class ObjectLimit:
    """At most `max_moving` moves (of a workload: by its replicas) within `duration_s`; a duration of 0 = no limit."""

    duration_s: float = 300.0
    max_moving: ReplicaShare | None = None
    burst: int = 1


class ObjectLimiter:
    """The buckets of all objects of one type, by UID or name."""

    def __init__(self, limit: ObjectLimit) -> None:
        self._limit = limit
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens, as of when

    def must_wait(self, key: str, replicas: int, now_s: float, more: int = 0) -> bool:
        """Whether a move of this object must wait now; `more`: moves that are intended before it."""
        return self._limit.duration_s > 0 and self._tokens(key, replicas, now_s) < 1.0 + more

    def moved(self, key: str, replicas: int, now_s: float) -> None:
        """Take a token for a move."""
        if self._limit.duration_s > 0:
            self._buckets[key] = (self._tokens(key, replicas, now_s) - 1.0, now_s)

    def _tokens(self, key: str, replicas: int, now_s: float) -> float:
        burst = float(max(1, self._limit.burst))
        tokens, at_s = self._buckets.get(key, (burst, now_s))
        rate = limit_of_replicas(self._limit.max_moving, replicas) / self._limit.duration_s
        return min(burst, tokens + rate * max(0.0, now_s - at_s))
