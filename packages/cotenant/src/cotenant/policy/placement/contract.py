"""The interface of placement policies: their input and output.

A policy is either a *profile* (a queue order, filters and scores that are row-local: the engine runs it one pod at a
time, compiled, on the ledger) or a *round policy* (it decides on all waiting pods at once: flow, offers, machine-driven
packing). Both are pure functions: a snapshot, the time and a random generator in; rows with reasons out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from cotenant.model.arrays import Int, NodeArrays, PendingArrays, ResidentArrays, ShapeArrays, TenantArrays


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one instant. The arrays belong to the caller: a policy copies what it changes."""

    nodes: NodeArrays
    shapes: ShapeArrays
    pending: PendingArrays
    tenants: TenantArrays
    residents: ResidentArrays | None = None  # for the few policies that need the co-located pods


@dataclass(frozen=True, slots=True)
class RoundDecision:
    """`row[i]` is the node of the i-th pending pod, -1 = wait. `order` lists the placed pods' indexes in the order of
    the decisions.

    `reasons` counts why pods wait, in words for users; an empty decision also has a reason.
    """

    row: Int
    order: Int
    reasons: dict[str, int] = field(default_factory=dict)


class RoundPolicy(Protocol):
    """Decides on all waiting pods at once."""

    @property
    def name(self) -> str:
        """The name in reports."""
        ...

    def decide(self, snapshot: Snapshot, now_s: float, rng: np.random.Generator) -> RoundDecision:
        """Place pending pods on rows. Must not exceed capacity, nor use a node that is not ready or that a taint,
        selector or group limit excludes.
        """
        ...
