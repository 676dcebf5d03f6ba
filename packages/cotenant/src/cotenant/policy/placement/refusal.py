"""Why one node cannot provide a request, and what it lacks.

Reasons are counted over nodes, so their text must be equal on many; the missing amount differs on each. Two texts, one
to count by and one with the figures of this node.
Limits: the nearest miss is one of possibly several.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """A negative result with the reason. It is falsy, so that callers can test the result with `if`."""

    reason: str  # equal text on every node where it applies
    nearest: str  # what this node lacks, with figures
    missing: int = 0  # the missing amount, to compare nodes with the same reason; 0 where it is no amount

    def __bool__(self) -> bool:
        return False
