"""The last report of each node, with freshness and bounded memory.

Reports arrive late, twice, out of order, with wrong timestamps and from deleted nodes, and must neither exhaust memory
nor mislead a score. One report per node, the newest by its timestamp, dated no later than its arrival; a full store
drops expired reports first and then refuses new nodes.
Limits: a report whose timestamp is more than the TTL behind the receiver's clock, or more than 5 s ahead of it, is
refused, so a node whose clock is wrong gets an error to log instead of being ignored silently; a report from the future
would otherwise keep out the true ones that follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cotenant.model.cluster.report import REPORT_TTL_S, NodeReport
from cotenant.model.errors import InvalidInput, Transient

MAX_AHEAD_S = 5.0  # of the receiver's clock; NTP keeps nodes within milliseconds


class NodeReports:
    """The last report of each node. Times are Unix seconds, passed by the caller."""

    def __init__(self, max_nodes: int = 20_000, ttl_s: float = REPORT_TTL_S) -> None:
        if max_nodes < 1:
            raise InvalidInput("most nodes that may report", max_nodes, "1 or more")
        self.ttl_s = ttl_s
        self._max = max_nodes
        self._last: dict[str, NodeReport] = {}  # in order of arrival

    def __len__(self) -> int:
        return len(self._last)

    def accept(self, report: NodeReport, now_s: float) -> bool:
        """Store a report; False if a newer one is known.

        Raises `InvalidInput` if its timestamp is more than the TTL old or `MAX_AHEAD_S` ahead, `Transient` if the store
        is full of fresh reports.
        """
        if not -self.ttl_s <= report.at_s - now_s <= MAX_AHEAD_S:
            raise InvalidInput(
                "timestamp",
                f"{report.at_s - now_s:+.0f} s from the receiver's clock",
                f"a time at most {self.ttl_s:g} s behind and {MAX_AHEAD_S:g} s ahead of it",
                "correct the node's clock, or find out what delays its reports",
            )
        before = self._last.get(report.node)
        if before is not None and before.at_s > report.at_s:
            return False
        if before is None and len(self._last) >= self._max:
            self.expire(now_s)
            if len(self._last) >= self._max:
                raise Transient(f"{self._max} nodes report already, the maximum that is kept", retry_after_s=self.ttl_s)
        self._last.pop(report.node, None)
        self._last[report.node] = report if report.at_s <= now_s else replace(report, at_s=now_s)
        return True

    def fresh(self, node: str, now_s: float) -> NodeReport | None:
        """The node's report, if it is not expired."""
        report = self._last.get(node)
        return report if report is not None and now_s - report.at_s <= self.ttl_s else None

    def forget(self, node: str) -> None:
        """Drop the report of a removed node."""
        self._last.pop(node, None)

    def expire(self, now_s: float) -> None:
        """Drop expired reports."""
        for node in [name for name, report in self._last.items() if now_s - report.at_s > self.ttl_s]:
            del self._last[node]

    def __iter__(self) -> Iterator[NodeReport]:
        return iter(self._last.values())
