"""A cluster's past for a consolidation to be tried on: use of nodes and of pods, and what pods request."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.assess.history import Float32
from cotenant.model.errors import InvalidInput

_BLOCK_VALUES = 4_000_000


@dataclass(frozen=True, slots=True)
class RecordedUse:
    """One resource: `nodes [nodes, steps]`, `pods [pods, steps]`; NaN = unknown."""

    nodes: Float32
    pods: Float32
    requested: Float  # of each pod; NaN = unknown
    capacity: Float  # of each node


@dataclass(frozen=True, slots=True)
class RecordedPods:
    """`on`: row of each pod's node, -1 = none; `resources`: one or several, of the same pods, nodes and steps."""

    resources: tuple[RecordedUse, ...]
    on: Int
    movable: Mask  # pods
    step_s: float
    runs: Mask = field(init=False)  # pods and steps: any use is known

    def __post_init__(self) -> None:
        if not self.resources:
            raise InvalidInput("resources", 0, "at least one")
        pods, steps = self.resources[0].pods.shape
        nodes = len(self.resources[0].nodes)
        for name, mine in (("on", self.on), ("movable", self.movable)):
            if len(mine) != pods:
                raise InvalidInput(f"pods' {name}", len(mine), f"one for each of {pods} pods")
        for of in self.resources:
            for name, shape, expected in (
                ("pods", of.pods.shape, (pods, steps)),
                ("nodes", of.nodes.shape, (nodes, steps)),
                ("pods' requested", of.requested.shape, (pods,)),
                ("capacity", of.capacity.shape, (nodes,)),
            ):
                if shape != expected:
                    raise InvalidInput(name, shape, f"{expected}, as all resources are of the same")
        runs = ~np.isnan(self.resources[0].pods)
        for of in self.resources[1:]:
            runs |= ~np.isnan(of.pods)
        object.__setattr__(self, "runs", runs)

    @property
    def steps(self) -> int:
        """Columns."""
        return self.resources[0].nodes.shape[1]

    @property
    def nodes(self) -> int:
        """How many."""
        return len(self.resources[0].nodes)

    def lives(self, half: int) -> tuple[Int, Int]:
        """Columns from `half` on at which each pod came and left; -1 = it was there before, or stayed."""
        steps = self.runs.shape[1]
        first = np.where(self.runs.any(axis=1), self.runs.argmax(axis=1), steps)
        last = steps - 1 - self.runs[:, ::-1].argmax(axis=1)
        later = self.runs[:, half:].any(axis=1)
        return np.where(later & (first >= half), first - half, -1), np.where(
            later & (last < steps - 1), last + 1 - half, -1
        )


def most_requested(requested: Float, runs: Mask) -> Float:
    """The most that pods request together at any step: `requested [resources, pods]` of those that run,
    `[pods, steps]`.
    """
    most = np.zeros(len(requested))
    asked = np.nan_to_num(requested).astype(np.float32)
    width = max(1, _BLOCK_VALUES // max(1, runs.shape[0]))
    for begin in range(0, runs.shape[1], width):
        sums = asked @ runs[:, begin : begin + width].astype(np.float32)
        most = np.maximum(most, sums.max(axis=1, initial=0.0))
    return most
