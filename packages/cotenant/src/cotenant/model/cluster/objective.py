"""When a replica misses its objective: one definition for the console's map, its lists, and what a local cluster
prints.
"""

from __future__ import annotations


def misses_objective(latency_ms: float | None, objective_ms: float | None) -> bool:
    """Whether the replica's p99 is above its objective; one without an objective, or without a measurement, misses
    none.
    """
    return latency_ms is not None and objective_ms is not None and latency_ms > objective_ms
