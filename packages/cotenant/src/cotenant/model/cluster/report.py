"""A node's report to the scheduler: the founding payload, validated.

A score computed from an invalid report (a missing capacity, a share of 40, a clock one hour ahead) is wrong, and the
sender must learn which field is invalid. One frozen value that validates itself, and its row for the arrays.
Limits: the founding document names no units; here CPU is in cores and memory in bytes, as its agent reads them from
cgroup files.

Fields: founding document, "sidecar-agent" (node, allocatable and used, p99, violation rate, dominant share, fairness,
timestamp).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from cotenant.model.errors import InvalidInput

REPORT_TTL_S = 120.0  # an older report is ignored
LARGEST_LATENCY_MS = 1e9
LONGEST_NAME = 253  # of a node: Kubernetes, DNS subdomain names


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node's last window. Raises `InvalidInput` with the founding field name."""

    node: str
    cpu_allocatable: float  # cores
    cpu_used: float
    memory_allocatable: float  # bytes
    memory_used: float
    latency_p99_ms: float
    violation: float  # violations / requests, 0..1
    dominant_share: float  # max(cpu used, memory used) over allocatable; above 1 where the node is overcommitted
    fairness: float  # Jain's index over the tenants, 0..1
    at_s: float  # Unix time

    def __post_init__(self) -> None:
        if not 0 < len(self.node) <= LONGEST_NAME:
            raise InvalidInput("node_name", self.node, f"the node's name, 1 to {LONGEST_NAME} characters")
        for name, value in (("cpu_allocatable", self.cpu_allocatable), ("memory_allocatable", self.memory_allocatable)):
            if not (isfinite(value) and value > 0):
                raise InvalidInput(name, value, "a number above 0")
        for name, value in (
            ("cpu_used", self.cpu_used),
            ("memory_used", self.memory_used),
            ("tail_latency_p99", self.latency_p99_ms),
            ("dominant_share", self.dominant_share),
        ):
            if not (isfinite(value) and value >= 0):
                raise InvalidInput(name, value, "a number that is not negative")
        if self.latency_p99_ms > LARGEST_LATENCY_MS:
            raise InvalidInput("tail_latency_p99", self.latency_p99_ms, "milliseconds")
        for name, value in (("slo_violation_rate", self.violation), ("per_task_fairness", self.fairness)):
            if not 0 <= value <= 1:
                raise InvalidInput(name, value, "a fraction, 0 to 1")
        if not isfinite(self.at_s):
            raise InvalidInput("timestamp", self.at_s, "a time")

    def row(self) -> tuple[float, ...]:
        """Its values in the order of `arrays.Report`; use as a fraction of allocatable."""
        from cotenant.model.arrays import (
            ReportColumn,  # imported late: the node agent builds reports too, and does not load NumPy
        )

        values = {
            ReportColumn.CPU_USED: self.cpu_used / self.cpu_allocatable,
            ReportColumn.MEMORY_USED: self.memory_used / self.memory_allocatable,
            ReportColumn.LATENCY_P99_MS: self.latency_p99_ms,
            ReportColumn.VIOLATION: self.violation,
            ReportColumn.DOMINANT_SHARE: self.dominant_share,
            ReportColumn.FAIRNESS: self.fairness,
            ReportColumn.REPORTED_AT: self.at_s,
        }
        return tuple(values[column] for column in ReportColumn)
