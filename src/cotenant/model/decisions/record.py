"""The record of one placement decision: what was decided, when, and why.

Problem: "why is it pending, why is it there" must have one answer for operators, tests and reports. Choice: a frozen value that the engine
builds only when somebody asks, and lines of text from it. Limits: candidates are the best few, not every node; equal scores are shown
in the order given.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, isfinite, isnan

from cotenant.model.decisions.reasons import Rejection, no_node_line
from cotenant.model.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class ScorePart:
    """One term of a score, already multiplied by its weight."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that passed every filter, and what its score is made of."""

    node: str
    score: float
    parts: tuple[ScorePart, ...] = ()

    def __post_init__(self) -> None:
        if isnan(self.score) or (self.parts and any(isnan(part.value) for part in self.parts)):
            raise InvalidInput(f"score of node {self.node}", self.score, "a number")

    def rest(self) -> float:
        """What the parts leave unexplained: clamping, truncation, rounding. 0 where there are no parts."""
        if not self.parts or not isfinite(self.score):
            return 0.0
        return self.score - fsum(part.value for part in self.parts)


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One pod's decision at `at_s`. `node` is where it went; None = it waits, and `waiting_because` may say why beyond filters."""

    pod: str
    at_s: float
    nodes: int  # looked at
    node: str | None
    rejections: tuple[Rejection, ...] = ()
    candidates: tuple[Candidate, ...] = ()  # best first
    waiting_because: str = ""  # e.g. a gang's quorum or a quota
    policy: str = ""
    nearest: str = ""  # what the nodes that came nearest lack; empty = not asked
    gang: str = ""  # of a pod that was placed: the gang that it is a member of
    together: int = 0  # how many members were given their nodes in the same step, itself included

    def __post_init__(self) -> None:
        if isnan(self.at_s):
            raise InvalidInput(f"decision on {self.pod}", self.at_s, "a time in seconds")

    def headline(self) -> str:
        """One line: where it went, or why it waits."""
        if self.node is not None:
            return f"placed on {self.node}"
        if self.waiting_because:
            return f"waits: {self.waiting_because}"
        return no_node_line(self.nodes, self.rejections)

    def gang_words(self) -> str:
        """With which gang it was placed; empty for a pod of no gang."""
        if not self.gang:
            return ""
        if self.together > 1:
            return f"placed with gang {self.gang}, {self.together} members in one step"
        return f"placed as a member of gang {self.gang}, by itself"

    def lines(self) -> tuple[str, ...]:
        """The whole story for a person: headline, nodes per rejecting filter, candidates with each part of their scores."""
        by = f" by {self.policy}" if self.policy else ""
        told = [f"{self.pod} at {self.at_s:g} s{by}: {self.headline()}"]
        if self.gang:
            told.append(f"  {self.gang_words()}")
        told.extend(
            f"  {rejection.nodes} of {self.nodes} rejected by {rejection.filter}: {rejection.reason}"
            for rejection in sorted(self.rejections, key=lambda r: (-r.nodes, r.filter, r.reason))
        )
        if self.nearest and self.node is None:
            told.append(f"  nearest: {self.nearest}")
        for rank, candidate in enumerate(self.candidates, 1):
            parts = " ".join(f"{part.value:+.4g} {part.name}" for part in candidate.parts)
            rest = candidate.rest()
            if abs(rest) > 1e-9 * max(1.0, abs(candidate.score)):
                parts += f" {rest:+.4g} rounding or limits"
            chosen = " (chosen)" if candidate.node == self.node else ""
            told.append(f"  {rank}. {candidate.node} {candidate.score:.4g}{chosen}" + (f" = {parts}" if parts else ""))
        return tuple(told)
