"""Why one node cannot give what is asked of it, and how little was missing.

Problem: "insufficient" is counted over nodes, so its words must be equal on many; what would have helped differs on each. Choice: two texts,
one to count by and one with the figures of this node. Limits: the nearest miss is one of possibly several.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """No, with the reason. It is false, so that an answer can be asked for by `if`."""

    reason: str  # the same words on every node it holds for
    nearest: str  # what this node lacks, with figures
    missing: int = 0  # how much that is, to compare nodes that are refused alike; 0 where it is no amount

    def __bool__(self) -> bool:
        return False
