"""What a placement policy sees and answers.

A policy is either a *profile* (an order of the queue, filters and scores that are row-local: the engine runs it one pod at a
time, compiled, through the ledger or the score tree) or a *round policy* (it judges all waiting pods at once: flow, offers,
machine-driven packing). Both are pure: a snapshot, the time and a generator in, rows with reasons out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from cotenant.model.arrays import Int, NodeArrays, PendingArrays, ResidentArrays, ShapeArrays, TenantArrays


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one instant. The arrays are the caller's: a policy copies what it wants to change."""

    nodes: NodeArrays
    shapes: ShapeArrays
    pending: PendingArrays
    tenants: TenantArrays
    residents: ResidentArrays | None = None  # for the few policies that ask who stands beside whom


@dataclass(frozen=True, slots=True)
class RoundDecision:
    """`row[i]` is the node of the i-th pending pod, -1 = wait. `order` lists the placed pods' indices in the order they were decided.

    `reasons` counts why pods wait, in words a person reads; a do-nothing decision has a reason too.
    """

    row: Int
    order: Int
    reasons: dict[str, int] = field(default_factory=dict)


class RoundPolicy(Protocol):
    """Judges all waiting pods at once."""

    @property
    def name(self) -> str:
        """As reports show it."""
        ...

    def decide(self, snapshot: Snapshot, now_s: float, rng: np.random.Generator) -> RoundDecision:
        """Place pending pods on rows. Must not place over capacity, on a node that is not ready, or on one that a taint, selector or group limit forbids."""
        ...
