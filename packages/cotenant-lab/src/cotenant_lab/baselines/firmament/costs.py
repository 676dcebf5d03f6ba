"""The interface of cost models, and one rule that all of them obey here.

Where leaving a task unscheduled costs no more than placing it, the flow leaves it, and the scheduler scores 0 %. It
happens with published costs: Quincy's unscheduled cost grows with the wait from exactly a placement's offset, so with a
clock that stands still nothing is ever placed; a count of tasks may outgrow a constant. `above_placement` raises all
unscheduled costs of a round by the same amount until the smallest is above the most expensive placement; differences
between tasks, which decide the order of waiting when capacity is short, are kept.
Limits: a model can no longer hold a task back for a better machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from cotenant.model.arrays import Float, Int, NodeArrays, ResidentArrays, ShapeArrays
from cotenant_lab.baselines.firmament.network import Prices


@dataclass(frozen=True, slots=True)
class NetworkRound:
    """Tasks and machines of one network. T tasks, C classes, M machines (those that can take at least one task)."""

    nodes: NodeArrays
    shapes: ShapeArrays
    rows: Int  # [M] row of each machine in `nodes`
    shape: Int  # [T]
    wait_s: Float  # [T] seconds since the task became ready, not negative
    class_shape: Int  # [C] a shape that stands for the class
    fits: Int  # [C, M] how many of a class a machine can take
    residents: (
        ResidentArrays | None
    )  # pods of each node, including those placed so far by this decision; None = unknown


class CostModel(Protocol):
    """Prices a round. Pure."""

    @property
    def name(self) -> str:
        """The name in reports."""
        ...

    def label(self, shapes: ShapeArrays) -> Int:
        """[K] distinction of shapes by this model beyond requests and constraints: part of the request class."""
        ...

    def prices(self, now: NetworkRound) -> Prices:
        """Costs of one round."""
        ...


def above_placement(prices: Prices, fits: Int) -> Prices:
    """`prices` with every unscheduled cost raised until the smallest exceeds the most expensive placement."""
    if prices.unscheduled.size == 0 or not fits.any():
        return prices
    last = prices.first + prices.slope * (fits.max(axis=0).clip(1, prices.unscheduled.size) - 1)
    dearest = int(prices.enter.max()) + int((prices.assign + last)[fits > 0].max())
    lift = dearest + 1 - int(prices.unscheduled.min())
    return replace(prices, unscheduled=prices.unscheduled + lift) if lift > 0 else prices
