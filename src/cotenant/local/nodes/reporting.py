"""Where simulated nodes' reports go.

The port that a service implements (POST /metrics/report to the scheduler and the extender, or their stores when they live in this process);
here only the Protocol, and an implementation that keeps the last reports for tables and tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cotenant.model.cluster.report import NodeReport


class Reporter(Protocol):
    """Takes what nodes' agents would send."""

    async def report(self, reports: Sequence[NodeReport]) -> None:
        """Deliver some nodes' reports. Raises `Transient` where nobody could be reached: they are sent anew next time."""


class LastReports:
    """Keeps the last report of each node."""

    def __init__(self) -> None:
        self.by_node: dict[str, NodeReport] = {}

    async def report(self, reports: Sequence[NodeReport]) -> None:
        """Keep them."""
        for report in reports:
            self.by_node[report.node] = report
