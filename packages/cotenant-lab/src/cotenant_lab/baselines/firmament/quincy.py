"""Quincy's costs (Isard et al., SOSP 2009), as Firmament's released model has them: data transfer against waiting.

task to unscheduled 0.5 x wait (s) + offset 2,592,000; task to the cluster aggregator: cost of fetching its input on the
worst machine + the same offset; to a machine 0. Tasks of the lab read no local input, so the transfer cost is the same
everywhere (`transfer_cost`, 0) and there are no preferred machines or racks: what remains of Quincy is its wait-driven
order, and all machines cost the same. The solver's tie-breaking then piles tasks of a round on few machines, as the
model implies.

At wait 0 the published unscheduled cost is the offset, never above a placement's transfer cost + offset: with a clock
that stands still nothing need ever be placed, and with a transfer cost c a task waits 2 c seconds needlessly. Our
rounds raise the unscheduled costs above any placement (`costs.above_placement`); `Firmament(Quincy(), lift=False)`
shows the published behaviour.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.model.arrays import Int, ShapeArrays
from cotenant_lab.baselines.firmament.costs import NetworkRound
from cotenant_lab.baselines.firmament.network import Prices

OFFSET = 2_592_000
PER_SECOND = 0.5


@dataclass(frozen=True, slots=True)
class Quincy:
    """The Quincy cost model without input locality."""

    transfer_cost: int = 0  # of a task's input, the same on every machine
    name: str = "quincy"

    def label(self, shapes: ShapeArrays) -> Int:
        """Tasks differ by requests and constraints only."""
        return np.zeros(shapes.request.shape[0], np.int64)

    def prices(self, now: NetworkRound) -> Prices:
        """Costs of one round."""
        machines = np.zeros(now.rows.size, np.int64)
        return Prices(
            unscheduled=OFFSET + (PER_SECOND * now.wait_s).astype(np.int64),
            enter=np.full(now.shape.size, OFFSET + self.transfer_cost),
            assign=np.zeros((now.class_shape.size, now.rows.size), np.int64),
            first=machines,
            slope=machines,
        )
