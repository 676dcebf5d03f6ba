"""The record of one placement decision: what was decided, when, and why.

Operators, tests and reports need the same answer to "why is it pending" and "why is it there". A frozen value that the
engine builds on request only, and lines of text derived from it.
Limits: candidates are the best few, not every node; equal scores keep the given order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, isfinite, isnan

from cotenant.model.decisions.reasons import Rejection, no_node_line
from cotenant.model.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class ScorePart:
    """One term of a score, weight included."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class CandidateNode:
    """A feasible node and the terms of its score."""

    node: str
    score: float
    parts: tuple[ScorePart, ...] = ()

    def rest(self) -> float:
        """The part of the score that its terms do not explain: clamping, truncation, rounding. 0 where there are no
        terms.
        """
        if not self.parts or not isfinite(self.score):
            return 0.0
        return self.score - fsum(part.value for part in self.parts)


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One pod's decision at `at_s`. `node` = where it was placed; None = it waits, and `waiting_because` may give a
    reason beyond the filters.
    """

    pod: str
    at_s: float
    nodes: int  # evaluated
    node: str | None
    rejections: tuple[Rejection, ...] = ()
    candidates: tuple[CandidateNode, ...] = ()  # best first
    waiting_because: str = ""  # e.g. a gang's quorum or a quota
    policy: str = ""
    nearest: str = ""  # what the nearest nodes lack; empty = not computed
    gang: str = ""  # of a placed pod: its gang
    together: int = 0  # number of members placed in the same step, this pod included

    def __post_init__(self) -> None:
        if isnan(self.at_s):
            raise InvalidInput(f"decision on {self.pod}", self.at_s, "a time in seconds")
        for candidate in self.candidates:
            score = candidate.score
            if isnan(score) or (candidate.parts and any(isnan(part.value) for part in candidate.parts)):
                raise InvalidInput(f"score of node {candidate.node}", score, "a number")

    def headline(self) -> str:
        """One line: where it was placed, or why it waits."""
        if self.node is not None:
            return f"placed on {self.node}"
        if self.waiting_because:
            return f"waits: {self.waiting_because}"
        return no_node_line(self.nodes, self.rejections)

    def gang_words(self) -> str:
        """The gang it was placed with; empty for a pod without a gang."""
        if not self.gang:
            return ""
        if self.together > 1:
            return f"placed with gang {self.gang}, {self.together} members in one step"
        return f"placed as a member of gang {self.gang}, by itself"

    def lines(self) -> tuple[str, ...]:
        """The full record as text: headline, rejected nodes per filter, candidates with each term of their scores."""
        by = f" by {self.policy}" if self.policy else ""
        lines = [f"{self.pod} at {self.at_s:g} s{by}: {self.headline()}"]
        if self.gang:
            lines.append(f"  {self.gang_words()}")
        lines.extend(
            f"  {rejection.nodes} of {self.nodes} rejected by {rejection.filter}: {rejection.reason}"
            for rejection in sorted(self.rejections, key=lambda r: (-r.nodes, r.filter, r.reason))
        )
        if self.nearest and self.node is None:
            lines.append(f"  nearest: {self.nearest}")
        for rank, candidate in enumerate(self.candidates, 1):
            parts = " ".join(f"{part.value:+.4g} {part.name}" for part in candidate.parts)
            rest = candidate.rest()
            if abs(rest) > 1e-9 * max(1.0, abs(candidate.score)):
                parts += f" {rest:+.4g} rounding or limits"
            chosen = " (chosen)" if candidate.node == self.node else ""
            lines.append(f"  {rank}. {candidate.node} {candidate.score:.4g}{chosen}" + (f" = {parts}" if parts else ""))
        return tuple(lines)
