"""The nodes' last reports: who is fresh, within bounded memory.

Problem: reports arrive late, twice, out of order, from clocks that are wrong and from nodes that are gone, and must neither fill the memory
nor mislead a score. Choice: one report a node, the newest by its own time, dated no later than its arrival; a full store drops the
expired first and then refuses newcomers. Limits: a report whose own time is more than the TTL from ours is refused, so a node
whose clock is wrong is heard of at once, in its own log, instead of being ignored in silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cotenant.model.cluster.report import REPORT_TTL_S, NodeReport
from cotenant.model.errors import InvalidInput, Transient


class Reports:
    """The last report of each node. Times are Unix seconds; the caller brings the clock."""

    def __init__(self, most_nodes: int = 20_000, ttl_s: float = REPORT_TTL_S) -> None:
        if most_nodes < 1:
            raise InvalidInput("most nodes that may report", most_nodes, "1 or more")
        self.ttl_s = ttl_s
        self._most = most_nodes
        self._last: dict[str, NodeReport] = {}  # in order of arrival

    def __len__(self) -> int:
        return len(self._last)

    def accept(self, report: NodeReport, now_s: float) -> bool:
        """Take a report; False where a newer one is known.

        Raises `InvalidInput` where its time is off by more than the TTL, `Transient` where the store is full of fresh reports.
        """
        if abs(now_s - report.at_s) > self.ttl_s:
            raise InvalidInput(
                "timestamp",
                f"{report.at_s - now_s:+.0f} s from the receiver's clock",
                f"a time within {self.ttl_s:g} s of it",
                "set the node's clock, or look for what delays its reports",
            )
        before = self._last.get(report.node)
        if before is not None and before.at_s > report.at_s:
            return False
        if before is None and len(self._last) >= self._most:
            self.expire(now_s)
            if len(self._last) >= self._most:
                raise Transient(f"{self._most} nodes report already, the most that are kept", retry_after_s=self.ttl_s)
        self._last.pop(report.node, None)
        self._last[report.node] = report if report.at_s <= now_s else replace(report, at_s=now_s)
        return True

    def fresh(self, node: str, now_s: float) -> NodeReport | None:
        """The node's report where it may still be believed."""
        report = self._last.get(node)
        return report if report is not None and now_s - report.at_s <= self.ttl_s else None

    def forget(self, node: str) -> None:
        """The node is gone."""
        self._last.pop(node, None)

    def expire(self, now_s: float) -> None:
        """Drop what is too old to be believed."""
        for node in [name for name, report in self._last.items() if now_s - report.at_s > self.ttl_s]:
            del self._last[node]

    def __iter__(self) -> Iterator[NodeReport]:
        return iter(self._last.values())
