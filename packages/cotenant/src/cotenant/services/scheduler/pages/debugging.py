"""Debug flags of a running scheduler: the top N scores of every pod that is judged, and the filters that reject nodes.

To see why one node won, every term of its score is needed, and logging every decision would overload the process. Both
are off, and cost nothing until a flag is set; then pods are judged one by one, each leaves a Markdown table in the log,
and the newest are kept for a page.
Limits: a table has at most `MAX_NODES` rows and a pod's list of failures `MAX_FAILURES` lines; flags are not kept
across a restart.
Source: founding document, v0.7, section 3: paths, replies and the form of the table.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cotenant.engine.cycle.rejections import FilterChecks
from cotenant.engine.cycle.score_parts import ScoreListener, Seen, table
from cotenant.model.decisions.record import CandidateNode
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import format_amount

MAX_NODES = 1000
MAX_FAILURES = 200
_KEPT = 256  # pods
_KEPT_ROWS = 20_000
_EVERY_STEP = 4

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """The best nodes for one pod, just before it was placed."""

    pod: str
    at_s: float
    passing: int  # nodes that were scored
    best: tuple[CandidateNode, ...]

    def markdown(self) -> str:
        """The table of the founding document: a column for each term, in the order of the terms."""
        names = list(dict.fromkeys(part.name for candidate in self.best for part in candidate.parts))
        lines = [
            f"| # | Pod | Node | Score | {' | '.join(names)} |",
            f"| --- | --- | --- | {' '.join(['---:|'] * (len(names) + 1))}",
        ]
        for place, candidate in enumerate(self.best):
            values = {part.name: part.value for part in candidate.parts}
            cells = " | ".join(_digits(values[name]) if name in values else "" for name in names)
            lines.append(f"| {place} | {self.pod} | {candidate.node} | {_digits(candidate.score)} | {cells} |")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Failures:
    """The filters that rejected nodes for one pod; `more` were not listed."""

    pod: str
    at_s: float
    lines: tuple[str, ...]
    more: int


class Debugging:
    """The flags, and what was kept because of them."""

    def __init__(self, observe: Callable[[ScoreListener | None], None]) -> None:
        """`observe` registers the listener of every judgement; None = no listener."""
        self.top_scores = 0
        self.filters = False
        self._observe = observe
        self._tables: deque[ScoreTable] = deque(maxlen=_KEPT)
        self._failures: deque[Failures] = deque(maxlen=_KEPT)

    def set_scores(self, text: str) -> str:
        """Set the flag `s`; returns the reply. Raises `InvalidInput`."""
        text = text.strip()
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) <= MAX_NODES):
            raise InvalidInput("debugTopNScores", text, f"a number of nodes from 0 (off) to {MAX_NODES}")
        self.top_scores = int(text)
        self._changed()
        return f"successfully set debugTopNScores to {text}"

    def set_filters(self, text: str) -> str:
        """Set the flag `f`; returns the reply. Raises `InvalidInput`."""
        text = text.strip()
        if text.lower() not in ("true", "false", "1", "0"):
            raise InvalidInput("debugFilterFailure", text, "true or false")
        self.filters = text.lower() in ("true", "1")
        self._changed()
        return f"successfully set debugFilterFailure to {text}"

    @staticmethod
    def set_verbosity(text: str) -> str:
        """Log as kube-scheduler would at this verbosity: every step from 4 on, below as the process was started.
        Raises `InvalidInput`.
        """
        text = text.strip()
        if not (text.isascii() and text.isdecimal() and len(text) < 3):
            raise InvalidInput("v", text, "a verbosity from 0 to 99", f"{_EVERY_STEP} and more logs every step")
        logging.getLogger("cotenant").setLevel(logging.DEBUG if int(text) >= _EVERY_STEP else logging.NOTSET)
        return f"successfully set klog.logging.verbosity to {text}"

    def tables(self, pod: str = "") -> tuple[ScoreTable, ...]:
        """The newest tables, oldest first; of one pod, or of all."""
        return tuple(score_table for score_table in self._tables if pod in ("", score_table.pod))

    def failures(self, pod: str = "") -> tuple[Failures, ...]:
        """The newest lists of failing filters, oldest first."""
        return tuple(failure for failure in self._failures if pod in ("", failure.pod))

    # ---- called by the engine

    def judging(self, seen: Seen) -> None:
        """A pod is about to be placed or rejected."""
        if self.top_scores:
            ranks = table(seen)
            if len(ranks):
                kept = ScoreTable(seen.pod, seen.at_s, len(ranks), ranks.best(self.top_scores))
                self._tables.append(kept)
                while sum(len(score_table.best) for score_table in self._tables) > _KEPT_ROWS:
                    self._tables.popleft()
                _log.info("the best %d of %d nodes for %s\n%s", len(kept.best), kept.passing, kept.pod, kept.markdown())
        if self.filters:
            found = _failures(seen, seen.check())
            if found.lines:
                self._failures.append(found)
                for line in found.lines:
                    _log.info("%s", line)
                if found.more:
                    _log.info("%d more filters failed for pod %s", found.more, seen.pod)

    def _changed(self) -> None:
        self._observe(self if self.top_scores or self.filters else None)


def _failures(seen: Seen, checked: FilterChecks) -> Failures:
    """One line for each node and filter, nodes by name."""
    lines: list[str] = []
    times = 0
    for check, refused in checked.counted():
        rows = np.flatnonzero(refused).tolist()
        times += len(rows)
        for row in sorted(rows[: MAX_FAILURES - len(lines)], key=lambda row: seen.names[row]):
            missing = ""
            if check.missing is not None and check.resource:
                missing = f", {format_amount(check.resource, int(check.missing[row]))} more are asked"
            lines.append(
                f"failed to filter for pod {seen.pod} on node {seen.names[row]}, plugin: {check.plugin}, "
                f"reason: {check.reason}{missing}"
            )
    return Failures(seen.pod, seen.at_s, tuple(lines), times - len(lines))


def _digits(value: float) -> str:
    return f"{value + 0.0:.5g}"
