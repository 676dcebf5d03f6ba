"""What a load process says while it runs: a line each second about the replies in it.

An experiment watches a service's latency while the load runs, and the tally is complete at the end only. The tally
passes each reply on to a reporter, which prints one JSON object a second.
Limits: seconds count from the beginning of the load, and one without a turn of the loop is told late.
"""

from __future__ import annotations

import json

from cotenant_lab.experiments.loads.open_loop import LatencySlots
from cotenant_lab.experiments.measures.histogram import Histogram


class ReplyReporter:
    """Prints a line per second about the replies in it."""

    def __init__(self, objective_us: int, began_us: int) -> None:
        self._objective_us = objective_us
        self._until_us = began_us + 1_000_000
        self._seen = Histogram()

    def answered(self, latency_us: int) -> None:
        """Count a reply."""
        self._seen.add(latency_us)

    def each_loop(self, now_us: int) -> None:
        """Print when a second is over."""
        if now_us < self._until_us:
            return
        seen, self._seen = self._seen, Histogram()
        self._until_us += 1_000_000
        live = {"requests": seen.total, "p99_us": seen.quantile_us(0.99), "over": seen.above(self._objective_us)}
        print(json.dumps({"live": live}), flush=True)


class ReportedSlots(LatencySlots):
    """A tally that also feeds the reporter."""

    def __init__(self, slot_us: int, began_us: int, reporter: ReplyReporter) -> None:
        super().__init__(slot_us, began_us)
        self._reporter = reporter

    def answered(self, due_us: int, now_us: int) -> None:
        """Count a reply in both."""
        super().answered(due_us, now_us)
        self._reporter.answered(now_us - due_us)
