"""The port for simulated nodes' reports.

A service implements it (POST /metrics/report to the scheduler and the extender, or their stores if they run in this
process); here is only the Protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cotenant.model.cluster.report import NodeReport


class ReportReceiver(Protocol):
    """Receives the reports that nodes' agents would send."""

    async def report(self, reports: Sequence[NodeReport]) -> None:
        """Deliver reports. Raises `Transient` if no receiver could be reached; fresh reports are sent next time."""
